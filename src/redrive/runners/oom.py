"""How often the kernel has killed a process here because memory ran out."""

from pathlib import Path


def oom_kills(root: Path = Path("/")) -> int | None:
    """The kernel's count of out-of-memory kills in our cgroup, else on this machine; None where it has none."""
    for path in (*_own_counters(root), root / "proc/vmstat"):
        count = _count(path)
        if count is not None:
            return count
    return None


def _own_counters(root: Path) -> list[Path]:
    """Where our cgroup may count, the closest first: of version 2 or 1, seen from the host or from inside."""
    found = []
    groups = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        group = group.lstrip("/")
        if not controllers:
            found += [groups / group / "memory.events.local", groups / group / "memory.events"]
        elif "memory" in controllers.split(","):
            found += [groups / "memory" / group / "memory.oom_control", groups / "memory" / "memory.oom_control"]
    return found


def _count(path: Path) -> int | None:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

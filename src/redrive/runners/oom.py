"""How often the kernel has killed a process here because memory ran out."""

from pathlib import Path

_CGROUPS = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")
_VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """The kernel's count of out-of-memory kills in our cgroup, else on this machine; None where it has none."""
    for path in (*_own_counters(), _VMSTAT):
        count = _count(path)
        if count is not None:
            return count
    return None


def _own_counters() -> list[Path]:
    found = []
    for line in _read(_CGROUPS).splitlines():
        _, controllers, group = line.split(":", 2)
        group = group.lstrip("/")
        if not controllers:
            found.append(_ROOT / group / "memory.events")
        elif "memory" in controllers.split(","):
            found += [_ROOT / "memory" / group / "memory.oom_control", _ROOT / "memory" / "memory.oom_control"]
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

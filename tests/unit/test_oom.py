"""Where the kernel's count of out-of-memory kills is read, on files as kernels write them."""

from pathlib import Path

import pytest

from redrive.runners.oom import oom_kills

VMSTAT = "nr_free_pages 81234\noom_kill 7\nnr_written 12\n"
EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {count}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {count}\n"
MIXED = "9:name=systemd:/\n4:memory:/box/a\n2:cpu,cpuacct:/\n0::/\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    """A root with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("files", "count"),
    [
        pytest.param(
            {
                "proc/self/cgroup": "0::/user.slice/a\n",
                "sys/fs/cgroup/user.slice/a/memory.events.local": EVENTS.format(count=1),
                "sys/fs/cgroup/user.slice/a/memory.events": EVENTS.format(count=4),
                "proc/vmstat": VMSTAT,
            },
            1,
            id="version 2, this group alone",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/user.slice/a\n",
                "sys/fs/cgroup/user.slice/a/memory.events": EVENTS.format(count=4),
                "proc/vmstat": VMSTAT,
            },
            4,
            id="version 2 of an older kernel",
        ),
        pytest.param(
            {
                "proc/self/cgroup": MIXED,
                "sys/fs/cgroup/memory/box/a/memory.oom_control": CONTROL.format(count=2),
                "proc/vmstat": VMSTAT,
            },
            2,
            id="version 1 beside version 2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": MIXED,
                "sys/fs/cgroup/memory/memory.oom_control": CONTROL.format(count=5),
                "proc/vmstat": VMSTAT,
            },
            5,
            id="version 1 inside a container",
        ),
        pytest.param({"proc/self/cgroup": "0::/\n", "proc/vmstat": VMSTAT}, 7, id="the machine's own count"),
        pytest.param({"proc/vmstat": "nr_free_pages 81234\n"}, None, id="a kernel that does not count"),
        pytest.param({}, None, id="no such files"),
    ],
)
def test_the_closest_count_is_the_one_that_is_read(tmp_path: Path, files: dict[str, str], count: int | None) -> None:
    """Of our cgroup where it has one, else of the machine."""
    assert oom_kills(machine(tmp_path, files)) == count


def test_this_machine_can_be_asked() -> None:
    """Whatever it is."""
    count = oom_kills()
    assert count is None or count >= 0

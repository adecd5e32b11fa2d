"""A worker is certainly gone only when nobody holds the lock of the very file it made."""

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.presence import WRITE_LOCK, Presence, cleanup, gone, sweep
from tests.processes import alive
from tests.waiting import until

PROGRAM = Path(__file__).parent / "programs" / "present_and_forked.py"


@pytest.fixture
def presence(tmp_path: Path) -> Iterator[Presence]:
    """A worker that lives in this process."""
    held = Presence(tmp_path, "worker-1")
    yield held
    held.leave()


def left_behind(folder: Path) -> tuple[int, int]:
    """Device and inode of a worker that died: its file is there, unlocked."""
    dead = Presence(folder, "worker-1")
    dead.leave()
    return dead.device, dead.inode


def test_a_worker_that_lives_is_not_gone(tmp_path: Path, presence: Presence) -> None:
    """Asked by any process, also its own."""
    assert not gone(tmp_path, "worker-1", presence.device, presence.inode)


def test_a_worker_whose_file_nobody_locks_is_gone(tmp_path: Path) -> None:
    """The lock ended with its process."""
    assert gone(tmp_path, "worker-1", *left_behind(tmp_path))


def test_a_missing_file_tells_nothing(tmp_path: Path, presence: Presence) -> None:
    """Somebody may have cleaned a folder: its lease has to end first."""
    presence.path.unlink()
    assert not gone(tmp_path, "worker-1", presence.device, presence.inode)
    assert not gone(tmp_path / "nowhere", "worker-1", presence.device, presence.inode)


@pytest.mark.parametrize("wrong", ["device", "inode"])
def test_another_file_in_its_place_tells_nothing(tmp_path: Path, wrong: str) -> None:
    """A copy, or a restored folder, was never its lock."""
    device, inode = left_behind(tmp_path)
    assert not gone(tmp_path, "worker-1", device + (wrong == "device"), inode + (wrong == "inode"))


def test_a_link_in_its_place_tells_nothing(tmp_path: Path) -> None:
    """Nobody is led to the lock of another file."""
    device, inode = left_behind(tmp_path)
    path = tmp_path / "worker-1.lock"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not gone(tmp_path, "worker-1", device, inode)
    assert not cleanup(tmp_path, "worker-1", device, inode)


def test_two_may_look_at_once(tmp_path: Path) -> None:
    """One who looks is not taken for the worker by another who looks."""
    device, inode = left_behind(tmp_path)
    looking = os.open(tmp_path / "worker-1.lock", os.O_RDONLY)
    try:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert gone(tmp_path, "worker-1", device, inode)
    finally:
        os.close(looking)


def test_the_file_of_a_worker_that_lives_is_never_removed(tmp_path: Path, presence: Presence) -> None:
    """Whoever asks for it."""
    assert not cleanup(tmp_path, "worker-1", presence.device, presence.inode)
    assert presence.path.exists()


def test_the_file_of_a_worker_that_is_gone_is_removed_once(tmp_path: Path) -> None:
    """The second who tries finds nothing to do."""
    device, inode = left_behind(tmp_path)
    assert cleanup(tmp_path, "worker-1", device, inode)
    assert not (tmp_path / "worker-1.lock").exists()
    assert not cleanup(tmp_path, "worker-1", device, inode)


def test_a_file_that_is_not_its_own_is_not_removed(tmp_path: Path) -> None:
    """The row says another inode than the folder has."""
    device, inode = left_behind(tmp_path)
    assert not cleanup(tmp_path, "worker-1", device, inode + 1)
    assert (tmp_path / "worker-1.lock").exists()


def aged(path: Path) -> Path:
    """A file that nobody has touched since the epoch."""
    path.touch()
    os.utime(path, (0, 0))
    return path


def test_old_files_of_workers_that_nobody_knows_are_swept(tmp_path: Path) -> None:
    """Whoever made them died before the store knew of it, or after it was forgotten."""
    left_behind(tmp_path)
    aged(tmp_path / "worker-1.lock")
    assert sweep(tmp_path, set(), 30) == ["worker-1"]
    assert list(tmp_path.iterdir()) == []


def test_only_old_files_of_dead_and_unknown_workers_are_swept(tmp_path: Path, presence: Presence) -> None:
    """Not one that lives, however old; not one that may just be starting; not one the store knows; not the writers'."""
    spared = [aged(presence.path), aged(tmp_path / "known.lock"), aged(tmp_path / WRITE_LOCK), tmp_path / "new.lock"]
    spared[-1].touch()
    assert sweep(tmp_path, {"known"}, 30) == []
    assert all(path.exists() for path in spared)


def test_a_worker_that_leaves_takes_its_file_along(tmp_path: Path, presence: Presence) -> None:
    """And is not taken for one that died; leaving twice is leaving once."""
    presence.close()
    assert list(tmp_path.iterdir()) == []
    assert not gone(tmp_path, "worker-1", presence.device, presence.inode)
    presence.close()


def test_a_worker_that_leaves_does_not_remove_the_file_of_another(tmp_path: Path, presence: Presence) -> None:
    """Its own was moved away, and there is a new one of that name."""
    presence.path.rename(tmp_path / "elsewhere")
    presence.path.touch()
    presence.close()
    assert presence.path.exists()


def test_only_its_owner_can_read_the_file(presence: Presence) -> None:
    """As every file of ours."""
    assert stat.S_IMODE(presence.path.stat().st_mode) == 0o600


def test_an_id_is_taken_once(tmp_path: Path, presence: Presence) -> None:
    """Two workers of one name would each be the other's sign of life."""
    with pytest.raises(FileExistsError):
        Presence(tmp_path, "worker-1")


@pytest.mark.parametrize("id", ["", ".", "../worker", "a/b"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, id: str) -> None:
    """It comes from a setting or from a row."""
    with pytest.raises(ValueError, match="cannot be the id of a worker"):
        Presence(tmp_path, id)
    with pytest.raises(ValueError, match="cannot be the id of a worker"):
        gone(tmp_path, id, 1, 1)


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A worker process that has forked; device, inode and the pid of the fork."""
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, [int(word) for word in process.stdout.readline().split()]
        process.kill()


Forked = tuple[subprocess.Popen[str], list[int]]


def test_a_fork_does_not_hold_the_lock(tmp_path: Path, forked: Forked) -> None:
    """A worker that was killed is gone although its fork lives on."""
    process, (device, inode, fork) = forked
    assert not gone(tmp_path, "worker-1", device, inode)
    process.kill()
    process.wait()
    until(lambda: gone(tmp_path, "worker-1", device, inode))
    assert alive(fork)


def test_a_fork_does_not_drop_the_lock(tmp_path: Path, forked: Forked) -> None:
    """It closed what it inherited, and even ended: the worker is still there, and so is its file."""
    process, (device, inode, fork) = forked
    assert process.stdin is not None
    process.stdin.close()
    until(lambda: not alive(fork))
    assert not gone(tmp_path, "worker-1", device, inode)
    assert not cleanup(tmp_path, "worker-1", device, inode)
    assert (tmp_path / "worker-1.lock").exists()


def test_a_process_that_a_worker_starts_does_not_hold_the_lock(tmp_path: Path, presence: Presence) -> None:
    """The file is closed where another program begins, even one that inherits all it can."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as cat:
        presence.leave()
        assert gone(tmp_path, "worker-1", presence.device, presence.inode)
        assert cat.poll() is None

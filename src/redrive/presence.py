"""A worker's sign of life on its own host: a lock on a file of its own, which ends with the process."""

import fcntl
import os
import time
import weakref
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WRITE_LOCK = "write.lock"
"""The one lock here that is no worker's."""

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_held: "weakref.WeakSet[Presence]" = weakref.WeakSet()


class Presence:
    """Holds `<folder>/<worker id>.lock` locked as long as this process lives or until it is closed."""

    def __init__(self, folder: Path, worker_id: str) -> None:
        self.path = _path(folder, worker_id)
        self._file = os.open(self.path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(self._file)
        self.device = status.st_dev
        self.inode = status.st_ino
        _held.add(self)

    def close(self) -> None:
        """Take the sign away: this worker has left."""
        if self._file >= 0:
            if _same(self.path, self.device, self.inode):
                self.path.unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Close the file without touching what is on the disk, as a forked child must."""
        file, self._file = self._file, -1
        _held.discard(self)
        if file >= 0:
            os.close(file)


def gone(folder: Path, worker_id: str, device: int, inode: int) -> bool:
    """Whether that worker has certainly ended: its very file is there and nobody holds its lock."""
    with _locked(folder, worker_id, device, inode, fcntl.LOCK_SH) as locked:
        return locked


def cleanup(folder: Path, worker_id: str, device: int, inode: int) -> bool:
    """Remove the file of a worker that is gone; False when it is not certain or somebody else is at it."""
    with _locked(folder, worker_id, device, inode, fcntl.LOCK_EX) as locked:
        path = _path(folder, worker_id)
        if not locked or not _same(path, device, inode):
            return False
        path.unlink()
        return True


def sweep(folder: Path, known: Container[str], age: float) -> list[str]:
    """Remove the files of workers that are gone and that the store does not know (any more); answers whose they were.

    A worker that is only just starting is not known yet, and may not have locked its file: one is left alone until
    nobody has touched it for `age` seconds.
    """
    swept = []
    for path in folder.glob("*.lock"):
        if path.name == WRITE_LOCK or path.stem in known:
            continue
        with suppress(FileNotFoundError):
            status = path.lstat()
            if time.time() - status.st_mtime > age and cleanup(folder, path.stem, status.st_dev, status.st_ino):
                swept.append(path.stem)
    return swept


@contextmanager
def _locked(folder: Path, worker_id: str, device: int, inode: int, mode: int) -> Iterator[bool]:
    try:
        file = os.open(_path(folder, worker_id), _OPEN)
    except OSError:  # missing, a link, not ours to open: nothing is known
        yield False
        return
    try:
        status = os.fstat(file)
        yield (status.st_dev, status.st_ino) == (device, inode) and _take(file, mode)
    finally:
        os.close(file)


def _take(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(path: Path, device: int, inode: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (device, inode)


def _path(folder: Path, worker_id: str) -> Path:
    if not worker_id or worker_id != Path(worker_id).name:
        raise ValueError(f"{worker_id!r} cannot be the id of a worker: it is used as a file name")
    return folder / f"{worker_id}.lock"


def _leave_all() -> None:
    for presence in list(_held):
        presence.leave()


os.register_at_fork(after_in_child=_leave_all)

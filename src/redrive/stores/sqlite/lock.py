"""The write lock: a `flock` on a file beside the database, so that writers of several processes wait in line.

SQLite's own lock is polled, and under load a writer can starve; a blocking `flock` hands over at once.
"""

import fcntl
import os
import time
from pathlib import Path

from redrive.errors import StoreUnavailable

_LOOK = 0.02


class WriteLock:
    """Held around each transaction of the writer thread; the file says who holds it."""

    def __init__(self, home: Path) -> None:
        self.path = home / "write.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.path, flags, 0o600)
        self._name = f"{os.getpid():<20}\n".encode()

    def acquire(self) -> None:
        """Wait until nobody else writes."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.pwrite(self._file, self._name, 0)

    def acquire_within(self, seconds: float, otherwise: str) -> None:
        """Wait for so long at the most; `otherwise` begins the sentence that is raised then."""
        until = time.monotonic() + seconds
        while not self._taken():
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"{otherwise}: process {self.holder()} has been writing for {seconds:g}s; "
                    "see what it does, end it if it hangs, and try again"
                )
            time.sleep(_LOOK)
        os.pwrite(self._file, self._name, 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the next one write."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def holder(self) -> str:
        """The process that wrote its number last."""
        return os.pread(self._file, 20, 0).decode(errors="replace").strip() or "(unknown)"

    def drop(self) -> None:
        """Close the file; a lock that a parent process holds stays with the parent."""
        os.close(self._file)

"""The write lock: a `flock` on a file beside the database, so that writers of several processes wait in line.

SQLite's own lock is polled, and under load a writer can starve; a blocking `flock` hands over at once.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from redrive.errors import StoreUnavailable

_LOOK = 0.02


class WriteLock:
    """Held around each transaction of the writer thread; the file says who holds it."""

    def __init__(self, home: Path) -> None:
        self.path = home / "write.lock"
        self._pid = str(os.getpid())
        self._file = self._opened()

    def renew(self) -> None:
        """The folder may be another one than before: the line forms at the lock that is there now."""
        found = self._opened()
        os.close(self._file)
        self._file = found

    def acquire(self) -> None:
        """Wait until nobody else writes."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._sign()

    def acquire_within(self, seconds: float, otherwise: str) -> None:
        """Wait for so long at the most; `otherwise` begins the sentence that is raised then."""
        until = time.monotonic() + seconds
        while not self._taken():
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"{otherwise}: {self.holder()} has been writing for {seconds:g}s; "
                    "see what it does, end it if it hangs, and try again"
                )
            time.sleep(_LOOK)
        self._sign()

    def release(self) -> None:
        """Let the next one write, also when a child process has a copy of this file open."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def holder(self) -> str:
        """Who keeps others from writing, as a phrase: the process that wrote its number last."""
        pid = os.pread(self._file, 20, 0).decode(errors="replace").strip()
        if pid == self._pid:
            return f"this process ({pid}), or another program that has the file locked,"
        return f"process {pid or '(unknown)'}"

    def drop(self) -> None:
        """Close the file; a lock that a parent process holds stays with the parent."""
        os.close(self._file)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _sign(self) -> None:
        with suppress(OSError):  # only for a message to others, and a full disk may refuse even that
            os.pwrite(self._file, f"{self._pid:<20}\n".encode(), 0)

"""Hints between processes: each listener owns a FIFO beside the file, and who makes jobs ready writes a byte to all."""

import asyncio
import errno
import os
import threading
import time
from contextlib import suppress
from glob import escape
from pathlib import Path

_SUFFIX = ".wake"
_TICK = 2_000_000_000
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Ear:
    """The FIFO of one listener; hints that come while it is busy wait in the pipe."""

    def __init__(self, home: Path, listener: str) -> None:
        self.path = home / f"{listener}{_SUFFIX}"
        making = home / f"{listener}.{os.getpid()}.making"
        self.path.unlink(missing_ok=True)
        making.unlink(missing_ok=True)  # of a process that had this number and died on the way
        os.mkfifo(making, 0o600)
        self._file = os.open(making, _READ)
        self._open = os.open(making, _WRITE)  # a pipe without writers would read as ended
        making.rename(self.path)  # under its name only once somebody listens: one that nobody reads is left over

    def is_there(self) -> bool:
        """Whether others can find it: whoever cleans up beside the file may have taken it away."""
        return self.path.exists()

    async def wait(self, timeout: float) -> bool:
        """Rest until a hint comes; many are one."""
        if self._heard():
            return True
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._file, woken.set)
        try:
            async with asyncio.timeout(timeout):  # `wait_for` of Python 3.11 loses a cancellation that meets a hint
                await woken.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._file)
        return self._heard()

    def _heard(self) -> bool:
        heard = False
        with suppress(BlockingIOError):
            while os.read(self._file, 4096):
                heard = True
        return heard

    def close(self, *, unlink: bool = True) -> None:
        """Listen no longer; a forked child leaves the file to its parent."""
        if unlink:
            self.path.unlink(missing_ok=True)
        os.close(self._file)
        os.close(self._open)


def forget(home: Path, listener: str) -> None:
    """Remove the pipe of a listener that is gone, and one that it died of making."""
    for name in (f"{listener}{_SUFFIX}", *(path.name for path in home.glob(f"{escape(listener)}.*.making"))):
        (home / name).unlink(missing_ok=True)


class Bell:
    """Rings every ear; the folder is read again only when it may have changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen = 0
        self._files: dict[str, int] = {}
        self._ringing = threading.Lock()

    def ring(self) -> None:
        """Tell every listener that jobs may be ready; one that cannot be told will look by itself."""
        with self._ringing, suppress(OSError):
            self._look()
            for name, file in list(self._files.items()):
                self._tell(name, file)

    def _tell(self, name: str, file: int) -> None:
        try:
            os.write(file, b".")
        except BlockingIOError:
            return  # its pipe is full: it has been told
        except OSError:
            os.close(self._files.pop(name))  # nobody reads it any more
            self._seen = 0

    def _look(self) -> None:
        changed = self._home.stat().st_mtime_ns
        if changed == self._seen:
            return
        names = {path.name for path in self._home.glob(f"*{_SUFFIX}")}
        for name in self._files.keys() - names:
            os.close(self._files.pop(name))
        for name in names - self._files.keys():
            self._add(name)
        settled = time.time_ns() - changed > _TICK  # two changes within a tick of the file system look like one
        self._seen = changed if settled else 0

    def _add(self, name: str) -> None:
        path = self._home / name
        try:
            self._files[name] = os.open(path, _WRITE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                path.unlink(missing_ok=True)  # its listener is gone

    def close(self) -> None:
        """Let go of the pipes."""
        while self._files:
            os.close(self._files.popitem()[1])

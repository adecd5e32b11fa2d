"""Hints between processes: each listener owns a FIFO beside the file, and who makes jobs ready writes a byte to all."""

import asyncio
import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".wake"
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Ear:
    """The FIFO of one listener; hints that come while it is busy wait in the pipe."""

    def __init__(self, home: Path, listener: str) -> None:
        self.path = home / f"{listener}{_SUFFIX}"
        making = home / f"{listener}.{os.getpid()}.making"
        self.path.unlink(missing_ok=True)
        os.mkfifo(making, 0o600)
        self._file = os.open(making, _READ)
        self._open = os.open(making, _WRITE)  # a pipe without writers would read as ended
        making.rename(self.path)  # under its name only once somebody listens: one that nobody reads is left over

    async def wait(self, timeout: float) -> bool:
        """Rest until a hint comes; many are one."""
        if self._heard():
            return True
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._file, woken.set)
        try:
            await asyncio.wait_for(woken.wait(), timeout)
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


class Bell:
    """Rings every ear; the folder is read again only when it has changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen = 0
        self._files: dict[str, int] = {}
        self._ringing = threading.Lock()

    def ring(self) -> None:
        """Tell every listener that jobs may be ready; one whose pipe is full has been told already."""
        with self._ringing, suppress(FileNotFoundError):
            self._look()
            for name, file in list(self._files.items()):
                try:
                    os.write(file, b".")
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    os.close(self._files.pop(name))

    def _look(self) -> None:
        changed = self._home.stat().st_mtime_ns
        if changed == self._seen:
            return
        names = {path.name for path in self._home.glob(f"*{_SUFFIX}")}
        for name in self._files.keys() - names:
            os.close(self._files.pop(name))
        for name in names - self._files.keys():
            self._add(name)
        self._seen = changed

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

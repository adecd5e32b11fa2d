"""What a child process prints: passed on line by line, its end kept for the autopsy."""

import os
import select
import threading
from collections.abc import Callable

Forward = Callable[[bytes], None]

KEPT_LINES = 20
KEPT_BYTES = 4096
_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
_POLL_MS = 250


def to_stderr(lines: bytes) -> None:
    """Pass lines on to this process's own stderr."""
    view = memoryview(lines)
    while view:
        view = view[os.write(2, view) :]


class Output:
    """Reads a child's pipe to its end in a thread, so that the child never waits for us."""

    def __init__(self, file: int, forward: Forward) -> None:
        self._file = file
        self._forward = forward
        self._tail = b""
        self._keeping = threading.Lock()
        self._partial = b""
        self._ending = False
        self._thread = threading.Thread(target=self._drain, name="redrive-child-output", daemon=True)
        self._thread.start()

    def mark(self) -> None:
        """What comes from here on belongs to another job."""
        with self._keeping:
            self._tail = b""

    def tail(self) -> str:
        """The last lines since the mark."""
        text = self._tail.decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-KEPT_LINES:])

    def finish(self, patience: float) -> None:
        """The child is dead: take what is left in the pipe, without waiting for a descendant that still holds it."""
        self._ending = True
        self._thread.join(patience)

    def _drain(self) -> None:
        watch = select.poll()
        watch.register(self._file, select.POLLIN | select.POLLHUP)
        try:
            while chunk := self._next(watch):
                with self._keeping:
                    self._tail = (self._tail + chunk)[-KEPT_BYTES:]
                self._pass_on(chunk)
            self._pass_on(b"\n" if self._partial else b"")
        finally:
            os.close(self._file)

    def _next(self, watch: select.poll) -> bytes:
        while not watch.poll(0 if self._ending else _POLL_MS):
            if self._ending:
                return b""
        return os.read(self._file, _CHUNK)

    def _pass_on(self, chunk: bytes) -> None:
        lines, newline, rest = (self._partial + chunk).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, newline, rest = lines + newline + rest, b"\n", b""
        self._partial = rest
        if newline:
            self._tell(lines + newline)

    def _tell(self, lines: bytes) -> None:
        try:
            self._forward(lines)
        except OSError:
            self._forward = _nowhere  # our own stderr is closed: go on reading, or the child would stand still


def _nowhere(lines: bytes) -> None:
    pass

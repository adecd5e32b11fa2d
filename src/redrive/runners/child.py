"""The child's side of running jobs in a process of their own: it knows frames, and nothing of apps or tasks."""

import asyncio
import atexit
import faulthandler
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from redrive.runners.descendants import descendants, end, own_children
from redrive.runners.frames import CAP, BadFrame, Kind, packed, packed_seconds, receive_frame
from redrive.runners.parent import die_with_parent_and_all, end_group, leave_no_core

CHANNEL = "REDRIVE_CHILD_CHANNEL"
PARENT = "REDRIVE_CHILD_PARENT"
LIFELINE = "REDRIVE_CHILD_LIFELINE"
EXIT_BROKEN = 70
_SENTENCE_LIMIT = 4 * 1024
_TRACE_LIMIT = 32 * 1024

T = TypeVar("T")

Handler = Callable[[bytes], bytes | Awaitable[bytes]]
Start = Callable[[bytes, "Parent"], Handler | Awaitable[Handler]]
Stop = Callable[[], Awaitable[None] | None]


def serve(start: Start, stop: Stop | None = None) -> None:
    """Start with the parent's hello, answer its jobs one by one, and end when it says goodbye or is gone."""
    channel = socket.socket(fileno=int(os.environ.pop(CHANNEL)))
    channel.set_inheritable(False)
    _settle_in()
    asyncio.run(_Child(Parent(channel), start, stop).live())


class Parent:
    """The other side, as jobs and their keeper may speak to it, from any thread."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self._speaking = threading.Lock()
        self._working = False

    def extend(self, seconds: float) -> None:
        """Have the deadline of the running job moved to so many seconds from now; nothing when none runs."""
        with self._speaking:
            if self._working:
                self._send(Kind.EXTEND, packed_seconds(seconds))

    def tell(self, kind: Kind, body: bytes = b"") -> None:
        """Send a frame."""
        with self._speaking:
            self._working = kind is Kind.TAKEN
            self._send(kind, body)

    def _send(self, kind: Kind, body: bytes) -> None:
        try:
            self.channel.sendall(packed(kind, body))
        except OSError:  # a parent that is gone takes us with it
            end_group()


def _settle_in() -> None:
    lifeline = int(os.environ.pop(LIFELINE))
    os.set_inheritable(lifeline, False)
    die_with_parent_and_all(int(os.environ.pop(PARENT)), lifeline)
    leave_no_core()
    atexit.register(_end_what_is_left, os.getpid())  # before the app registers its own, so called after them
    faulthandler.enable(all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _end_what_is_left(own: int) -> None:
    if os.getpid() == own:
        end(descendants(own))


class _Child:
    def __init__(self, parent: Parent, start: Start, stop: Stop | None) -> None:
        self._parent = parent
        self._start = start
        self._stop = stop
        self._frames: asyncio.Queue[tuple[Kind, bytes]] = asyncio.Queue()

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), name="redrive-parent", daemon=True).start()
        handle = await self._begin()
        if handle is None:
            return
        while True:
            kind, body = await self._frames.get()
            if kind is not Kind.JOB:
                break
            await self._work(handle, body)
        if self._stop is not None:
            await _value(self._stop())

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (frame := receive_frame(self._parent.channel)) is not None:
                loop.call_soon_threadsafe(self._frames.put_nowait, frame)
        except (BadFrame, OSError, RuntimeError):
            traceback.print_exc()
        end_group()

    async def _begin(self) -> Handler | None:
        _, hello = await self._frames.get()
        try:
            handle = await _value(self._start(hello, self._parent))
        except BaseException as error:  # noqa: BLE001 - whatever a user's module raises when imported
            self._parent.tell(Kind.START_FAILED, _told(error).encode("utf-8", "replace"))
            return None
        self._parent.tell(Kind.READY)
        return handle

    async def _work(self, handle: Handler, body: bytes) -> None:
        (cap,) = CAP.unpack_from(body)
        before = own_children()
        self._parent.tell(Kind.TAKEN)
        try:
            with _capped(cap):
                reply = await _value(handle(body[CAP.size :]))
        except BaseException:  # noqa: BLE001 - what the handler's keeper lets through leaves nothing to trust
            traceback.print_exc()
            os._exit(EXIT_BROKEN)
        # What the job has started and left running ends with this process, which nobody else is to share with it.
        self._parent.tell(Kind.REPLY if own_children() <= before else Kind.LAST, reply)


async def _value(given: T | Awaitable[T]) -> T:
    return await given if isinstance(given, Awaitable) else given


def _told(error: BaseException) -> str:
    """Why the start failed: a sentence, NUL, the traceback."""
    sentence = f"{type(error).__name__}: {_text(error)}".replace("\0", "")
    return f"{sentence[:_SENTENCE_LIMIT]}\0{traceback.format_exc()[-_TRACE_LIMIT:]}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 - a user's __str__
        return f"(its text raised {type(another).__name__})"


@contextmanager
def _capped(cap: int) -> Iterator[None]:
    """While a job runs, what it allocates beyond its cap raises MemoryError; other systems leave it to the parent."""
    if not cap or sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resident, data = _memory()
    limit = data + max(cap - resident, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _memory() -> tuple[int, int]:
    """Bytes in memory, which the parent's watch looks at, and bytes of data, which libraries reserve and do not use."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(pages[1]) * resource.getpagesize(), int(pages[5]) * resource.getpagesize()

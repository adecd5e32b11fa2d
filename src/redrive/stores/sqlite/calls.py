"""What is asked of a thread that talks to SQLite, and how its answer finds the way back to the loop that asked."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from redrive.errors import StoreUnavailable

T = TypeVar("T")


class Call(Generic[T]):
    """An operation and who waits for it; either it begins or it is given up, never both."""

    __slots__ = ("_answer", "_decided", "_error", "future", "loop", "operation")

    def __init__(self, operation: Callable[[Any], T]) -> None:
        self.operation = operation
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self._decided = threading.Lock()  # taken once, by the thread that begins it or by the loop that gives it up
        self._answer: T | None = None
        self._error: BaseException | None = None

    def begin(self) -> bool:
        """Whether it is still wanted; from here on it happens."""
        return self._decided.acquire(blocking=False)

    def give_up(self, error: BaseException | None = None) -> bool:
        """Let it not happen, and say why to whoever waits; False when it has begun."""
        given_up = self._decided.acquire(blocking=False)
        if given_up and error is not None and not self.future.done():
            self.future.set_exception(error)
        return given_up

    @property
    def is_unwanted(self) -> bool:
        """Whether who asked has left, or has been told something else; any thread may ask."""
        return self.future.done()

    async def outcome(self) -> T:
        """What came of it; who no longer wants to know does not want it to begin either."""
        try:
            return await self.future
        except asyncio.CancelledError:
            self.give_up()
            raise

    def answered(self, answer: T) -> None:
        """It went well; nobody learns of it before it is delivered."""
        self._answer, self._error = answer, None

    def failed(self, error: BaseException) -> None:
        """It did not."""
        self._error = error

    def tell(self) -> None:
        """On the loop that asked: the answer, or the error."""
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._answer)  # type: ignore[arg-type]  # an answer of type T may be None


class Inbox:
    """Calls on their way to a thread, or to several; once closed it takes no more."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False

    def put(self, call: Call[Any]) -> None:
        """Leave a call; after the end nobody would ever answer it."""
        with self._gate:
            if self._closed:
                raise StoreUnavailable("the store is being closed; open it again")
            self._calls.put(call)

    def close(self) -> None:
        """What is in it is still answered."""
        with self._gate:
            self._closed = True
            self._calls.put(None)

    def get(self) -> Call[Any] | None:
        """Wait for the next call; None at the end."""
        return self._seen(self._calls.get())

    def more(self, limit: int) -> list[Call[Any]]:
        """What waits now, up to a limit."""
        calls: list[Call[Any]] = []
        with suppress(Empty):
            while len(calls) < limit and (call := self._seen(self._calls.get_nowait())) is not None:
                calls.append(call)
        return calls

    def _seen(self, call: Call[Any] | None) -> Call[Any] | None:
        if call is None:
            self._calls.put(None)  # the end stays there, for the next look and for the other threads
        return call


async def aside(work: Callable[[], T]) -> T:
    """Run something slow in a thread of its own: the loop's executor takes nothing once the program is ending."""
    call: Call[T] = Call(lambda _: work())
    call.begin()
    try:
        threading.Thread(target=_served, args=(call,), name="redrive-aside", daemon=True).start()
    except RuntimeError:  # nor may threads be started then: there is nobody else left to hinder
        _served(call)
    return await call.outcome()


def _served(call: Call[Any]) -> None:
    try:
        call.answered(call.operation(None))
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who waits
        call.failed(error)
    deliver([call])


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Hand back the answers, each loop woken once."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Call[Any]]] = defaultdict(list)
    for call in calls:
        by_loop[call.loop].append(call)
    for loop, theirs in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            loop.call_soon_threadsafe(_tell, theirs)


def _tell(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.tell()

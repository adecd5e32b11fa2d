"""What is asked of a thread that talks to SQLite, and how its answer finds the way back to the loop that asked."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """An operation and who waits for it; one that nobody waits for any more is not begun."""

    __slots__ = ("_answer", "_error", "_given_up", "begun", "future", "loop", "operation")

    def __init__(self, operation: Callable[[Any], T]) -> None:
        self.operation = operation
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.begun = False
        self._given_up = False
        self._answer: T | None = None
        self._error: BaseException | None = None

    def begin(self) -> bool:
        """Whether it is still wanted; from here on it happens."""
        self.begun = not self._given_up and not self.future.cancelled()
        return self.begun

    def give_up(self) -> None:
        """Let it not begin."""
        self._given_up = True

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

"""Waiting in tests: for a condition, with a bound, and with a sentence when it does not come true."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

T = TypeVar("T")

STEP = 0.005


def until(condition: Callable[[], T], seconds: float = 10) -> T:
    """The first true answer of the condition; fails the test when there is none within so many seconds."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > end:
            raise AssertionError(_late(condition, seconds, answer))
        time.sleep(STEP)  # sleep: between two looks at a condition
    return answer


@overload
async def auntil(condition: Callable[[], Coroutine[Any, Any, T]], seconds: float = 10) -> T: ...


@overload
async def auntil(condition: Callable[[], T], seconds: float = 10) -> T: ...


async def auntil(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """As `until`, while the loop runs on; the condition may be a coroutine function."""
    end = time.monotonic() + seconds
    while not (answer := await _value(condition())):
        if time.monotonic() > end:
            raise AssertionError(_late(condition, seconds, answer))
        await asyncio.sleep(STEP)  # sleep: between two looks at a condition
    return answer


@contextmanager
def set_in_the_end(event: asyncio.Event) -> Iterator[None]:
    """What waits for it and ignores its cancellation ends also when the test fails, or all others would wait for it."""
    try:
        yield
    finally:
        event.set()


async def _value(given: Awaitable[T] | T) -> T:
    return await given if isinstance(given, Awaitable) else given


def _late(condition: Callable[[], object], seconds: float, answer: object) -> str:
    try:
        said = inspect.getsource(condition).strip()
    except (OSError, TypeError):
        said = repr(condition)
    return f"not true within {seconds:g}s (last answer: {answer!r}): {said}"

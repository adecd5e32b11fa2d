"""When attempts have to end: one timer for all that run on a loop, and the words for those that were ended."""

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Protocol

from redrive.clock import SECOND, spoken
from redrive.outcome import Interrupted

_SLACK = 0.001


class Expiring(Protocol):
    """What is told when its time is over."""

    def expire(self) -> None: ...


Opened = Callable[[Expiring], None]
"""Told what a deadline hangs on as soon as the handler has begun, so that it can be moved with `deadlines().add`."""


class Deadlines:
    """Deadlines of one loop behind a single timer: adding and removing one is a dictionary write."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: dict[Expiring, float] = {}
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: Expiring, seconds: float) -> None:
        """Call `run.expire()` after this many seconds unless it is removed before; adding it again moves its deadline."""
        self._due[run] = when = self.loop.time() + seconds
        if when < self._next:
            self._arm(when)

    def remove(self, run: Expiring) -> None:
        """It ended in time."""
        self._due.pop(run, None)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._sweep)
        self._next = when

    def _sweep(self) -> None:
        now = self.loop.time() + _SLACK
        self._next = math.inf
        for run in [run for run, when in self._due.items() if when <= now]:
            del self._due[run]
            run.expire()
        if self._due:
            self._arm(min(self._due.values()))


class _Here(threading.local):
    deadlines: Deadlines | None = None


_here = _Here()


def deadlines() -> Deadlines:
    """The deadlines of the running loop."""
    loop = asyncio.get_running_loop()
    found = _here.deadlines
    if found is None or found.loop is not loop:
        found = _here.deadlines = Deadlines(loop)
    return found


def too_long(limit: float) -> TimeoutError:
    """The error of an attempt that was ended at its deadline."""
    text = f"{limit:g}s" if limit < 60 else spoken(round(limit * SECOND))
    return TimeoutError(f"ran longer than its limit of {text}")


def interrupted(cancelled: asyncio.CancelledError) -> Interrupted:
    """The outcome of an attempt whose own task was cancelled; the task itself goes on to report it."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return Interrupted(str(cancelled.args[0]) if cancelled.args else "cancelled")

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

    def expire(self, limit: float) -> None:
        """It was given so many seconds in all, and they are over."""
        ...


Opened = Callable[[Expiring], None]
"""Told what a deadline hangs on before the handler begins, so that it can be moved with `deadlines().move`."""


class Deadlines:
    """Deadlines of one loop behind a single timer: adding and removing one is a dictionary write."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._spans: dict[Expiring, tuple[float, float]] = {}
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: Expiring, seconds: float) -> None:
        """Call `run.expire()` after this many seconds unless it is removed before."""
        now = self.loop.time()
        self._spans[run] = (now, now + seconds)
        if now + seconds < self._next:
            self._arm(now + seconds)

    def move(self, run: Expiring, seconds: float) -> None:
        """Let it end this many seconds from now instead; one that has ended or never had a deadline stays as it is."""
        span = self._spans.get(run)
        if span is not None:
            due = self.loop.time() + seconds
            self._spans[run] = (span[0], due)
            if due < self._next:
                self._arm(due)

    def remove(self, run: Expiring) -> None:
        """It ended in time."""
        self._spans.pop(run, None)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._sweep)
        self._next = when

    def _sweep(self) -> None:
        now = self.loop.time() + _SLACK
        self._next = math.inf
        for run, (began, due) in [(run, span) for run, span in self._spans.items() if span[1] <= now]:
            del self._spans[run]
            run.expire(due - began)
        if self._spans:
            self._arm(min(due for _, due in self._spans.values()))


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
    text = f"{round(limit, 3):g}s" if limit < 60 else spoken(round(limit * SECOND))
    return TimeoutError(f"ran longer than its limit of {text}")


def interrupted(cancelled: asyncio.CancelledError) -> Interrupted:
    """The outcome of an attempt whose own task was cancelled; the task itself goes on to report it."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return Interrupted(str(cancelled.args[0]) if cancelled.args else "cancelled")

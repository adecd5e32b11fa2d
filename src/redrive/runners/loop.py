"""Handlers that are coroutines: each in a task of its own, which tells how it ended and never throws."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redrive.errors import Signal
from redrive.outcome import Failed, Interrupted, Outcome, Succeeded
from redrive.runners import forks
from redrive.runners.deadlines import Deadlines, Opened, deadlines, interrupted, too_long

Call = Callable[[], Awaitable[object]]

NAME = "redrive-handler"
"""One name for all of their tasks: a number of its own for each would have to be written for each."""

left: set[asyncio.Task[None]] = set()
"""Handlers that outlived their end because they swallow cancellation; each still takes room on its loop."""

if sys.version_info >= (3, 12):
    _task: Any = partial(asyncio.Task, eager_start=True)
else:
    _task = asyncio.Task


async def run_on_loop(
    call: Call,
    timeout: float | None,
    patience: float = 5.0,
    listed: set[asyncio.Task[None]] = left,
    opened: Opened | None = None,
) -> Outcome:
    """Run a handler to its outcome; one that ignores its end for `patience` seconds is listed and left.

    `opened` is told what the deadline hangs on, so that it can be moved.
    """
    run = _Awaited(patience)
    clock = deadlines()
    if timeout is not None:
        clock.add(run, timeout)
    if opened is not None:
        opened(run)
    run.start(call)  # last, because an eager task runs the handler's first steps right here
    try:
        outcome = await run.ended()
    finally:
        clock.remove(run)
    if outcome is None:
        run.leave(listed)
    return run.verdict(outcome)


class _Run:
    """A handler in its task, told to end when its time is over."""

    patience = 5.0
    """Seconds that it has to end once it was told to."""

    # what most runs never have stands here, and not in each of them
    task: asyncio.Task[None] | None = None
    outcome: Outcome | None = None
    stopped: Interrupted | TimeoutError | None = None
    timer: asyncio.TimerHandle | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def start(self, call: Call) -> None:
        task = _task(self._contained(call), loop=self.loop, name=NAME)
        if not task.done():  # as an eager one may be
            self.task = task

    async def _contained(self, call: Call) -> None:
        began_in = forks.generation
        try:
            self.outcome = Succeeded(await call())
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like must not reach the loop
            self.outcome = Failed(error)
        if began_in != forks.generation:
            forks.end_fork(self.outcome)
        self._wake()

    def expire(self, limit: float) -> None:
        """The deadline has come."""
        if self.outcome is None and self.stopped is None:
            self._stop(too_long(limit))

    def _stop(self, why: Interrupted | TimeoutError) -> None:
        assert self.task is not None
        self.stopped = self.stopped or why
        self.task.cancel()
        if self.timer is None:
            self.task.add_done_callback(self._never_started)
            self.timer = self.loop.call_later(self.patience, self._wake)

    def _never_started(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._wake()

    def _wake(self) -> None:
        """It has ended, or patience with it has."""
        raise NotImplementedError

    def leave(self, listed: set[asyncio.Task[None]]) -> None:
        """It does not end: it is listed for as long as that lasts."""
        assert self.task is not None
        listed.add(self.task)
        self.task.add_done_callback(listed.discard)

    def verdict(self, outcome: Outcome | None) -> Outcome:
        """What is reported: an end that we brought about is not the handler's success or failure."""
        if outcome is not None and self.stopped is None:
            return outcome
        error = outcome.error if isinstance(outcome, Failed) else None
        if outcome is not None and isinstance(error, Signal):
            return outcome
        if isinstance(self.stopped, TimeoutError):
            self.stopped.__cause__ = error
            return Failed(self.stopped)
        return self.stopped or Interrupted("cancelled")


class _Awaited(_Run):
    """A run that a task waits for; an end that the task is told is passed on to the handler."""

    def __init__(self, patience: float) -> None:
        super().__init__(asyncio.get_running_loop())
        self.patience = patience
        self.ending: asyncio.Future[None] = self.loop.create_future()

    async def ended(self) -> Outcome | None:
        """How the handler ended, or None when it did not although it was told to."""
        while True:
            try:
                await self.ending
            except asyncio.CancelledError as cancelled:
                self._interrupt(interrupted(cancelled))
                continue
            if self.timer is not None:
                self.timer.cancel()
            return self.outcome

    def _interrupt(self, why: Interrupted) -> None:
        if self.outcome is None:
            self.ending = self.loop.create_future()
            self._stop(why)
        elif self.ending.cancelled():
            self.ending = self.loop.create_future()
            self.ending.set_result(None)

    def _wake(self) -> None:
        if not self.ending.done():
            self.ending.set_result(None)


class Alone(_Run):
    """A run that nobody waits for, which would take a second task: `over` is called when it has ended."""

    told = False
    """Whether it is over."""

    def __init__(self, clock: Deadlines, listed: set[asyncio.Task[None]]) -> None:
        super().__init__(clock.loop)
        self._clock = clock
        self._listed = listed

    def over(self, outcome: Outcome) -> None:
        """It has ended so, or was left because it ignored its end."""
        raise NotImplementedError

    def expire(self, limit: float) -> None:
        """The deadline has come, unless it is over."""
        if not self.told:
            super().expire(limit)

    def cancel(self, why: str) -> None:
        """Let the handler end, unless it has."""
        if not self.told:
            self._stop(Interrupted(why))

    def _wake(self) -> None:
        if self.told:
            return
        self.told = True
        self._clock.remove(self)
        if self.timer is not None:
            self.timer.cancel()
        if self.outcome is None:
            self.leave(self._listed)
        outcome, self.outcome, self.task = self.outcome, None, None  # or they would be a circle: garbage to be searched
        self.over(self.verdict(outcome))

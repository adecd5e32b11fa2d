"""What surrounds a handler: its context, and a deadline that it can move."""

import asyncio

from redrive.bench import Trial
from redrive.clock import SECOND
from redrive.context import Context, close
from redrive.failpoints import reached
from redrive.runners.deadlines import Expiring, deadlines

HOOK_GRACE = 5.0
"""Seconds that hooks around an attempt have beyond the deadline of its handler."""


class Scope:
    """The surroundings of one attempt."""

    __slots__ = ("_clock", "_loop", "_outer", "_parent", "_run", "context", "seconds")

    def __init__(self, trial: Trial, limit: int) -> None:
        self._clock = trial.bench.app.clock
        self._parent = trial.bench.parent
        self._loop = asyncio.get_running_loop()
        self._run: Expiring | None = None
        self._outer: Expiring | None = None
        self.seconds = None if self._parent else limit / SECOND
        self.context = Context(trial.job, self._clock.now() + limit, trial.bench.state, self.extend)

    @property
    def whole(self) -> float | None:
        """The seconds for the handler and the hooks around it."""
        return None if self.seconds is None else self.seconds + HOOK_GRACE

    def began(self, run: Expiring) -> None:
        """The handler has begun, and this is what its deadline hangs on."""
        self._run = run
        reached("handler.mid")

    def opened(self, run: Expiring) -> None:
        """The hooks around it have begun."""
        self._outer = run

    def close(self) -> None:
        """The attempt is over: there is no deadline left to move, least of all the next job's."""
        self._run = self._outer = None
        close(self.context)

    def extend(self, duration: int) -> None:
        """Move the deadline, from whichever thread the handler is in."""
        self.context.deadline = self._clock.now() + duration
        if self._parent is not None:
            self._parent(duration / SECOND)
        else:
            self._loop.call_soon_threadsafe(self._move, duration / SECOND)

    def _move(self, seconds: float) -> None:
        if self._run is not None:
            deadlines().move(self._run, seconds)
        if self._outer is not None:
            deadlines().move(self._outer, seconds + HOOK_GRACE)

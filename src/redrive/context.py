"""What a handler may know of the attempt it is in."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from redrive.clock import Duration, micros
from redrive.errors import UsageError
from redrive.job import Job, decode_headers


class Context(msgspec.Struct, eq=False):
    """One attempt, seen from inside its handler: `redrive.current()`."""

    job: Job
    deadline: int
    """When the handler will be stopped, in microseconds of UTC."""
    state: Any
    """What the app's lifespan gave to this process."""
    _extend: Callable[[int], None]

    @property
    def attempt(self) -> int:
        """The number of this attempt in its epoch, from 1."""
        return self.job.attempts + 1

    @property
    def epoch(self) -> int:
        """The life of the job: 1 when enqueued, one more with each redrive."""
        return self.job.epoch

    @property
    def fence(self) -> int:
        """Rises with each claim: pass it to what must refuse a stale writer."""
        return self.job.fence

    @property
    def idempotency_key(self) -> str:
        """The same across retries and redrives: pass it to what must not act twice."""
        return self.job.idempotency_key

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the job was enqueued with."""
        return decode_headers(self.job.headers)

    def extend(self, duration: Duration) -> None:
        """Move the deadline to this long from now."""
        length = micros(duration)
        if length <= 0:
            raise UsageError(f"extend({duration!r}) would end this attempt at once; say how long it may still take")
        self._extend(length)


def close(context: Context) -> None:
    """The attempt is over: who kept its context, as a thread that outlived it may, moves nothing any more."""
    context._extend = _nothing


def _nothing(duration: int) -> None:
    """There is no deadline left to move."""


current_context: ContextVar[Context | None] = ContextVar("redrive_current", default=None)


def current() -> Context:
    """The attempt that this code runs in."""
    context = current_context.get()
    if context is None:
        raise UsageError("redrive.current() works only inside a handler that a worker runs")
    return context

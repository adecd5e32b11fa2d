"""The short way of an attempt, for most jobs: a coroutine on the worker's loop with no hooks around it.

It takes the steps of `attempt.py` without a task that waits for the handler's own, which for a short handler would be
half of the cost.
"""

from redrive.attempt import announce_start, resolve, runs_apart, time_limit
from redrive.bench import Bench, Settled, Trial
from redrive.clock import SECOND
from redrive.conclusion import concluded
from redrive.context import Context, close, current_context
from redrive.failpoints import reached
from redrive.job import Job
from redrive.outcome import Outcome
from redrive.runners.deadlines import deadlines
from redrive.runners.loop import Alone


def straight(bench: Bench, job: Job, settled: Settled) -> "Straight | None":
    """The attempt, not begun yet; None when it has to take the long way."""
    app = bench.app
    task = app.registry.get(job.task)
    if task is None or not task.is_coroutine or app.hooks.has_around_attempt:
        return None
    trial = Trial(bench, job, app.clock.steady(), task)
    try:
        if resolve(trial) is not None or runs_apart(trial):
            return None
        return Straight(trial, time_limit(trial), settled)
    except Exception:  # noqa: BLE001 - the long way fails of it too, and makes a settlement of that
        return None


class Straight(Alone):
    """An attempt under way; `settled` is told what follows from it."""

    def __init__(self, trial: Trial, limit: int, settled: Settled) -> None:
        super().__init__(deadlines(), trial.bench.left)
        self._trial = trial
        self._limit = limit
        self._settled = settled
        self._context = Context(trial.job, trial.bench.app.clock.now() + limit, trial.bench.state, self.extend)

    def begin(self) -> None:
        """Start the handler, inside its context and before its deadline."""
        call = self._trial.call
        assert call is not None
        announce_start(self._trial)
        token = current_context.set(self._context)
        try:
            reached("handler.mid.before")
            self._clock.add(self, self._limit / SECOND)
            reached("handler.mid")
            self.start(call)
        finally:
            current_context.reset(token)

    def over(self, outcome: Outcome) -> None:
        """The handler has ended."""
        reached("handler.end.before")
        reached("handler.end")
        close(self._context)
        self._settled(self, concluded(self._trial, outcome))

    def extend(self, duration: int) -> None:
        """Move the deadline, from whichever thread the handler is in."""
        self._context.deadline = self._trial.bench.app.clock.now() + duration
        self.loop.call_soon_threadsafe(self._clock.move, self, duration / SECOND)

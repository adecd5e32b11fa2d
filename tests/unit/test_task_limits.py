"""What a task says about its jobs travels with each of them, in the units of the store."""

from redrive import Redrive, Retry
from redrive.clock import SECOND
from redrive.limits import limits_of

app = Redrive("memory://")


@app.task(timeout="1.5s", retry=Retry(4, within="1h", crash_limit=2))
def handler() -> None:
    """Does nothing."""


def test_a_job_carries_the_limits_of_its_task() -> None:
    """The timeout too is in microseconds, as who runs the job reads it."""
    limits = limits_of(handler.job().policy)
    assert limits.timeout == 1.5 * SECOND
    assert (limits.max_attempts, limits.crash_limit, limits.within) == (4, 2, 3_600 * SECOND)


def test_a_job_may_have_another_timeout_than_its_task() -> None:
    """What the caller says wins, and leaves the rest as it was."""
    limits = limits_of(handler.using(timeout=30).job().policy)
    assert (limits.timeout, limits.max_attempts) == (30 * SECOND, 4)

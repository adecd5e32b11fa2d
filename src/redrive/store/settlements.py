"""What follows from an attempt, as a worker tells it to the store."""

from bisect import bisect_left

import msgspec

from redrive.job import Job
from redrive.letter import Failure


class Settlement(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What follows from an attempt. `job` is the job as it was claimed, its fence names the lease."""

    job: Job
    duration: int = 0
    ran: bool = True  # the handler was started: its duration is counted
    note: str | None = None  # what went wrong while this was decided: a backoff function that raised


class Done(Settlement, frozen=True, kw_only=True, tag="done"):
    """Finished well."""

    result: bytes | None = None


class Retried(Settlement, frozen=True, kw_only=True, tag="retried"):
    """Failed, and will be tried again at `at`; spends an attempt unless `spend` is 0.

    `crashed` and `lost` say which of the other counts goes up; `suspect` is written as given.
    """

    at: int
    failure: Failure
    spend: int = 1
    crashed: int = 0
    lost: int = 0
    suspect: int = 0


class Snoozed(Settlement, frozen=True, kw_only=True, tag="snoozed"):
    """Asked to be run later; spends no attempt."""

    until: int
    why: str = ""


class Buried(Settlement, frozen=True, kw_only=True, tag="buried"):
    """Given up on: becomes a letter in the group of its failure's fingerprint."""

    failure: Failure
    why: str = ""  # reads on: `exhausted 3 attempts`
    spend: int = 1
    crashed: int = 0
    lost: int = 0


class Discarded(Settlement, frozen=True, kw_only=True, tag="discarded"):
    """Ended on purpose without success; no letter."""

    reason: str
    why: str = ""


class Released(Settlement, frozen=True, kw_only=True, tag="released"):
    """Given back at `at` without spending an attempt: the worker drains, lacks the task, or its process died.

    `suspect` is written as given: above zero the job runs next alone in a child process.
    """

    at: int
    why: str
    suspect: int = 0
    unknown_task: bool = False  # no handler here: the store keeps since when, for the grace


BOUNDS = tuple(n * 1_000 for n in (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000))
"""Where the histogram of durations is cut, in microseconds."""

_LASTED = (*(f"lasted_{bound // 1_000}ms" for bound in BOUNDS), "lasted_longer")


def lasted(duration: int) -> str:
    """The counter of the histogram that a run of this duration belongs to: `lasted_30ms` is up to 30 ms."""
    return _LASTED[bisect_left(BOUNDS, duration)]


AnySettlement = Done | Retried | Snoozed | Buried | Discarded | Released

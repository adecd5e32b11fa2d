"""Jobs and the gates before them: added, claimed, leased, settled, listed."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from redrive.job import Job, State
from redrive.letter import Failure
from redrive.store.settlements import AnySettlement


class Accepted(msgspec.Struct, frozen=True):
    """The job is durable."""

    id: str


class Existing(msgspec.Struct, frozen=True):
    """A job with this id or this idempotency key is already there; nothing was added."""

    id: str
    state: State | Literal["purged"]


class Refused(msgspec.Struct, frozen=True):
    """Not accepted: the queue is at its depth limit, or the store is sealed."""

    why: str
    retry_after: float | None = None


Added = Accepted | Existing | Refused


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker could start now: at most `limit` jobs, for each queue at most its free slots."""

    worker: str
    limit: int
    lease: int  # microseconds
    queues: Mapping[str, int] | None = None  # None: every queue
    suspects: bool = True  # False: leave the suspects, no slot to run one alone is free
    without: tuple[str, ...] = ()  # tasks whose runner has no free slot


class Turn(msgspec.Struct, frozen=True):
    """The answer to a turn: the ids that were settled too late, the jobs claimed, and when the next one is due."""

    late: frozenset[str]
    jobs: list[Job]
    next_due: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """The right to run a job, as its holder names it."""

    id: str
    fence: int


class Orphan(msgspec.Struct, frozen=True):
    """A job taken over from a holder that is gone; `job.fence` is the reaper's own lease on it now."""

    job: Job
    holder: str  # worker id
    why: Literal["worker gone", "lease ended", "other boot"]
    alone: bool  # it was the only job its holder had


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a queue are in each state, in O(1)."""

    queue: str
    scheduled: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0
    oldest_ready: int | None = None  # due_at of the first in line


class Gate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can hold claims back (closed), or refuse jobs beyond a depth."""

    kind: Literal["queue", "dependency", "task"]
    key: str
    state: Literal["open", "closed", "trial"] = "open"
    reason: str | None = None
    until: int | None = None  # opens again by itself then
    depth_limit: int | None = None  # of a queue: `add` refuses at this many waiting jobs
    changed_at: int = 0
    actor: str | None = None


class Finished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The narrow row that a done job leaves."""

    id: str
    task: str
    queue: str
    ended_at: int
    attempts: int
    epoch: int
    key: str | None = None
    result: bytes | None = None
    duration: int = 0


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """A job that went well, kept to compare failures with."""

    at: int
    size: int  # of the payload
    host: str = ""
    release: str | None = None
    payload: bytes | None = None  # None when it was too long to be kept


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything the store knows of one job."""

    job: Job | None = None  # while it lives, and when dead or discarded
    finished: Finished | None = None  # once it is done
    failures: tuple[Failure, ...] = ()
    worker: str | None = None  # who holds it
    lease_left: int | None = None  # microseconds
    unknown_since: int | None = None
    ended_at: int | None = None  # when it became dead or discarded
    end_reason: str | None = None


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; newest first."""

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    before: str | None = None  # an id: the page ends before it
    limit: int = 50


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a listing, without payload."""

    id: str
    task: str
    queue: str
    state: State
    priority: int = 5
    attempts: int = 0
    epoch: int = 1
    at: int = 0  # due, ended or died
    error: str | None = None


class Jobs(Protocol):
    """Jobs and the gates before them."""

    async def add(self, jobs: Sequence[Job]) -> list[Added]:
        """Make these jobs durable, each once; answers in order."""
        ...

    async def claim(self, want: Want) -> list[Job]:
        """Lease the first in line: priority descending, due_at, id."""
        ...

    async def settle(self, settlements: Sequence[AnySettlement]) -> frozenset[str]:
        """End leases; the ids whose lease was no longer held come back and are unchanged."""
        ...

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        """Settle and claim the next in one round trip."""
        ...

    async def extend(self, leases: Sequence[Lease], lease: int) -> frozenset[str]:
        """Keep these leases for `lease` microseconds from now; the ids no longer held come back."""
        ...

    async def lease_ends(self) -> int | None:
        """In how many microseconds the first lease ends; none is left where it has, None when nobody holds one."""
        ...

    async def reap(self, reaper: str, gone: Sequence[str], limit: int, lease: int) -> list[Orphan]:
        """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
        ...

    async def cancel(self, ids: Sequence[str], actor: str) -> list[str]:
        """Discard jobs that have not ended, with reason `cancelled`; a leased one loses its lease. Answers who was."""
        ...

    async def depth(self, queues: Sequence[str] | None = None) -> list[Depth]:
        """How deep the queues are; all of them for None."""
        ...

    async def gate(self, gate: Gate, actor: str) -> Gate:
        """Set a gate; answers what is in force."""
        ...

    async def gates(self) -> list[Gate]:
        """Every gate that was ever set."""
        ...

    async def move(self, queue: str, to: str, actor: str, limit: int) -> int:
        """Move up to `limit` waiting jobs to another queue; answers how many."""
        ...

    async def purge(self, queue: str, actor: str, limit: int) -> int:
        """Discard up to `limit` waiting jobs of a queue with reason `purged`; answers how many."""
        ...

    async def get(self, id: str) -> Record | None:
        """Everything about one job."""
        ...

    async def resolve(self, suffix: str, limit: int = 3) -> list[str]:
        """The ids that end like this, at most `limit`."""
        ...

    async def successes(self, task: str) -> list[Success]:
        """A few successes of a task, chosen by chance among the last ones."""
        ...

    async def find(self, query: JobQuery) -> list[Listed]:
        """A page of jobs, newest first."""
        ...

    async def prune(self, limit: int) -> int:
        """Forget finished and discarded rows whose time is over; answers how many."""
        ...

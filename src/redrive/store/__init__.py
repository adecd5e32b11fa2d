"""The store: what holds the truth, as small contracts that every engine keeps.

A method takes and returns whole batches and is one transaction; it writes the journal rows, the counters and the
group rows of what it does in that same transaction. Every write of a worker names the fence of the lease it holds;
one that comes too late changes nothing and is reported.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from redrive.retention import FOR_EVER
from redrive.store.jobs import (
    Accepted,
    Added,
    Depth,
    Existing,
    Finished,
    Gate,
    JobQuery,
    Jobs,
    Lease,
    Listed,
    Orphan,
    Record,
    Refused,
    Success,
    Turn,
    Want,
)
from redrive.store.journal import Count, Entry, Journal
from redrive.store.letters import Disposed, Edit, Foreign, Letters, Mark, Outline, Page, Total, Totals
from redrive.store.operations import (
    Change,
    Move,
    Operation,
    Operations,
    OperationState,
    OperationVerb,
    Part,
    Recipe,
    Share,
)
from redrive.store.redrives import (
    OPEN_REDRIVES,
    Chunk,
    Due,
    Given,
    Item,
    ItemState,
    Pattern,
    Plan,
    Redrive,
    Redrives,
    RedriveState,
    Stage,
    Tally,
    Weighed,
    becomes,
    stage_left,
    waits,
)
from redrive.store.settlements import (
    BOUNDS,
    AnySettlement,
    Buried,
    Discarded,
    Done,
    Released,
    Retried,
    Settlement,
    Snoozed,
    lasted,
)
from redrive.store.workers import Worker, Workers

__all__ = [
    "BOUNDS",
    "OPEN_REDRIVES",
    "Accepted",
    "Added",
    "AnySettlement",
    "Buried",
    "Change",
    "Check",
    "Chunk",
    "Count",
    "Depth",
    "Discarded",
    "Disposed",
    "Done",
    "Due",
    "Edit",
    "Entry",
    "Existing",
    "Finished",
    "Foreign",
    "Gate",
    "Given",
    "Item",
    "ItemState",
    "JobQuery",
    "Jobs",
    "Journal",
    "Keep",
    "Lease",
    "Letters",
    "Listed",
    "Mark",
    "Move",
    "Operation",
    "OperationState",
    "OperationVerb",
    "Operations",
    "Orphan",
    "Outline",
    "Page",
    "Part",
    "Pattern",
    "Plan",
    "Recipe",
    "Record",
    "Redrive",
    "RedriveState",
    "Redrives",
    "Refused",
    "Released",
    "Retried",
    "Settings",
    "Settlement",
    "Share",
    "Snoozed",
    "Stage",
    "Store",
    "Success",
    "Tally",
    "Total",
    "Totals",
    "Traits",
    "Turn",
    "Want",
    "Weighed",
    "Worker",
    "Workers",
    "becomes",
    "lasted",
    "stage_left",
    "waits",
]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How engines differ, declared."""

    engine: str
    durable: str  # what an acknowledged write survives, as a phrase
    shared: Literal["process", "host", "network"]  # who may open it together
    wakeups: str
    transactions: bool = False


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How long a queue keeps what has ended, where it says so itself."""

    done: int | None = None
    closed: int | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine needs to know of the configuration."""

    done_retention: int = 24 * 3_600_000_000
    key_lifetime: int = 24 * 3_600_000_000
    closed_retention: int = 30 * 24 * 3_600_000_000
    redrive_retention: int = 90 * 24 * 3_600_000_000
    journal_retention: int = FOR_EVER
    of_queues: Mapping[str, Keep] = {}
    journal: Literal["events", "all"] = "events"
    max_epochs: int = 5  # a letter that comes back so often in a row with the same cause needs a person; 0: never
    busy_timeout: float = 30.0
    force: bool = False  # open it although the file system or engine is not fit

    def keeps_done(self, queue: str) -> int:
        """How long a queue keeps the rows of finished jobs: for the longer of its own time and their keys'."""
        own = self.of_queues.get(queue)
        return max(self.done_retention if own is None or own.done is None else own.done, self.key_lifetime)

    def keeps_closed(self, queue: str) -> int:
        """How long it keeps letters that are closed or discarded, and discarded jobs."""
        own = self.of_queues.get(queue)
        return self.closed_retention if own is None or own.closed is None else own.closed


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the doctor looked at."""

    name: str
    ok: bool
    found: str
    advice: str | None = None


class Store(Protocol):
    """One namespace of jobs and all that belongs to them."""

    @property
    def url(self) -> str:
        """Where it is, without secrets, absolute."""
        ...

    @property
    def traits(self) -> Traits: ...

    @property
    def home(self) -> str | None:
        """A folder on this host where workers keep their lock files; None when no other process can share the store."""
        ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def letters(self) -> Letters: ...

    @property
    def operations(self) -> Operations: ...

    @property
    def redrives(self) -> Redrives: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def journal(self) -> Journal: ...

    async def open(self) -> None:
        """Connect, migrate if need be, and refuse what cannot be worked with."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go."""
        ...

    async def wait(self, listener: str, timeout: float) -> bool:
        """Rest until a hint says that jobs may be ready, at most `timeout` seconds; polling is the truth."""
        ...

    async def check(self) -> list[Check]:
        """What the doctor wants to know of this engine."""
        ...

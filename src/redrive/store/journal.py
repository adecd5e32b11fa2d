"""What happened, how often, and the proof that nothing was lost."""

from typing import Protocol

import msgspec

from redrive.ledger import Noted, Proof, Tell, unheard


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened off the happy path."""

    seq: int
    at: int
    event: str
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    epoch: int | None = None
    attempt: int | None = None
    reason: str | None = None
    worker: str | None = None
    actor: str | None = None
    text: str | None = None


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened in a minute."""

    minute: int  # microseconds of UTC at which it starts
    queue: str
    task: str
    name: str
    n: int


class Journal(Protocol):
    """What happened."""

    async def events(self, after: int = 0, limit: int = 100, job: str | None = None) -> list[Entry]:
        """Entries after a sequence number, oldest first; of one job if named."""
        ...

    async def latest(self, limit: int) -> list[Entry]:
        """The last entries, oldest first."""
        ...

    async def counters(self, since: int = 0) -> list[Count]:
        """Counts per minute, queue, task and name, workers and priorities added up."""
        ...

    async def note(
        self, event: str, *, actor: str | None = None, worker: str | None = None, text: str | None = None
    ) -> None:
        """Write an entry that belongs to no job."""
        ...

    async def sample(self) -> None:
        """Write down how deep each queue is in this minute, and how many letters it has; the last word counts.

        The counters are `depth_scheduled`, `depth_ready`, `depth_leased` and `letters_open`, of no task.
        """
        ...

    async def merge(self, limit: int) -> int:
        """Fold up to `limit` counts of minutes that are over into one per minute, queue, task and name; sums stay.

        Answers how many rows went away; fewer than `limit` when there are no more.
        """
        ...

    # the ledger and the trail

    async def prove(self, named: int = 20, noted: Noted | None = None, tell: Tell = unheard) -> Proof:
        """Add everything up at one moment, beside whoever works; of each kind of flaw `named` are named.

        `noted` is a seal that somebody has written down elsewhere: the trail must still have it.
        """
        ...

    async def seal(self, limit: int) -> int:
        """Put up to `limit` entries that have an actor under a seal, if their order can no longer change.

        Each of them bears the number of its seal; a seal holds what they say and the seal before it. Answers how many.
        """
        ...

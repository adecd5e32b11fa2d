"""What happened."""

from collections import Counter
from typing import TYPE_CHECKING

from redrive.ledger import Noted, Proof, Tell, unheard
from redrive.store import Count, Entry
from redrive.stores.sqlite import proving, sealing
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import entry_of, unpacked_or_none

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore

MERGED = -1
"""The priority of a row that stands for all of them."""


class SqliteJournal:
    """What happened."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def events(self, after: int = 0, limit: int = 100, job: str | None = None) -> list[Entry]:
        """Entries after a sequence number, oldest first; of one job if named."""
        return await self._store.read(lambda snapshot: _events(snapshot, after, limit, job))

    async def latest(self, limit: int) -> list[Entry]:
        """The last entries, oldest first."""
        rows = await self._store.read(lambda snapshot: snapshot.all("latest_entries", limit))
        return [entry_of(row) for row in reversed(rows)]

    async def counters(self, since: int = 0) -> list[Count]:
        """Counts per minute, queue, task and name, workers and priorities added up."""
        rows = await self._store.read(lambda snapshot: snapshot.all("counts", since))
        return [Count(minute=row[0], queue=row[1], task=row[2], name=row[3], n=row[4]) for row in rows]

    async def note(
        self, event: str, *, actor: str | None = None, worker: str | None = None, text: str | None = None
    ) -> None:
        """Write an entry that belongs to no job."""
        await self._store.write(lambda tx: tx.journal(event, actor=actor, worker=worker, text=text))

    async def sample(self) -> None:
        """Write down how deep each queue is in this minute, and how many letters it has; the last word counts."""
        await self._store.write(lambda tx: tx.run("sample", tx.minute))

    async def merge(self, limit: int) -> int:
        """Fold counts of minutes that are over into one row per minute, queue, task and name; answers how many."""
        return await self._store.write(lambda tx: _merge(tx, limit))

    async def prove(self, named: int = 20, noted: Noted | None = None, tell: Tell = unheard) -> Proof:
        """Add everything up at one moment, beside whoever works."""
        return await self._store.read(lambda snapshot: proving.prove(snapshot, named, noted, tell))

    async def seal(self, limit: int) -> int:
        """Put up to `limit` entries that have an actor under a seal; answers how many."""
        if not await self._store.read(sealing.is_due):
            return 0
        return await self._store.write(lambda tx: sealing.seal(tx, limit))


def _merge(tx: Transaction, limit: int) -> int:
    rows = tx.all("loose_counts", tx.minute, limit)
    sums: Counter[tuple[int, str, str, int, str, str]] = Counter()
    for minute, queue, task, _, _, name, n in rows:
        sums[minute, queue, task, MERGED, "", name] += n
    tx.many("drop_count", [row[:-1] for row in rows])
    tx.many("add_count", [(*key, n) for key, n in sums.items()])
    return len(rows)


def _events(snapshot: Snapshot, after: int, limit: int, job: str | None) -> list[Entry]:
    if job is None:
        rows = snapshot.all("entries", after, limit)
    else:
        rows = snapshot.all("entries_of_job", after, limit, unpacked_or_none(job) or b"")
    return [entry_of(row) for row in rows]

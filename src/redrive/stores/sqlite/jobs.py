"""Jobs and the gates before them: each method is one transaction, or one look."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.job import Job
from redrive.store import (
    Added,
    AnySettlement,
    Depth,
    Gate,
    JobQuery,
    Lease,
    Listed,
    Orphan,
    Record,
    Success,
    Turn,
    Want,
)
from redrive.stores.sqlite import adding, claiming, operating, reading, sampling, settling
from redrive.stores.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore


class SqliteJobs:
    """Jobs and the gates before them."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store
        self._sweep = operating.Sweep()

    async def add(self, jobs: Sequence[Job]) -> list[Added]:
        """Make these jobs durable, each once; answers in order."""
        return await self._store.write(lambda tx: adding.add(tx, jobs)) if jobs else []

    async def claim(self, want: Want) -> list[Job]:
        """Lease the first in line: priority descending, due_at, id."""
        return await self._store.write(lambda tx: claiming.claim(tx, want))

    async def settle(self, settlements: Sequence[AnySettlement]) -> frozenset[str]:
        """End leases; the ids whose lease was no longer held come back and are unchanged."""
        return await self._store.write(lambda tx: settling.settle(tx, settlements))

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        """Settle and claim the next in one round trip."""

        def turned(tx: Transaction) -> Turn:
            late = settling.settle(tx, settlements)
            jobs = claiming.claim(tx, want) if want else []
            return Turn(late, jobs, claiming.next_due(tx, want.queues if want else None))

        return await self._store.write(turned)

    async def extend(self, leases: Sequence[Lease], lease: int) -> frozenset[str]:
        """Keep these leases for `lease` microseconds from now; the ids no longer held come back."""
        return await self._store.write(lambda tx: claiming.extend(tx, leases, lease))

    async def lease_ends(self) -> int | None:
        """In how many microseconds the first lease ends; none is left where it has, None when nobody holds one."""
        return await self._store.read(claiming.lease_ends)

    async def reap(self, reaper: str, gone: Sequence[str], limit: int, lease: int) -> list[Orphan]:
        """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
        return await self._store.write(lambda tx: claiming.reap(tx, reaper, gone, limit, lease))

    async def cancel(self, ids: Sequence[str], actor: str) -> list[str]:
        """Discard jobs that have not ended, with reason `cancelled`; a leased one loses its lease. Answers who was."""
        return await self._store.write(lambda tx: operating.cancel(tx, ids, actor))

    async def depth(self, queues: Sequence[str] | None = None) -> list[Depth]:
        """How deep the queues are; all of them for None."""
        return await self._store.read(lambda snapshot: reading.depth(snapshot, queues))

    async def gate(self, gate: Gate, actor: str) -> Gate:
        """Set a gate; answers what is in force."""
        return await self._store.write(lambda tx: operating.set_gate(tx, gate, actor))

    async def gates(self) -> list[Gate]:
        """Every gate that was ever set."""
        return await self._store.read(reading.gates)

    async def move(self, queue: str, to: str, actor: str, limit: int) -> int:
        """Move up to `limit` waiting jobs to another queue; answers how many."""
        return await self._store.write(lambda tx: operating.move(tx, queue, to, actor, limit))

    async def purge(self, queue: str, actor: str, limit: int) -> int:
        """Discard up to `limit` waiting jobs of a queue with reason `purged`; answers how many."""
        return await self._store.write(lambda tx: operating.purge(tx, queue, actor, limit))

    async def get(self, id: str) -> Record | None:
        """Everything about one job."""
        return await self._store.read(lambda snapshot: reading.record(snapshot, id))

    async def resolve(self, suffix: str, limit: int = 3) -> list[str]:
        """The ids that end like this, at most `limit`."""
        return await self._store.read(lambda snapshot: reading.resolve(snapshot, suffix, limit))

    async def successes(self, task: str) -> list[Success]:
        """A few successes of a task, chosen by chance among the last ones."""
        if self._store.sampler.unwritten:
            await self._store.write(sampling.write)
        return await self._store.read(lambda snapshot: sampling.successes(snapshot, task))

    async def find(self, query: JobQuery) -> list[Listed]:
        """A page of jobs, newest first."""
        return await self._store.read(lambda snapshot: reading.find(snapshot, query))

    async def prune(self, limit: int) -> int:
        """Forget finished and discarded rows whose time is over; answers how many."""
        return await self._store.write(lambda tx: operating.prune(tx, limit, self._sweep))

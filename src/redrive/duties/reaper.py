"""Takes over jobs whose holder is gone, and gives each what is due to it."""

from collections.abc import Callable, Sequence

from redrive.bench import Bench, Trial
from redrive.clock import SECOND
from redrive.conclusion import suspected
from redrive.store import AnySettlement, Orphan, Store
from redrive.task import completed

LIMIT = 200
REST = SECOND
IDLE = 5 * SECOND
"""So long at the most while nobody holds a lease: one that is taken now lasts longer."""

LEASE = 30 * SECOND


class Reaper:
    """Reaps leases that have ended; those of a worker known to be gone at once."""

    name = "reaper"

    def __init__(self, bench: Bench, store: Store, announce: Callable[[AnySettlement], None]) -> None:
        self._bench = bench
        self._store = store
        self._announce = announce

    async def poll(self) -> int:
        """Reap what has ended by lease; look without writing until something has."""
        ends = await self._store.jobs.lease_ends()
        if ends is None:
            return min(IDLE, self._bench.app.config.worker.lease)
        return 0 if not ends and await self.reap([]) == LIMIT else REST

    async def reap(self, gone: Sequence[str], cause: str | None = None) -> int:
        """Take over and settle a share of orphans; answers how many."""
        orphans = await self._store.jobs.reap(self._bench.identity.worker, gone, LIMIT, LEASE)
        if orphans:
            settlements = [self._settlement(orphan, cause) for orphan in orphans]
            late = await self._store.jobs.settle(settlements)
            for settlement in settlements:
                if settlement.job.id not in late:
                    self._announce(settlement)
        return len(orphans)

    def _settlement(self, orphan: Orphan, cause: str | None) -> AnySettlement:
        app = self._bench.app
        task = app.registry.get(orphan.job.task)
        trial = Trial(self._bench, completed(orphan.job, task), app.clock.steady(), task)
        return suspected(trial, cause or f"{orphan.why}: {orphan.holder}", app.clock.now())

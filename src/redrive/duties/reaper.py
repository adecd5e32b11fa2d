"""Takes over jobs whose holder is gone, and gives each what is due to it."""

from collections.abc import Sequence
from typing import Any

from redrive.attempt import Bench, Trial, suspected
from redrive.store import Orphan

LIMIT = 200
REST = 1_000_000
LEASE = 30_000_000


class Reaper:
    """Reaps leases that have ended; those of a worker known to be gone at once."""

    name = "reaper"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def poll(self) -> int:
        """Reap what has ended by lease."""
        return 0 if await self.reap([]) == LIMIT else REST

    async def reap(self, gone: Sequence[str], cause: str | None = None) -> int:
        """Take over and settle a share of orphans; answers how many."""
        store = self._bench.app.store
        orphans = await store.jobs.reap(self._bench.identity.worker, gone, LIMIT, LEASE)
        if orphans:
            await store.jobs.settle([self._settlement(orphan, cause) for orphan in orphans])
        return len(orphans)

    def _settlement(self, orphan: Orphan, cause: str | None) -> Any:
        app = self._bench.app
        trial = Trial(self._bench, orphan.job, app.clock.steady(), app.registry.get(orphan.job.task))
        return suspected(trial, cause or f"{orphan.why}: {orphan.holder}", app.clock.now())

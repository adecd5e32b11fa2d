"""Workers and clients with a planted bug each, which the ledger has to find: `plants NAME`, then as `worker`.

The bugs stand here, between the app and its store, and never as switches in the product.
"""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from redrive.job import Job
from redrive.store import Added, AnySettlement, Done, Jobs, Turn, Want
from tests.crash.programs import worker
from tests.crash.programs.tasks import app, tape
from tests.crash.tape import What


class Planted:
    """The jobs of the real store; a bug overrides one of its methods."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jobs, name)


class AckBeforeRun(Planted):
    """What is claimed is settled as done at once, as a queue does that acknowledges on delivery."""

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        turn = await self.jobs.turn(settlements, want)
        await self.jobs.settle([Done(job=job) for job in turn.jobs])
        return turn


class NoFence(Planted):
    """A settlement is written whoever holds the lease now."""

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        return await self.jobs.turn([await self._under_any_fence(each) for each in settlements], want)

    async def _under_any_fence(self, settlement: AnySettlement) -> AnySettlement:
        record = await self.jobs.get(settlement.job.id)
        if record is None or record.job is None:
            return settlement
        return msgspec.structs.replace(settlement, job=record.job)


class HastyClient(Planted):
    """The caller is told that a job is accepted while it is still on its way to the disk."""

    async def add(self, jobs: Sequence[Job]) -> list[Added]:
        for job in jobs:
            tape.write(What.ACCEPTED, job.id)
        return await self.jobs.add(jobs)


PLANTS = {plant.__name__: plant for plant in (AckBeforeRun, NoFence, HastyClient)}

if __name__ == "__main__":
    app.store.jobs = PLANTS[sys.argv.pop(1)](app.store.jobs)  # type: ignore[misc]  # a store is not meant to be changed
    worker.main()

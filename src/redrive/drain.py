"""Runs all there is to run, for tests: retries included, a manual clock moved on to when the next one is due."""

import asyncio
from typing import TYPE_CHECKING

from redrive.clock import SECOND, ManualClock
from redrive.errors import NotReady
from redrive.job import State
from redrive.store import JobQuery

if TYPE_CHECKING:
    from redrive.app import Redrive

LOOK = 0.01


async def drain(app: "Redrive", timeout: int) -> int:
    """Work until no job is ready, leased or scheduled; answers how many attempts ended well or for good."""
    try:
        async with asyncio.timeout(timeout / SECOND):
            return await _drain(app)
    except TimeoutError:
        depths = await (await app.opened()).jobs.depth()
        left = ", ".join(f"{d.queue}: {d.ready + d.leased + d.scheduled}" for d in depths)
        raise NotReady(f"jobs are left after {timeout / SECOND:g}s ({left}); give drain a longer timeout") from None


async def _drain(app: "Redrive") -> int:
    store = await app.opened()
    ran = 0
    while True:
        worker = app.worker(burst=True)
        await worker.run()
        ran += worker.done + worker.failed
        waiting = await store.jobs.find(JobQuery(states=(State.SCHEDULED,), limit=1_000))
        if not waiting and not await store.jobs.find(JobQuery(states=(State.READY, State.LEASED), limit=1)):
            return ran
        due = min((listed.at for listed in waiting), default=app.clock.now())
        if isinstance(app.clock, ManualClock):
            app.clock.advance(max(0, due - app.clock.now()) / SECOND)
        else:
            await asyncio.sleep(max(LOOK, (due - app.clock.now()) / SECOND))

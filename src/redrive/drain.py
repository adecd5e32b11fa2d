"""Runs all there is to run, for tests: retries included, a manual clock moved on to when the next one is due."""

import asyncio
import time
from typing import TYPE_CHECKING

from redrive.clock import SECOND, ManualClock
from redrive.errors import NotReady
from redrive.job import State
from redrive.store import JobQuery

if TYPE_CHECKING:
    from redrive.app import Redrive

LOOK = 0.01
WAITING = (State.SCHEDULED, State.READY, State.LEASED)


async def drain(app: "Redrive", timeout: int) -> int:
    """Work until no job is ready, leased or scheduled; answers how many were done or buried."""
    end = _Ending(app, time.monotonic() + timeout / SECOND)
    worker = app.worker(burst=True)
    worker.idle, worker.watched = end.reached, False
    try:
        async with asyncio.timeout(timeout / SECOND):
            await worker.run()
    except TimeoutError:
        raise await end.not_reached(timeout) from None
    if end.overdue:
        raise await end.not_reached(timeout)
    return worker.done + worker.failed


class _Ending:
    """Whether there is anything left, asked whenever a worker has nothing to do."""

    def __init__(self, app: "Redrive", until: float) -> None:
        self._app = app
        self._until = until
        self.overdue = False

    async def reached(self, next_due: int | None) -> bool:
        """Nothing is left; if something is due later, let the time pass until then."""
        store, clock = await self._app.opened(), self._app.clock
        if not await store.jobs.find(JobQuery(states=WAITING, limit=1)):
            return True
        self.overdue = time.monotonic() >= self._until
        rest = LOOK if next_due is None else max(0, next_due - clock.now()) / SECOND
        if isinstance(clock, ManualClock) and next_due is not None:
            clock.advance(rest)
        elif not self.overdue:
            await asyncio.sleep(min(max(rest, LOOK), max(LOOK, self._until - time.monotonic())))
        return self.overdue

    async def not_reached(self, timeout: int) -> NotReady:
        """What is left."""
        depths = await (await self._app.opened()).jobs.depth()
        left = ", ".join(f"{d.queue}: {n}" for d in depths if (n := d.ready + d.leased + d.scheduled))
        seconds = f"{timeout / SECOND:g}s"
        what = f"jobs are left after {seconds} ({left})" if left else f"the jobs took longer than {seconds}"
        why = await self._given_back()
        return NotReady(
            f"{what}; the last one was given back: {why}" if why else f"{what}; give drain a longer timeout"
        )

    async def _given_back(self) -> str | None:
        """Why the newest job that is left was given back last, if it was: such as a child process that cannot start."""
        store = await self._app.opened()
        for job in await store.jobs.find(JobQuery(states=WAITING, limit=1)):
            entries = await store.journal.events(limit=1_000, job=job.id)
            if entries and entries[-1].event == "job.released":
                return entries[-1].text
        return None

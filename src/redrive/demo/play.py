"""The demo as it runs: jobs are enqueued, a worker runs them, one cause is fixed and its letters are brought back."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from redrive.config import Config, WorkerSettings
from redrive.demo import PATIENCE, tasks
from redrive.demo.figures import Cause, Retries, Tally, causes, entries, hurt, retries, tallies, total
from redrive.demo.story import FIX, Part, jobs, parts
from redrive.query.tree import of_group
from redrive.store import Entry, Store

ACTOR = "redrive demo"
LOOK = 0.1
"""Seconds between two looks at the store."""

PAGE = 500


@dataclass(frozen=True, slots=True)
class Moment:
    """What the store said at a look: the tally of each task, and what happened since the look before."""

    seconds: float
    release: str
    tasks: dict[str, Tally]
    news: Sequence[Entry]

    @property
    def all(self) -> Tally:
        return total(self.tasks.values())


@dataclass(frozen=True, slots=True)
class FirstAct:
    """What release 1.0 left: what was retried, what died of what, and which of that will be fixed."""

    moment: Moment
    retries: Sequence[Retries]
    causes: Sequence[Cause]
    fixable: Cause | None


@dataclass(frozen=True, slots=True)
class Report:
    """How it ended."""

    moment: Moment
    first: FirstAct
    revived: int
    revived_done: int
    hurt: int
    causes: Sequence[Cause]
    differences: Sequence[str]


class Audience(Protocol):
    """Who is told, in this order; `moment` as often as the store is looked at."""

    def begins(self, cast: Sequence[Part]) -> None: ...

    def moment(self, moment: Moment) -> None: ...

    def died(self, act: FirstAct) -> None: ...

    def revived(self, cause: Cause, count: int) -> None: ...

    def ended(self, report: Report) -> None: ...


async def perform(folder: Path, audience: Audience, patience: float = PATIENCE) -> Report:
    """Play the demo on a store in this folder."""
    tasks.app.config = _settings(folder, tasks.FIRST)
    store = await tasks.app.opened()
    try:
        return await Play(store, folder, audience, patience).run()
    finally:
        await tasks.app.aclose()


def _settings(folder: Path, release: str) -> Config:
    """Settings of the demo's own: nobody's files or variables change it, and it touches nobody's store."""
    worker = WorkerSettings(concurrency=20, threads=4, children=3)
    return Config(url=f"sqlite:///{folder / 'redrive.db'}", root=str(folder), release=release, worker=worker)


class Play:
    """One run."""

    def __init__(self, store: Store, folder: Path, audience: Audience, patience: float) -> None:
        self._store = store
        self._folder = folder
        self._audience = audience
        self._patience = patience
        self._queues = {task.name: task.options.queue for task in tasks.app.tasks.values()}
        self._began = time.monotonic()
        self._seen = 0

    async def run(self) -> Report:
        """All of it."""
        cast = parts()
        self._audience.begins(cast)
        await tasks.app.aenqueue_many(jobs(cast))
        first = await self._first_act(cast)
        self._audience.died(first)
        revived = await self._second_act(first)
        report = await self._report(cast, first, revived)
        self._audience.ended(report)
        return report

    async def _first_act(self, cast: Sequence[Part]) -> FirstAct:
        async with _worker(self._folder, tasks.FIRST):
            moment = await self._watch(self._patience * 2 / 3)
        found = await causes(self._store)
        fixed = {part.task for part in cast if part.fixed}
        fixable = next((cause for cause in found if cause.group.task in fixed), None)
        return FirstAct(moment, await retries(self._store, await entries(self._store)), found, fixable)

    async def _second_act(self, first: FirstAct) -> list[str]:
        """Bring back the letters of the cause that the fix is for, and run them, and what was left, with the fix."""
        revived = await self._revived(first.fixable) if first.fixable else []
        if revived or first.moment.all.left:
            async with _worker(self._folder, tasks.FIXED):
                await self._watch(self._patience)
        return revived

    async def _revived(self, cause: Cause) -> list[str]:
        """All letters of this cause and of no other."""
        letters, meant = self._store.letters, of_group(cause.group.fingerprint)
        revived: list[str] = []
        while page := (await letters.find(meant, None, PAGE)).letters:
            revived += await letters.revive([letter.id for letter in page], ACTOR, FIX)
        self._audience.revived(cause, len(revived))
        return revived

    async def _watch(self, patience: float) -> Moment:
        """Look until no job is left to run, or the demo is so many seconds old."""
        while True:
            moment = await self._look()
            self._audience.moment(moment)
            if not moment.all.left or moment.seconds >= patience:
                return moment
            await asyncio.sleep(LOOK)

    async def _look(self) -> Moment:
        news = await entries(self._store, self._seen)
        self._seen = news[-1].seq if news else self._seen
        now = time.monotonic() - self._began
        return Moment(now, tasks.app.release or "", await tallies(self._store, self._queues), news)

    async def _report(self, cast: Sequence[Part], first: FirstAct, revived: Sequence[str]) -> Report:
        records = [await self._store.jobs.get(id) for id in revived]
        self._seen = 0
        moment = await self._look()
        return Report(
            moment=moment,
            first=first,
            revived=len(revived),
            revived_done=sum(record is not None and record.finished is not None for record in records),
            hurt=hurt(moment.news),
            causes=await causes(self._store),
            differences=[*_differences(cast, first.moment, moment), *_left(moment)],
        )


@asynccontextmanager
async def _worker(folder: Path, release: str) -> AsyncIterator[None]:
    """A worker of this release; whatever ends the wait for it ends it at once."""
    tasks.app.config = _settings(folder, release)
    worker = tasks.app.worker()
    async with worker:
        try:
            yield
        finally:
            worker.stop_now()


def _differences(cast: Sequence[Part], first: Moment, last: Moment) -> list[str]:
    """Where the run was not as the story says."""
    found = []
    for part in cast:
        early, late = first.tasks[part.task], last.tasks[part.task]
        if early.buried != part.dying:
            found.append(
                f"{part.task}: {early.buried} jobs died under release {tasks.FIRST}, the story has {part.dying}"
            )
        if late.dead != (0 if part.fixed else part.dying):
            found.append(f"{part.task}: {late.dead} jobs are dead at the end")
        if late.lost:
            found.append(f"{part.task}: {late.lost} jobs are accounted for nowhere")
    return found


def _left(moment: Moment) -> list[str]:
    left = moment.all.left
    return [f"{left} jobs have not ended, this machine is slower; --patience 90 waits longer"] if left else []

"""How fast a worker drains a queue: no-op jobs, and jobs that fail three times and die, against the reference.

The measured span is that of the jobs: it begins when the first turn that brought a job was asked for, and ends when the
store has acknowledged the last settlement. Workers run before it begins, with the queue paused.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.children import Child, span, started, url
from benchmarks.figures import Figure, ratio
from benchmarks.jobs import FAIL, NOTHING, app_at
from benchmarks.plan import Plan
from benchmarks.reference import fill
from redrive import Redrive
from redrive.job import Job
from redrive.store import Gate

GOAL = 0.5
UNITS = {"drain": "jobs/s", "dying": "deaths/s"}
Making = Callable[[Redrive, int], Iterable[Job]]


def nothing(app: Redrive, count: int) -> Iterable[Job]:
    """Jobs that do nothing."""
    return (app.job(NOTHING) for _ in range(count))


def failing(app: Redrive, count: int) -> Iterable[Job]:
    """Jobs that fail three times and die."""
    return (app.job(FAIL, {"number": number}) for number in range(count))


async def drain(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """No-op jobs."""
    for processes in plan.processes:
        yield await _against_reference(plan, "drain", plan.jobs, processes, plan.concurrency)


async def dying(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """Jobs that fail three times, every failure kept, and become dead letters."""
    yield await _against_reference(plan, "dying", max(1, plan.jobs // 4), 1, plan.concurrency)


async def _against_reference(
    plan: Plan, case: str, jobs: int, processes: int, slots: tuple[int, ...]
) -> tuple[str, list[Figure]]:
    """One of each in turns, so that a slow moment of the machine hits all of them; as many jobs in hand as slots."""
    ways = [(size, how) for size in slots for how in ((False, True) if case == "drain" else (False,))]
    reference: dict[int, list[float]] = {size: [] for size in slots}
    ours: dict[tuple[int, bool], list[float]] = {way: [] for way in ways}
    for _ in range(plan.runs):
        for size in slots:
            reference[size].append(jobs / await reference_run(case, jobs, processes, size))
        for size, logged in ways:
            ours[size, logged].append(jobs / await redrive_run(case, jobs, processes, size, logged=logged))
    figures = []
    for size in slots:
        base = Figure(case, f"reference, batches of {size}", tuple(reference[size]), UNITS[case])
        figures.append(base)
        for logged in (logged for among, logged in ways if among == size):
            figures += _beside(case, size, ours[size, logged], base, logged=logged)
    return f"{case}: {jobs:,} jobs, {processes} {'process' if processes == 1 else 'processes'}", figures


def _beside(case: str, slots: int, runs: list[float], base: Figure, *, logged: bool) -> list[Figure]:
    """Ours, and its ratio to the reference with as many jobs in hand."""
    name = f"redrive, {slots} slots{' and two log lines a job' if logged else ''}"
    figure = Figure(case, name, tuple(runs), base.unit)
    return [figure, ratio(case, f"{name} / reference", figure, base, None if logged else GOAL)]


async def reference_run(case: str, jobs: int, processes: int, batch: int) -> float:
    """Seconds that the reference takes."""
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as name:
        folder = Path(name)
        fill(folder, jobs)
        async with started(folder, "reference", case, batch, count=processes) as children:
            for child in children:
                child.tell("go")
            return span(_complete(jobs, [await child.said() for child in children]))


async def redrive_run(case: str, jobs: int, processes: int, slots: int, *, logged: bool = False) -> float:
    """Seconds that Redrive takes."""
    making = failing if case == "dying" else nothing
    async with (
        loaded(making, jobs) as (folder, app),
        started(folder, "worker", slots, "logged" if logged else "", count=processes) as children,
    ):
        await paused(app, False)
        return span(await _all_done(children, jobs))


async def _all_done(children: list[Child], jobs: int) -> list[dict[str, Any]]:
    """The last words of each, once all jobs have ended; who is idle says what it has done, and may say more later."""
    latest: dict[int, dict[str, Any]] = {}
    waiting = {asyncio.create_task(child.said()): child for child in children}
    while sum(report["jobs"] for report in latest.values()) < jobs:
        spoken, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in spoken:
            child = waiting.pop(task)
            latest[child.pid] = task.result()
            waiting[asyncio.create_task(child.said())] = child
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return _complete(jobs, list(latest.values()))


def _complete(jobs: int, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = sum(report["jobs"] for report in reports)
    if done != jobs:
        raise RuntimeError(f"{done:,} jobs ended where {jobs:,} were added: this is not a benchmark but a bug")
    return reports


@asynccontextmanager
async def loaded(making: Making, jobs: int) -> AsyncIterator[tuple[Path, Redrive]]:
    """A store in a folder of its own, its queue paused, with so many jobs."""
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as name:
        folder = Path(name)
        app = app_at(url(folder))
        try:
            await paused(app, True)
            if jobs:
                await app.aenqueue_many(making(app, jobs))
            yield folder, app
        finally:
            await app.aclose()


async def paused(app: Redrive, hold: bool) -> None:
    """Hold the queue back, or let it go."""
    store = await app.opened()
    gate = Gate(kind="queue", key="default", state="closed" if hold else "open")
    await store.jobs.gate(gate, actor="benchmarks")

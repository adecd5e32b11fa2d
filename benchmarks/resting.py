"""What a worker costs beside its jobs: the wait before a start, and what it takes while there is nothing to do."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import psutil

from benchmarks.children import started
from benchmarks.drain import loaded, nothing, paused
from benchmarks.figures import Figure
from benchmarks.jobs import ARRIVE
from benchmarks.plan import Plan
from redrive import Redrive

RATE = 100.0
MIB = 1024 * 1024


async def latency(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """From before `aenqueue` in one process to the first line of the handler in an idle worker of another."""
    medians, tails = [], []
    for _ in range(plan.runs):
        waits = sorted(await _waits(plan.seconds))
        medians.append(_at(waits, 0.5) * 1_000)
        tails.append(_at(waits, 0.99) * 1_000)
    heading = f"latency: {RATE:.0f} jobs/s for {plan.seconds:g}s, an idle worker in another process"
    yield (
        heading,
        [
            Figure("latency", "enqueue to start, median", tuple(medians), "ms", goal=3, at_most=True),
            Figure("latency", "enqueue to start, 99th of a hundred", tuple(tails), "ms", goal=15, at_most=True),
        ],
    )


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


async def _waits(seconds: float) -> list[float]:
    async with loaded(nothing, 0) as (folder, app), started(folder, "worker", 20) as [child]:
        await paused(app, False)
        await _arrivals(app, seconds)
        child.tell("waits")
        while "waits" not in (said := await child.said()):
            pass
        return [float(wait) for wait in said["waits"]]


async def _arrivals(app: Redrive, seconds: float) -> None:
    """Jobs at an even pace, each with the time at which it was sent."""
    began = time.monotonic()
    for number in range(max(1, round(seconds * RATE))):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        await app.aenqueue(ARRIVE, {"sent": time.monotonic()})


async def idle(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """A worker with nothing to do."""
    shares, trips = [], []
    for _ in range(plan.runs):
        async with loaded(nothing, 0) as (folder, _), started(folder, "worker", 20) as [child]:
            await asyncio.sleep(1)  # what it does at its start is over
            child.tell("spent")
            before = await child.said()
            await asyncio.sleep(plan.seconds)
            child.tell("spent")
            after = await child.said()
            passed = after["at"] - before["at"]
            shares.append((after["cpu"] - before["cpu"]) / passed * 100)
            trips.append((after["trips"] - before["trips"]) / passed)
    yield (
        f"idle: a worker with nothing to do, for {plan.seconds:g}s",
        [
            Figure("idle", "processor time", tuple(shares), "% of a core", goal=1, at_most=True),
            Figure("idle", "round trips to the store", tuple(trips), "a second", goal=2, at_most=True),
        ],
    )


async def memory(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """A worker before a long queue, and after it has run it."""
    async with loaded(nothing, plan.waiting) as (folder, app), started(folder, "worker", 100) as [child]:
        waiting = psutil.Process(child.pid).memory_info().rss / MIB
        await paused(app, False)
        while (await child.said())["jobs"] < plan.waiting:
            pass
        after = psutil.Process(child.pid).memory_info().rss / MIB
    yield (
        f"memory: a worker with {plan.waiting:,} jobs waiting, and after them",
        [
            Figure("memory", "resident, jobs waiting", (waiting,), "MiB", goal=60, at_most=True),
            Figure("memory", "resident, jobs done", (after,), "MiB", goal=60, at_most=True),
        ],
    )

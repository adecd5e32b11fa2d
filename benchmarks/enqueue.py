"""How fast jobs are added: one by one, by many callers at once, in bulk; against bare inserts, as durable."""

import asyncio
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from benchmarks.children import url
from benchmarks.figures import Figure, ratio
from benchmarks.jobs import NOTHING, app_at
from benchmarks.plan import Plan
from benchmarks.reference import FILE, connect
from redrive import Redrive

CALLERS = 50
BULK = 1_000
_TABLE = "CREATE TABLE job (id BLOB PRIMARY KEY, task TEXT NOT NULL, payload BLOB NOT NULL)"
_INSERT = "INSERT INTO job VALUES (?, 'nothing', ?)"

Way = Callable[[Redrive, int], Awaitable[None]]


async def enqueue(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """Three ways in, each beside its reference."""
    few = max(CALLERS, plan.jobs // 10)
    ways: list[tuple[str, Way, str, int, int]] = [
        ("enqueue, one after the other", one_by_one, "an insert and a commit each", 1, few),
        (f"aenqueue, {CALLERS} callers at once", at_once, f"inserts by {CALLERS}", CALLERS, few),
        ("aenqueue_many", in_bulk, f"inserts by {BULK:,}", BULK, plan.jobs),
    ]
    for name, way, other, batch, jobs in ways:
        runs = [(await _bare(jobs, batch), await _ours(way, jobs)) for _ in range(plan.runs)]
        base = Figure("enqueue", f"reference, {other}", tuple(jobs / bare for bare, _ in runs), "jobs/s")
        ours = Figure("enqueue", name, tuple(jobs / own for _, own in runs), "jobs/s")
        yield f"enqueue: {jobs:,} jobs", [base, ours, ratio("enqueue", f"{name} / reference", ours, base)]


async def one_by_one(app: Redrive, jobs: int) -> None:
    """The synchronous way, from a thread without a loop."""

    def all_of_them() -> None:
        for _ in range(jobs):
            app.enqueue(NOTHING)

    await asyncio.to_thread(all_of_them)


async def at_once(app: Redrive, jobs: int) -> None:
    """Callers that do not know of each other, as the requests of a web service."""

    async def caller() -> None:
        for _ in range(jobs // CALLERS):
            await app.aenqueue(NOTHING)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def in_bulk(app: Redrive, jobs: int) -> None:
    """A stream of jobs."""
    await app.aenqueue_many(app.job(NOTHING) for _ in range(jobs))


async def _ours(way: Way, jobs: int) -> float:
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as name:
        app = app_at(url(Path(name)))
        try:
            await app.aenqueue(NOTHING)  # opens the store
            began = time.monotonic()
            await way(app, jobs)
            return time.monotonic() - began
        finally:
            await app.aclose()


async def _bare(jobs: int, batch: int) -> float:
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as name:
        db = connect(Path(name) / FILE)
        db.execute(_TABLE)
        began = time.monotonic()
        for _ in range(jobs // batch):
            with db:
                db.executemany(_INSERT, [(uuid.uuid4().bytes, b"{}") for _ in range(batch)])
        took = time.monotonic() - began
        db.close()
        return took

"""What looking for dead letters costs when there are many, and how fast a redrive gives them back."""

import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.children import started, url
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from redrive.clock import SystemClock
from redrive.redrives import drive
from redrive.store import Plan as Wanted
from redrive.store import Store
from redrive.stores.sqlite import SqliteStore
from redrive.triage import meant, pages, whole

MIB = 1024 * 1024
LOOKS = 40
PAGE = 50
FEW = 5
SLOW = "payload.user.tier = tin"


@asynccontextmanager
async def filled(n: int) -> AsyncIterator[tuple[Path, Store]]:
    """A store with so many dead letters, opened after another process has filled it."""
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as name:
        folder = Path(name)
        async with started(folder, "filling", n):
            pass
        store = SqliteStore(folder / "redrive.db")
        await store.open()
        try:
            yield folder, store
        finally:
            await store.close()


async def letters(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """Pages, groups, totals, counts and a stream of everything."""
    async with filled(plan.letters) as (folder, store):
        looks: list[tuple[str, Callable[[], Awaitable[Any]], float]] = [
            ("a page of 50", lambda: store.letters.find(meant("", 0), None, PAGE), 50),
            ("a page of a queue", lambda: store.letters.find(meant("queue = email", 0), None, PAGE), 50),
            ("a page by a place in the payload", lambda: store.letters.find(meant(SLOW, 0), None, PAGE), 500),
            ("the groups", lambda: store.letters.groups(None, PAGE), 50),
            ("the totals of `dlq stats`", store.letters.totals, 50),
            ("a count by queue", lambda: store.letters.count(meant("queue = email", 0)), 50),
            ("a count by reason", lambda: store.letters.count(meant("reason = timeout", 0)), 50),
        ]
        figures = [await _looked(name, look, goal) for name, look, goal in looks]
        yield f"letters: {plan.letters:,} open letters, 95th of a hundred", figures
        yield "letters: everything", [*await _streamed(store), await _counted(store), _listed(folder)]


async def _looked(name: str, look: Callable[[], Awaitable[Any]], goal: float) -> Figure:
    await look()
    took = sorted([await _timed(look) for _ in range(LOOKS)])
    return Figure("letters", name, (took[LOOKS * 95 // 100] * 1_000,), "ms", goal, at_most=True)


async def _timed(look: Callable[[], Awaitable[Any]]) -> float:
    began = time.monotonic()
    await look()
    return time.monotonic() - began


async def _streamed(store: Store) -> list[Figure]:
    """Every letter with its payload and failures, as `dlq export` reads them."""
    memory, began, n = Memory(), time.monotonic(), 0
    async for _ in whole(store, meant("", 0)):
        n += 1
        if n % 1_000 == 0:
            memory.look()
    took = time.monotonic() - began
    return [
        Figure("letters", "a stream of all, whole", (n / took,), "letters/s"),
        Figure("letters", "memory above idle meanwhile", (memory.more,), "MiB", 100, at_most=True),
    ]


async def _counted(store: Store) -> Figure:
    """What has to be looked at one by one."""
    began, n = time.monotonic(), 0
    async for page in pages(store, meant(SLOW, 0), size=1_000):
        n += len(page)
    return Figure("letters", f"{SLOW}: all {n:,}, a scan", (time.monotonic() - began,), "s")


def _listed(folder: Path) -> Figure:
    """The command as a person runs it."""
    command = [sys.executable, "-m", "redrive", "--url", url(folder), "dlq", "list"]
    runs = []
    for _ in range(FEW):
        began = time.monotonic()
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        runs.append((time.monotonic() - began) * 1_000)
    return Figure("letters", "redrive dlq list", tuple(runs), "ms", 200, at_most=True)


class Memory:
    """How much more of it this process needs than when it began."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._idle = self._process.memory_info().rss
        self.more = 0.0

    def look(self) -> None:
        """Keep the most."""
        self.more = max(self.more, (self._process.memory_info().rss - self._idle) / MIB)


async def redrive(plan: Plan) -> AsyncIterator[tuple[str, list[Figure]]]:
    """All letters at once, without stages and stop; in runs of their own, each on a store of its own."""
    runs = [await _redriven(plan.letters) for _ in range(plan.runs)]
    frozen, released, more = zip(*runs, strict=True)
    yield (
        f"redrive: {plan.letters:,} letters, no ramp, no stop",
        [
            Figure("redrive", "frozen", frozen, "letters/s"),
            Figure("redrive", "released, dead to ready", released, "letters/s", 20_000),
            Figure("redrive", "memory above idle", more, "MiB", 100, at_most=True),
        ],
    )


async def _redriven(n: int) -> tuple[float, float, float]:
    async with filled(n) as (_, store):
        clock, memory = SystemClock(), Memory()
        opened = await store.redrives.open(Wanted(stages=(), stop_at="never"), "bench", "")
        began = time.monotonic()
        while (found := await store.redrives.get(opened.id)) is not None and found.state == "freezing":
            await drive(store, clock, opened.id)
        frozen = time.monotonic()
        while sum(tally.left for tally in await store.redrives.tally(opened.id)):
            await drive(store, clock, opened.id)
            memory.look()
        released = time.monotonic()
        return n / (frozen - began), n / (released - frozen), memory.more

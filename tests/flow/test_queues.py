"""Which jobs a worker takes: its queues, its caps, and fairness between kinds of slots."""

import asyncio
import threading
from collections import Counter

import pytest

from redrive import Redrive
from redrive.store import Gate
from redrive.testing.flaky import FlakyStore
from tests.flow.conftest import MakeApp
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


class Rooms:
    """A handler that stays until it is let out, and counts who is in."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.door = asyncio.Event()

    async def stay(self, room: str) -> None:
        self.inside[room] += 1
        self.most[room] = max(self.most[room], self.inside[room])
        await self.door.wait()
        self.inside[room] -= 1


async def test_a_worker_takes_from_its_queues_alone(app: Redrive) -> None:
    """The others are left to others."""
    ran = []

    @app.task
    async def work(queue: str) -> None:
        ran.append(queue)

    for queue in ("a", "b", "c"):
        await work.using(queue=queue).aenqueue(queue)
    await app.worker(["a", "c"], burst=True).run()
    assert sorted(ran) == ["a", "c"]
    await app.worker(burst=True).run()
    assert sorted(ran) == ["a", "b", "c"]


async def test_a_cap_holds_for_its_queue(make_app: MakeApp) -> None:
    """`email=2` is two at once; the other queue takes the rest."""
    app, rooms = make_app(), Rooms()
    work = app.task(name="work")(rooms.stay)
    for _ in range(8):
        await work.using(queue="email", priority=9).aenqueue("email")
        await work.using(queue="other").aenqueue("other")
    async with app.worker({"email": 2, "other": None}, concurrency=6):
        await auntil(lambda: rooms.inside == {"email": 2, "other": 4})
        rooms.door.set()
        await auntil(lambda: not +rooms.inside)
    assert rooms.most == {"email": 2, "other": 4}


async def test_concurrency_is_a_limit(make_app: MakeApp) -> None:
    """Never more at once."""
    app, rooms = make_app(), Rooms()
    work = app.task(name="work")(rooms.stay)
    for _ in range(9):
        await work.aenqueue("all")
    async with app.worker(concurrency=3):
        await auntil(lambda: rooms.inside["all"] == 3)
        rooms.door.set()
        await auntil(lambda: _empty(app))
    assert rooms.most["all"] == 3


async def _empty(app: Redrive) -> bool:
    return not any(depth.ready or depth.leased for depth in await app.store.jobs.depth())


async def test_full_threads_do_not_hold_up_the_loop(make_app: MakeApp) -> None:
    """Plain functions wait for a thread, and coroutines pass them, whatever their priority."""
    app, release = make_app(), threading.Event()

    @app.task(priority="high")
    def plain() -> None:
        release.wait(10)

    @app.task
    async def quick() -> str:
        return "done"

    for _ in range(6):
        await plain.aenqueue()
    async with app.worker(threads=2):
        await auntil(lambda: _leased(app, 2))
        assert await (await quick.aenqueue()).await_(10) == "done"
        assert await _leased(app, 2)
        release.set()
        await auntil(lambda: _empty(app))


async def _leased(app: Redrive, n: int) -> bool:
    [depth] = await app.store.jobs.depth(["default"])
    return depth.leased == n


async def test_a_closed_queue_is_left_alone(app: Redrive) -> None:
    """And taken up when it opens again."""
    ran = []

    @app.task
    async def work() -> None:
        ran.append(True)

    await work.aenqueue()
    await app.store.jobs.gate(Gate(kind="queue", key="default", state="closed"), "alice")
    await app.worker(burst=True).run()
    assert ran == []
    await app.store.jobs.gate(Gate(kind="queue", key="default", state="open"), "alice")
    await app.worker(burst=True).run()
    assert ran == [True]


async def test_claims_and_settlements_travel_in_batches(make_app: MakeApp, make_store: object, clock: object) -> None:
    """A hundred quick jobs on twenty slots cost far fewer round trips than jobs."""
    from redrive.clock import SystemClock

    store = FlakyStore(make_store(SystemClock()))  # type: ignore[operator]
    app = make_app(store=store)

    @app.task
    async def work() -> None: ...

    await app.aenqueue_many(work.job() for _ in range(200))
    await app.worker(burst=True).run()
    assert store.calls.count("jobs.turn") <= 40


async def test_an_idle_worker_asks_only_when_it_polls(make_app: MakeApp, make_store: object) -> None:
    """No round trips pile up: after busy times it is as quiet as before."""
    from redrive.clock import SystemClock

    store = FlakyStore(make_store(SystemClock()))  # type: ignore[operator]
    app = make_app(store=store, worker={"poll": 10_000_000})

    @app.task
    async def work() -> None: ...

    async with app.worker():
        for _ in range(30):
            await (await work.aenqueue()).await_(10)
        turns = store.calls.count("jobs.turn")
        beats = store.calls.count("workers.beat")
        await auntil(lambda: store.calls.count("workers.beat") > beats + 10)
        assert store.calls.count("jobs.turn") - turns <= 2

"""A store that is away: nothing that has ended is lost, it is said once, and work goes on when it is back."""

import asyncio
from typing import Any

import pytest

from redrive import Redrive, Retry, StoreError
from redrive.clock import ManualClock, SystemClock
from redrive.events import Recorder
from redrive.job import State
from redrive.testing.flaky import FlakyStore
from tests.flow.conftest import MakeApp
from tests.flow.seen import letter, names, state
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(make_store: Any) -> FlakyStore:
    """A store that can be taken away."""
    return FlakyStore(make_store(SystemClock()))


@pytest.fixture
def app(make_app: MakeApp, store: FlakyStore) -> Redrive:
    """An app on it."""
    return make_app(store=store, worker={"grace": 200_000})


async def test_what_ended_during_an_outage_is_settled_after_it(app: Redrive, store: FlakyStore, told: Recorder) -> None:
    """Every job is done once; the outage and its end are said once each."""
    release, ran = asyncio.Event(), []

    @app.task
    async def work(n: int) -> None:
        await release.wait()
        ran.append(n)

    jobs = [await work.aenqueue(n) for n in range(5)]
    async with app.worker():
        await auntil(lambda: names(told).count("job.started") == 5)
        store.down = True
        release.set()
        await auntil(lambda: len(ran) == 5)
        await auntil(lambda: store.calls.count("jobs.turn") > 4)
        store.down = False
        await auntil(lambda: names(told).count("job.succeeded") == 5)
    assert [await state(app, job) for job in jobs] == [State.DONE] * 5
    assert sorted(ran) == list(range(5))
    assert names(told).count("store.unavailable") == names(told).count("store.returned") == 1


async def test_a_lost_answer_to_a_settlement_is_not_a_late_one(app: Redrive, store: FlakyStore, told: Recorder) -> None:
    """It was written; the second try finds it so, and it counts as what it is."""

    @app.task
    async def work() -> None:
        store.lose_answers("jobs.turn")

    job = await work.aenqueue()
    await app.worker(burst=True).run()
    assert await state(app, job) == State.DONE
    assert names(told).count("job.succeeded") == 1
    assert "job.late" not in names(told)


async def test_work_resumes_when_the_store_is_back(app: Redrive, store: FlakyStore) -> None:
    """Without a restart."""

    @app.task
    async def work() -> None: ...

    async with app.worker():
        store.down = True
        await auntil(lambda: store.calls.count("jobs.turn") > 3)
        store.down = False
        job = await work.aenqueue()
        await job.await_(10)


async def test_a_worker_can_leave_without_its_store(app: Redrive, store: FlakyStore, told: Recorder) -> None:
    """After its grace it goes; what it could not tell is found by others when the lease ends."""

    @app.task
    async def work() -> None:
        store.down = True

    job = await work.aenqueue()
    async with app.worker() as worker:
        await auntil(lambda: store.down and len(worker._settler))
        worker.drain()
        await asyncio.wait_for(asyncio.wait({worker._pump}), 10)
    store.down = False
    assert await state(app, job) == State.LEASED


async def test_a_settlement_that_cannot_be_written_harms_no_other(
    app: Redrive, store: FlakyStore, told: Recorder
) -> None:
    """The store chokes on a batch: its members go one by one, and the one at fault as a failure with little to tell."""
    together, started = asyncio.Event(), []

    @app.task(retry=Retry(1))
    async def work(n: int) -> None:
        started.append(n)
        await together.wait()

    jobs = [await work.aenqueue(n) for n in range(4)]
    async with app.worker() as worker:
        await auntil(lambda: len(started) == 4)
        store.down = True
        together.set()
        await auntil(lambda: len(worker._settler) == 4)
        store.raise_once("jobs.turn", ValueError("a batch of four"))
        store.raise_once("jobs.turn", ValueError("the first of them"))
        store.down = False
        await auntil(lambda: names(told).count("job.succeeded") == 3)
        await auntil(lambda: "job.buried" in names(told))
    states = [await state(app, job) for job in jobs]
    assert sorted(states) == [State.DEAD, State.DONE, State.DONE, State.DONE]
    assert "ValueError: the first of them" in (await letter(app, jobs[states.index(State.DEAD)])).message


async def test_a_fault_of_the_keeper_is_told_and_it_goes_on(make_app: MakeApp, store: FlakyStore) -> None:
    """The next heartbeat matters more than any fault."""
    app, told = make_app(store=store), Recorder()
    app.subscribe(told)
    store.raise_once("jobs.lease_ends", RuntimeError("a fault"))
    async with app.worker():
        await auntil(lambda: "worker.fault" in names(told))
        beats = store.calls.count("workers.beat")
        await auntil(lambda: store.calls.count("workers.beat") > beats + 1)
    [fault] = [event for event in told.events if event.name == "worker.fault"]
    assert "RuntimeError: a fault" in fault.fields["error"]


async def test_a_worker_that_cannot_reach_its_store_does_not_start(
    make_app: MakeApp, store: FlakyStore, clock: ManualClock
) -> None:
    """It says so at once, and leaves nothing behind."""
    app = make_app(clock, store=store)
    store.raise_once("workers.beat", StoreError("read-only"))
    with pytest.raises(StoreError, match="read-only"):
        await app.worker(burst=True).run()
    assert await app.store.workers.find() == []

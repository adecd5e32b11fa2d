"""Leases: kept while a handler blocks the loop, lost with a word to the handler, taken over when a worker is gone."""

import asyncio
import threading

import pytest

from redrive import Redrive
from redrive.clock import SECOND, ManualClock
from redrive.conclusion import SUSPECT_RUNS
from redrive.events import Recorder
from redrive.job import State
from redrive.presence import Presence
from redrive.store import Released, Want, Worker
from redrive.stores.sqlite import SqliteStore
from tests.flow.conftest import MakeApp
from tests.flow.seen import live, names, record, state
from tests.waiting import auntil, until

pytestmark = pytest.mark.anyio


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(app: Redrive, clock: ManualClock) -> None:
    """Heartbeats come from a thread and a loop of their own."""
    seen: list[bool] = []

    @app.task
    async def blocks() -> None:
        [job] = worker.held()
        for _ in range(3):
            clock.advance(20)
            beaten = until(lambda: _beaten(app, worker.id, clock))
            seen.append(beaten)
        assert job.attempts == 0

    job = await blocks.aenqueue()
    worker = app.worker(burst=True)
    await worker.run()
    assert (seen, await state(app, job)) == ([True] * 3, State.DONE)


def _beaten(app: Redrive, id: str, clock: ManualClock) -> bool:
    """Asked from within a loop that stands still, so in a thread with a loop of its own."""
    found: list[bool] = []

    async def look() -> None:
        found.append(any(row.id == id and row.beat_at == clock.now() for row in await app.store.workers.find()))

    thread = threading.Thread(target=lambda: asyncio.run(look()))
    thread.start()
    thread.join(10)
    return found == [True]


@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_a_lost_lease_stops_the_handler_and_changes_nothing(app: Redrive, told: Recorder, plain: bool) -> None:
    """Somebody else has the job: the handler is cancelled, and its end is told as late."""
    started, release, stopped = threading.Event(), threading.Event(), []

    if plain:

        @app.task(name="long")
        def long() -> None:
            started.set()
            release.wait(10)
    else:

        @app.task(name="long")
        async def along() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                stopped.append(str(error))
                raise

    job = await app.aenqueue("long")
    async with app.worker() as worker:
        await auntil(started.is_set)
        [orphan] = await app.store.jobs.reap("thief", [worker.id], 10, 30 * SECOND)
        app.clock.advance(1)  # type: ignore[attr-defined]
        await auntil(lambda: "job.late" in names(told))
        assert worker.held() == []
        release.set()
    assert (await record(app, job)).worker == "thief"
    assert (await live(app, job)).fence == orphan.job.fence
    assert len(stopped) == (not plain)


async def test_a_lost_lease_may_come_back_to_the_worker_that_lost_it(app: Redrive, told: Recorder) -> None:
    """Before the first handler has ended: its end is late, only the second counts, and every slot is free again."""
    release, runs = asyncio.Event(), []

    @app.task
    async def long() -> None:
        runs.append("begun")
        try:
            await release.wait()
        except asyncio.CancelledError:
            runs.append("cancelled")
            raise

    job = await long.aenqueue()
    async with app.worker() as worker:
        await auntil(lambda: runs == ["begun"])
        [orphan] = await app.store.jobs.reap("thief", [worker.id], 10, 30 * SECOND)
        await app.store.jobs.settle([Released(job=orphan.job, at=app.clock.now(), why="given back", suspect=0)])
        await auntil(lambda: sorted(runs) == ["begun", "begun", "cancelled"])
        assert names(told).count("job.late") == 1
        assert [held.fence for held in worker.held()] == [orphan.job.fence + 1]
        release.set()
        await auntil(lambda: not worker.held())
        assert worker._slots.idle
    assert await state(app, job) == State.DONE


async def test_others_soon_see_what_a_worker_runs(app: Redrive) -> None:
    """It does not wait for its next heartbeat to say so: the clock stands still."""
    release = asyncio.Event()

    @app.task
    async def long() -> None:
        await release.wait()

    async with app.worker():
        job = await long.aenqueue()
        await auntil(lambda: _shown(app, (job.id,)))
        release.set()
        await auntil(lambda: _shown(app, ()))


async def _shown(app: Redrive, running: tuple[str, ...]) -> bool:
    return [worker.running for worker in await app.store.workers.find()] == [running]


async def test_a_cancelled_job_is_stopped_at_the_next_heartbeat(app: Redrive, told: Recorder) -> None:
    """Cancelling is discarding: the running handler learns of it, and nothing it does is kept."""
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await long.aenqueue()
    async with app.worker():
        await started.wait()
        assert await app.store.jobs.cancel([job.id], "alice") == [job.id]
        app.clock.advance(1)  # type: ignore[attr-defined]
        await auntil(lambda: "job.late" in names(told))
    assert (await record(app, job)).end_reason == "cancelled"


async def test_an_ended_lease_is_reaped_and_told(app: Redrive, told: Recorder, clock: ManualClock) -> None:
    """Whoever takes over says what became of it; the job is a suspect, and has lost no attempt."""
    job = await app.aenqueue("elsewhere")
    await app.store.jobs.claim(Want(worker="gone", limit=1, lease=30 * SECOND))
    clock.advance(31)
    async with app.worker(["other"]):
        await auntil(lambda: "job.released" in names(told))
    taken = await live(app, job)
    assert (taken.state, taken.suspect, taken.attempts, taken.starts) == (State.READY, 1, 0, 1)
    [released] = [event for event in told.events if event.name == "job.released"]
    assert released.fields["why"] == "lease ended: gone"


async def test_a_burst_takes_over_before_it_ends(app: Redrive, clock: ManualClock) -> None:
    """What another worker left behind is something to do, although nothing was ready when the burst began."""

    @app.task
    async def work() -> None:
        """Is done at once."""

    job = await work.aenqueue()
    await app.store.jobs.claim(Want(worker="gone", limit=1, lease=30 * SECOND))
    clock.advance(31)
    assert await app.worker(burst=True).run() == 0
    assert await state(app, job) == State.DONE


async def test_a_job_that_is_lost_again_and_again_ends(app: Redrive, told: Recorder, clock: ManualClock) -> None:
    """So many suspect runs cost nothing, then each loss is an attempt, then it is buried as lost."""
    job = await app.aenqueue("elsewhere")
    losses = 0
    async with app.worker(["other"]):
        while await state(app, job) != State.DEAD:
            clock.advance(60)
            for _ in await app.store.jobs.claim(Want(worker="gone", limit=1, lease=30 * SECOND)):
                losses += 1
            clock.advance(31)
            before = losses
            await auntil(lambda: _not_leased(app, job.id))
            assert losses == before
    assert losses == SUSPECT_RUNS + 3
    dead = await live(app, job)
    assert (dead.attempts, dead.losses, dead.starts) == (3, 3, losses)
    [buried] = [event for event in told.events if event.name == "job.buried"]
    assert (buried.fields["failure"].reason, buried.fields["why"]) == ("lost", "exhausted 3 attempts")


async def _not_leased(app: Redrive, id: str) -> bool:
    return await state(app, id) != State.LEASED


class TestOnOneHost:
    """What a lock beside the file tells."""

    @pytest.fixture
    def engine(self) -> str:
        """Only a store that processes share has such locks."""
        return "sqlite"

    async def test_a_dead_worker_is_noticed_by_its_lock(self, make_app: MakeApp) -> None:
        """At once, not at the end of its lease; it is told once, and its file and row are gone."""
        app, told = make_app(), Recorder()
        app.subscribe(told)
        store = await app.opened()
        assert isinstance(store, SqliteStore)
        job = await app.aenqueue("elsewhere")
        async with app.worker(["other"]) as worker:
            [row] = await store.workers.find()
            sign = Presence(store.path.with_name(f"{store.path.name}-redrive"), "dead-1")
            dead = Worker(
                id="dead-1",
                host=row.host,
                boot=row.boot,
                pid=1,
                started_at=0,
                lock_device=sign.device,
                lock_inode=sign.inode,
            )
            await store.workers.beat(dead, 30 * SECOND)
            await store.jobs.claim(Want(worker="dead-1", limit=1, lease=30 * SECOND))
            sign.leave()
            await auntil(lambda: "worker.lost" in names(told))
            await auntil(lambda: _alone(app, worker.id))
        assert (await live(app, job)).suspect == 1
        [lost] = [event for event in told.events if event.name == "worker.lost"]
        assert (lost.fields["worker"], lost.fields["jobs"]) == ("dead-1", 1)
        assert not sign.path.exists()

    async def test_a_worker_leaves_no_trace(self, make_app: MakeApp) -> None:
        """Its row and its lock file are gone with it."""
        app = make_app()
        store = await app.opened()
        assert isinstance(store, SqliteStore)
        async with app.worker() as worker:
            assert list(store.path.parent.rglob(f"{worker.id}.lock"))
        assert not list(store.path.parent.rglob(f"{worker.id}.lock"))
        assert await store.workers.find() == []


async def _alone(app: Redrive, id: str) -> bool:
    return [row.id for row in await app.store.workers.find()] == [id]

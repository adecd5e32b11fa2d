"""Counters as rows: written apart by each worker, merged once their minute is over; and the duties that see to it."""

import pytest

from redrive.clock import SECOND, ManualClock
from redrive.duties.merger import LIMIT, Merger
from redrive.duties.sampler import Sampler
from redrive.store import Done
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.transaction import Transaction
from redrive.testing.factories import added, added_many, claimed, totals
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
MINUTE = 60 * SECOND


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(opened: Open, clock: ManualClock) -> SqliteStore:
    return await opened(clock=clock)


async def rows(store: SqliteStore) -> int:
    """How many rows the counters take."""
    return int(await store.read(lambda snapshot: snapshot.db.execute("SELECT count(*) FROM counter").get))


async def worked(store: SqliteStore) -> None:
    """Three priorities, three workers: nothing is written to the same row."""
    for priority in (2, 5, 8):
        await added_many(store, 3, priority=priority)
    for worker in ("w1", "w2", "w3"):
        jobs = await claimed(store, 3, worker=worker)
        await store.jobs.settle([Done(job=job) for job in jobs])


async def test_a_merge_leaves_one_row_per_minute_queue_task_and_name(store: SqliteStore, clock: ManualClock) -> None:
    """Enqueued, started, done, and how long it lasted."""
    await worked(store)
    assert await rows(store) == 3 * 4
    before = await totals(store)
    assert await store.journal.merge(100) == 0
    clock.advance(60)
    assert await store.journal.merge(100) == 12
    assert await rows(store) == 4
    assert await totals(store) == before


async def test_a_merge_goes_share_by_share(store: SqliteStore, clock: ManualClock) -> None:
    """A share answers how many rows it took, and adds to what an earlier one has merged."""
    await worked(store)
    before = await totals(store)
    clock.advance(60)
    assert [await store.journal.merge(5) for _ in range(4)] == [5, 5, 2, 0]
    assert await rows(store) == 4
    assert await totals(store) == before


async def test_samples_are_not_merged_away(store: SqliteStore, clock: ManualClock) -> None:
    """They are one row from the beginning, and adding them up would make nonsense of them."""
    await added(store)
    await store.journal.sample()
    clock.advance(60)
    await store.journal.sample()
    await store.journal.merge(100)
    assert [count.n for count in await store.journal.counters() if count.name == "depth_ready"] == [1, 1]


async def test_the_sampler_takes_one_sample_in_each_minute(store: SqliteStore, clock: ManualClock) -> None:
    """However late it is called each time."""
    await added(store)
    sampler = Sampler(store, clock)
    for late in (0, 1, 25, 29, 3):
        rest = await sampler.poll()
        assert 30 * SECOND < rest <= 90 * SECOND
        clock.advance((rest + late * SECOND) / SECOND)
    minutes = [count.minute for count in await store.journal.counters() if count.name == "depth_ready"]
    assert minutes == [minutes[0] + n * MINUTE for n in range(5)]


async def test_the_merger_comes_back_soon_while_there_is_more(store: SqliteStore, clock: ManualClock) -> None:
    """And rests a minute when there is not."""
    merger = Merger(store)

    def counted(tx: Transaction) -> None:
        for n in range(LIMIT + 1):
            tx.count("q", f"task-{n}", 5, "w1", "done")

    await store.write(counted)
    clock.advance(60)
    assert await merger.poll() < SECOND
    assert await merger.poll() == MINUTE
    assert await rows(store) == LIMIT + 1


async def test_queues_that_are_empty_are_forgotten(store: SqliteStore, clock: ManualClock) -> None:
    """A queue per customer does not make every claim look at all that ever were."""
    for n in range(20):
        await added(store, queue=f"q{n}")
    jobs = await claimed(store, 20)
    await store.jobs.settle([Done(job=job) for job in jobs])
    await store.jobs.prune(10)
    assert await store.read(lambda snapshot: snapshot.db.execute("SELECT count(*) FROM depth").get) == 0

"""Reads: beside the writer, each on one moment of the store."""

import asyncio
import threading

import apsw
import pytest

from redrive.clock import ManualClock
from redrive.job import State
from redrive.query.matching import Subject
from redrive.query.parsing import parse
from redrive.store import Done, JobQuery
from redrive.stores.sqlite import SqliteStore, finding, operating
from redrive.stores.sqlite.readers import THREADS
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.survey import outer, surveyed
from redrive.testing.factories import added, added_many, buried, claimed, depth_of, state_of
from tests.stores.conftest import Open
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


class Long:
    """A read that looks twice, and in between waits to be told to go on."""

    def __init__(self) -> None:
        self.looked = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, snapshot: Snapshot) -> tuple[int, int]:
        first = len(snapshot.all("find_ready", b"\xff" * 16, None, None, 1_000))
        self.looked.set()
        assert self.go_on.wait(60)
        return first, len(snapshot.all("find_ready", b"\xff" * 16, None, None, 1_000))


async def test_a_long_read_stops_no_writer_and_sees_one_moment(store: SqliteStore) -> None:
    """What is written meanwhile is there for the next reader, and not for this one."""
    await added_many(store, 3)
    long = Long()
    reading = asyncio.ensure_future(store.read(long))
    await auntil(long.looked.is_set)
    jobs = [await added(store) for _ in range(10)]
    assert await state_of(store, jobs[-1].id) == State.READY
    long.go_on.set()
    assert await reading == (3, 3)


async def test_a_long_write_stops_no_reader(store: SqliteStore) -> None:
    """Readers see the moment before it."""
    await added(store)
    begun, go_on = threading.Event(), threading.Event()

    def operation(tx: Transaction) -> None:
        tx.db.execute("DELETE FROM job")
        begun.set()
        assert go_on.wait(60)
        raise ZeroDivisionError

    writing = asyncio.ensure_future(store.write(operation))
    await auntil(begun.is_set)
    assert len(await store.jobs.find(JobQuery())) == 1
    go_on.set()
    with pytest.raises(ZeroDivisionError):
        await writing
    assert len(await store.jobs.find(JobQuery())) == 1


async def test_a_long_read_keeps_no_other_waiting(store: SqliteStore) -> None:
    """There are several readers, started when they are needed."""
    before, longs = _readers(), [Long() for _ in range(THREADS - 1)]
    reading = [asyncio.ensure_future(store.read(long)) for long in longs]
    for long in longs:
        await auntil(long.looked.is_set)
    assert (await depth_of(store)).ready == 0
    for long in longs:
        long.go_on.set()
    await asyncio.gather(*reading)
    assert _readers() - before <= THREADS


async def test_more_reads_than_readers_are_all_answered(store: SqliteStore) -> None:
    """They wait for one another."""
    jobs = await added_many(store, 50)
    records = await asyncio.gather(*(store.jobs.get(job.id) for job in jobs))
    assert [record and record.job and record.job.id for record in records] == [job.id for job in jobs]


async def test_one_read_after_the_other_needs_one_thread(store: SqliteStore) -> None:
    """A second one, with a connection of its own, is for reads at the same time."""
    before = _readers()
    for _ in range(1_000):
        await store.jobs.gates()
    assert _readers() - before <= 1


def _readers() -> int:
    return sum(thread.name == "redrive-reader" for thread in threading.enumerate())


async def test_a_reader_cannot_write(store: SqliteStore) -> None:
    """Not even by mistake."""
    with pytest.raises(Exception, match="readonly"):
        await store.read(lambda snapshot: snapshot.db.execute("DELETE FROM job").fetchall())


async def test_the_loop_goes_on_while_the_store_is_at_work(store: SqliteStore) -> None:
    """Neither a read nor a write keeps the loop from doing other things."""
    long, begun, go_on = Long(), threading.Event(), threading.Event()

    def operation(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(60)

    both = asyncio.gather(store.read(long), store.write(operation))
    await auntil(lambda: long.looked.is_set() and begun.is_set())
    assert not both.done()
    long.go_on.set()
    go_on.set()
    await both


async def test_a_read_that_nobody_waits_for_is_not_begun(store: SqliteStore) -> None:
    """It was cancelled while all readers were at work."""
    longs = [Long() for _ in range(THREADS)]
    reading = [asyncio.ensure_future(store.read(long)) for long in longs]
    for long in longs:
        await auntil(long.looked.is_set)
    begun: list[bool] = []
    late = asyncio.ensure_future(store.read(lambda snapshot: begun.append(True)))
    await asyncio.sleep(0)
    late.cancel()
    await auntil(late.cancelled)
    for long in longs:
        long.go_on.set()
    await asyncio.gather(*reading)
    await depth_of(store)
    assert (late.cancelled(), begun) == (True, [])


SLOW = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000000) SELECT count(*) FROM n"


async def test_a_read_that_nobody_waits_for_any_longer_ends(store: SqliteStore) -> None:
    """Ctrl-C while a large store is searched: closing waits for its readers, and they must not be at it for minutes."""
    begun, ends = threading.Event(), list[str]()

    def slow(snapshot: Snapshot) -> None:
        begun.set()
        try:
            snapshot.db.execute(SLOW).fetchall()
            ends.append("finished")
        except apsw.InterruptError:
            ends.append("interrupted")
            raise

    reading = asyncio.ensure_future(store.read(slow))
    await auntil(begun.is_set)
    reading.cancel()
    await auntil(reading.cancelled)
    await store.close()
    assert ends == ["interrupted"]


async def test_judging_that_nobody_waits_for_any_longer_ends_with_the_row(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path through a large payload takes long for each row, of which SQLite sees nothing."""
    for _ in range(3):
        await buried(store)
    judged, go_on = [threading.Event() for _ in range(3)], threading.Event()
    rows = iter(judged)

    def slowly(subject: Subject) -> bool:
        next(rows).set()
        assert go_on.wait(60)
        return True

    monkeypatch.setattr(finding, "matcher", lambda query: slowly)
    counting = asyncio.ensure_future(store.letters.count(parse("payload.tier = gold", 0)))
    await auntil(judged[0].is_set)
    counting.cancel()
    await auntil(counting.cancelled)
    go_on.set()
    await store.close()
    assert [row.is_set() for row in judged] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "looked"),
    [
        ("queue = email and payload.tier = gold", 3),
        ("payload.tier = gold and (queue = email and priority = normal)", 3),
        ("queue = email or payload.tier = gold", 5),
        ("not payload.tier = gold", 5),
    ],
)
async def test_a_survey_looks_at_what_sql_cannot_rule_out(store: SqliteStore, text: str, looked: int) -> None:
    """And how many those are is known before."""
    for number in range(5):
        await buried(store, queue="email" if number > 1 else "default", payload=b'{"tier": "tin"}')
    query, seen = parse(text, 0), list[int]()
    await surveyed(store, query, seen.append)
    assert (await store.letters.count(outer(query)), seen[-1]) == (looked, looked)


async def test_a_job_that_took_long_is_forgotten_among_younger_ones(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all that are over are the oldest ones; those behind ones that are kept are met on the way through all."""
    monkeypatch.setattr(operating, "STRETCH", 3)
    clock = ManualClock()
    store = await opened(clock=clock)
    slow = await added_many(store, 7, queue="slow")
    quick = await added_many(store, 2, queue="quick")
    await store.jobs.settle([Done(job=job) for job in await claimed(store, 2, queues={"quick": 2})])
    clock.advance("20h")
    await store.jobs.settle([Done(job=job) for job in await claimed(store, 7)])
    clock.advance("5h")
    assert [await store.jobs.prune(10) for _ in range(4)] == [0, 0, 2, 0]
    assert [await state_of(store, job.id) for job in (*quick, *slow)] == [None] * 2 + [State.DONE] * 7
    clock.advance("20h")
    assert sum([await store.jobs.prune(10) for _ in range(4)]) == 7

"""The writer: what waits together is written together, and nobody hears of success before it is on the disk."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from redrive.errors import StoreFull, StoreUnavailable, UsageError
from redrive.job import Job, State
from redrive.store import Accepted, Store, Want
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.transaction import Transaction
from redrive.testing.factories import a_job, added, added_many, depth_of, record_of, state_of
from tests.stores.conftest import Open
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


class Commits:
    """Counts the commits of a store's writer."""

    def __init__(self) -> None:
        self.n = 0
        self.hold: threading.Event | None = None

    def __call__(self) -> bool:
        self.n += 1
        if self.hold is not None:
            assert self.hold.wait(10)
        return False


async def watched(store: SqliteStore) -> Commits:
    """The commits from now on."""
    commits = Commits()
    await store.write(lambda tx: tx.db.set_commit_hook(commits))
    commits.n = 0
    return commits


@asynccontextmanager
async def busy(store: SqliteStore) -> AsyncIterator[None]:
    """The writer is at work: what is asked for meanwhile waits together."""
    begun, over = threading.Event(), threading.Event()

    def operation(tx: Transaction) -> None:
        begun.set()
        assert over.wait(10)

    waiting = asyncio.ensure_future(store.write(operation))
    await auntil(begun.is_set)
    yield
    over.set()
    await waiting


async def limited(store: SqliteStore, pages: int) -> None:
    """Let the file have so many pages more than now."""

    def operation(tx: Transaction) -> None:
        used: Any = tx.db.execute("PRAGMA page_count").get
        tx.db.execute(f"PRAGMA max_page_count = {used + pages}").fetchall()

    await store.write(operation)


def big(kilobytes: int) -> Job:
    return a_job(payload=b'"' + b"x" * (kilobytes * 1024) + b'"')


async def test_what_waits_together_shares_a_commit(store: SqliteStore) -> None:
    """Forty enqueuers pay for one fsync."""
    commits = await watched(store)
    async with busy(store):
        answers = [asyncio.ensure_future(store.jobs.add([a_job()])) for _ in range(40)]
        await asyncio.sleep(0)
    await asyncio.gather(*answers)
    assert commits.n == 2  # that of the busy one, and one for all
    assert (await depth_of(store)).ready == 40


async def test_a_group_is_bounded(store: SqliteStore) -> None:
    """However many wait, no transaction takes in more than a group."""
    commits = await watched(store)
    async with busy(store):
        answers = [asyncio.ensure_future(store.jobs.add([a_job()])) for _ in range(200)]
        await asyncio.sleep(0)
    await asyncio.gather(*answers)
    assert commits.n == 1 + 4


async def test_nobody_hears_of_success_before_the_commit(store: SqliteStore) -> None:
    """While the commit is under way no member of the group is answered, and no reader sees its job."""
    commits = await watched(store)
    commits.hold = threading.Event()
    jobs = [a_job() for _ in range(5)]
    answers = [asyncio.ensure_future(store.jobs.add([job])) for job in jobs]
    await auntil(lambda: commits.n)
    assert [await store.jobs.get(job.id) for job in jobs] == [None] * 5
    assert not any(answer.done() for answer in answers)
    commits.hold.set()
    assert await asyncio.gather(*answers) == [[Accepted(job.id)] for job in jobs]


async def test_one_that_fails_leaves_the_others_of_its_group(store: SqliteStore) -> None:
    """Its own changes are undone, the others are committed, and it alone hears of the fault."""
    job, half = a_job(), a_job()

    def fails(tx: Transaction) -> None:
        tx.run("set_gate", "queue", "half", "closed", None, None, None, 0, "nobody")
        raise ZeroDivisionError

    async with busy(store):
        together = asyncio.gather(
            store.jobs.add([job]),
            store.write(fails),
            store.jobs.add([half, a_job(task="\ud800")]),
            store.jobs.add([a_job(id="no-id")]),
            store.jobs.depth(),
            added(store),
            return_exceptions=True,
        )
        await asyncio.sleep(0)
    good, failed, unwritable, nameless, _, other = await together
    assert good == [Accepted(job.id)]
    assert [type(each) for each in (failed, unwritable, nameless)] == [ZeroDivisionError, UsageError, UsageError]
    assert isinstance(other, Job)
    assert await store.jobs.gates() == []
    assert await store.jobs.get(half.id) is None
    assert (await depth_of(store)).ready == 2


async def test_a_full_file_acknowledges_nothing_that_is_not_there(store: SqliteStore) -> None:
    """SQLite rolls the whole transaction back; each is tried alone, the small ones fit, the big one hears why."""
    await limited(store, 20)
    small, large = [a_job() for _ in range(4)], big(400)
    async with busy(store):
        answers = [asyncio.ensure_future(store.jobs.add([job])) for job in (*small[:2], large, *small[2:])]
        await asyncio.sleep(0)
    first, second, third, *rest = await asyncio.gather(*answers, return_exceptions=True)
    assert isinstance(third, StoreFull)
    assert "make room" in str(third)
    assert [first, second, *rest] == [[Accepted(job.id)] for job in small]
    assert await state_of(store, large.id) is None
    assert (await depth_of(store)).ready == 4


async def test_a_batch_that_does_not_fit_is_not_there_in_part(store: SqliteStore) -> None:
    """One call is accepted whole or not at all."""
    await limited(store, 20)
    batch = [big(20) for _ in range(30)]
    with pytest.raises(StoreFull):
        await store.jobs.add(batch)
    assert [await store.jobs.get(job.id) for job in batch[:3]] == [None] * 3
    assert (await depth_of(store)).ready == 0


async def test_work_goes_on_once_there_is_room(store: SqliteStore) -> None:
    """Without a restart; and what was refused can be added again."""
    await limited(store, 10)
    job = big(300)
    with pytest.raises(StoreFull):
        await store.jobs.add([job])
    await limited(store, 1_000)
    assert await store.jobs.add([job]) == [Accepted(job.id)]
    [claimed] = await store.jobs.claim(Want(worker="w1", limit=5, lease=1_000_000))
    assert claimed.payload == job.payload


async def test_who_no_longer_waits_is_not_served(store: SqliteStore) -> None:
    """An enqueue that was cancelled before it began does not happen."""
    job = a_job()
    async with busy(store):
        answer = asyncio.ensure_future(store.jobs.add([job]))
        await asyncio.sleep(0)
        answer.cancel()
        await asyncio.sleep(0)
    assert answer.cancelled()
    await added(store)
    assert await store.jobs.get(job.id) is None


async def test_loops_of_several_threads_share_the_writer(store: SqliteStore) -> None:
    """Each is answered on its own loop."""

    def thread() -> list[Job]:
        return asyncio.run(added_many(store, 20))

    made = await asyncio.gather(*(asyncio.to_thread(thread) for _ in range(4)))
    assert (await depth_of(store)).ready == sum(len(jobs) for jobs in made) == 80


async def test_what_was_asked_before_the_end_is_done(opened: Open) -> None:
    """Closing finishes what is under way; afterwards the store is closed, and says so."""
    store = await opened()
    jobs = [a_job() for _ in range(30)]
    answers = [asyncio.ensure_future(store.jobs.add([job])) for job in jobs]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*answers) == [[Accepted(job.id)] for job in jobs]
    for ask in (store.jobs.add([a_job()]), store.jobs.get(jobs[0].id), store.wait("w1", 0)):
        with pytest.raises(StoreUnavailable, match="not open"):
            await ask
    await store.open()
    assert await state_of(store, jobs[-1].id) == State.READY


async def test_closing_leaves_no_threads_and_no_descriptors(path: Path) -> None:
    """However often a process opens and closes it."""
    threads, files = _ours()  # of other tests some may just be ending
    for _ in range(3):
        store = SqliteStore(path)
        await store.open()
        await added(store)
        await asyncio.gather(*(store.jobs.depth() for _ in range(5)))
        await store.wait("w1", 0)
        await store.close()
    await auntil(lambda: _ours()[0] <= threads and _ours()[1] <= files)
    assert sorted(each.name for each in path.parent.iterdir()) == ["store.db", "store.db-redrive"]


def _ours() -> tuple[set[int], int]:
    """Our threads, and how many files this process has open."""
    idents = {thread.ident or 0 for thread in threading.enumerate() if thread.name.startswith("redrive-")}
    return idents, len([each for each in Path("/dev/fd").iterdir() if each.is_symlink()])


async def test_no_error_of_the_driver_escapes(store: SqliteStore) -> None:
    """What SQLite raises comes back as one of ours, with the driver's as its cause."""

    async def broken(to: Store, read: bool) -> None:
        if read:
            await store.read(lambda snapshot: snapshot.db.execute("SELECT * FROM nowhere").fetchall())
        else:
            await store.write(lambda tx: tx.db.execute("INSERT INTO nowhere VALUES (1)").fetchall())

    for read in (True, False):
        with pytest.raises(Exception, match="nowhere") as raised:
            await broken(store, read)
        assert type(raised.value).__module__ == "redrive.errors"
        assert isinstance(raised.value.__cause__, apsw.Error)


async def test_payloads_and_texts_with_nul_are_kept_whole(store: SqliteStore) -> None:
    """SQLite ends no text at a NUL that was bound as one."""
    job = await added(store, payload=b'"a\x00b"', task="t\x00u", key="k\x00l", external_id="\x00")
    record = await record_of(store, job.id)
    assert record.job is not None
    assert (record.job.payload, record.job.task) == (b'"a\x00b"', "t\x00u")
    assert (record.job.key, record.job.external_id) == ("k\x00l", "\x00")

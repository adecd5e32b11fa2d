"""Several processes on one file: nothing is lost, nothing is doubled, and who holds up the others is named."""

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.errors import StoreUnavailable
from redrive.job import State
from redrive.store import Accepted
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_job, added, depth_of, state_of
from tests.stores.children import Child
from tests.stores.conftest import Open
from tests.waiting import auntil

pytestmark = pytest.mark.anyio
Start = Callable[..., Child]


async def test_processes_that_add_and_claim_at_once_lose_and_double_nothing(
    store: SqliteStore, path: Path, start: Start
) -> None:
    """Two add while two claim: every job is claimed by exactly one."""
    adding = [start("add", path, 150) for _ in range(2)]
    claiming = [start("claim", path, 300) for _ in range(2)]
    for child in (*adding, *claiming):
        child.says("ready")
    for child in (*adding, *claiming):
        child.tell()
    added_ids = [id for child in adding for id in child.says("added")]
    claimed_ids = [id for child in claiming for id in child.says("claimed")]
    assert len(set(claimed_ids)) == len(claimed_ids) == 300
    assert set(claimed_ids) == set(added_ids)
    assert [child.ended() for child in (*adding, *claiming)] == [0] * 4
    assert await store.read(lambda snapshot: snapshot.db.execute("PRAGMA integrity_check").get) == "ok"
    depth = await depth_of(store)
    assert (depth.ready, depth.leased) == (0, 300)


async def test_a_stopped_writer_is_named_and_what_was_given_up_does_not_happen(
    opened: Open, path: Path, start: Start
) -> None:
    """Those behind it wait for the busy timeout and no longer; when it goes on, they have not been served."""
    store = await opened(busy_timeout=0.5)
    holder = start("hold", path)
    holder.stopped()
    jobs = [a_job(), a_job()]
    begin = time.monotonic()
    answers = await asyncio.gather(*(store.jobs.add([job]) for job in jobs), return_exceptions=True)
    assert 0.4 < time.monotonic() - begin < 5
    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert f"process {holder.pid} holds it" in str(answer)
    assert [await store.jobs.get(job.id) for job in jobs] == [None, None]
    holder.send(signal.SIGCONT)
    holder.says("went on")
    later = await added(store)
    assert [await state_of(store, job.id) for job in (*jobs, later)] == [None, None, State.READY]


async def test_what_joins_the_line_late_is_not_given_up_early(opened: Open, path: Path, start: Start) -> None:
    """Each waits for its own time: the holder comes back after the first was given up and before the second is."""
    store = await opened(busy_timeout=1)
    holder = start("hold", path)
    holder.stopped()
    first = asyncio.ensure_future(store.jobs.add([a_job()]))
    await asyncio.sleep(0.6)  # sleep: the second joins the line later than the first
    job = a_job()
    second = asyncio.ensure_future(store.jobs.add([job]))
    with pytest.raises(StoreUnavailable):
        await first
    holder.send(signal.SIGCONT)
    assert await second == [Accepted(job.id)]


async def test_closing_does_not_wait_for_a_stopped_process(opened: Open, path: Path, start: Start) -> None:
    """A command that gave up has to end, although its writer still stands in line: it has waited long enough."""
    store = await opened(busy_timeout=4)
    start("hold", path).stopped()
    with pytest.raises(StoreUnavailable):
        await store.jobs.add([a_job()])
    begin = time.monotonic()
    await store.close()
    assert time.monotonic() - begin < 3


async def test_reads_go_on_beside_a_stopped_writer(opened: Open, path: Path, start: Start) -> None:
    """Its transaction is not committed, and nobody sees it."""
    store = await opened()
    job = await added(store)
    start("hold", path).stopped()
    assert await state_of(store, job.id) == State.READY
    assert (await depth_of(store)).ready == 1


async def test_the_dead_do_not_hold_the_line(opened: Open, path: Path, start: Start) -> None:
    """A writer that is killed in the middle of its transaction leaves neither changes nor locks."""
    store = await opened(busy_timeout=10)
    holder = start("hold", path)
    holder.stopped()
    waiting = asyncio.ensure_future(added(store))
    holder.send(signal.SIGKILL)
    await waiting
    assert holder.ended() == -signal.SIGKILL


async def test_writers_stand_in_line_at_the_lock(store: SqliteStore) -> None:
    """While somebody else has the write lock nothing is written; once it is free, all that waited is."""
    with (Path(store.home) / "write.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answers = [asyncio.ensure_future(store.jobs.add([a_job()])) for _ in range(5)]
        assert (await depth_of(store)).ready == 0
        assert not any(answer.done() for answer in answers)
    await asyncio.gather(*answers)
    assert (await depth_of(store)).ready == 5


async def test_the_lock_says_who_wrote_last(store: SqliteStore) -> None:
    """For the message of those who wait."""
    await added(store)
    assert int((Path(store.home) / "write.lock").read_text()) == os.getpid()


async def test_a_killed_process_leaves_every_job_it_acknowledged(opened: Open, path: Path, start: Start) -> None:
    """They stand in the log that nobody has copied into the file yet; the next to open it finds them."""
    child = start("crash", path, 25)
    ids = [child.says("added") for _ in range(25)]
    assert child.ended() == -signal.SIGKILL
    assert path.with_name("store.db-wal").stat().st_size > 0
    store = await opened()
    assert [await state_of(store, id) for id in ids] == [State.READY] * 25
    assert (await depth_of(store)).ready == 25


async def test_a_program_that_locks_the_file_itself_is_waited_for_and_told_of(opened: Open, path: Path) -> None:
    """Another SQLite has the write lock and does not know our line: it is unavailable, not lost."""
    store = await opened(busy_timeout=0.3)
    other = await opened()
    await other.write(lambda tx: None)
    holding = await asyncio.to_thread(other._connected, other._machine.lock)  # type: ignore[union-attr]
    holding.execute("BEGIN IMMEDIATE")
    job = a_job()
    with pytest.raises(StoreUnavailable, match="another program"):
        await store.jobs.add([job])
    holding.execute("ROLLBACK")
    holding.close()
    await auntil(lambda: _accepts(store))
    assert await store.jobs.get(job.id) is None


async def _accepts(store: SqliteStore) -> bool:
    try:
        return bool(await store.jobs.add([a_job()]))
    except StoreUnavailable:
        return False

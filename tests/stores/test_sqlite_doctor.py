"""The doctor: each check is good on a sound store, and has a case in which it is not."""

import asyncio
import shutil
from collections import namedtuple
from pathlib import Path

import apsw
import pytest

from redrive.clock import SECOND, ManualClock
from redrive.store import Check
from redrive.stores.sqlite import SqliteStore, checking
from redrive.testing.factories import LEASE, a_worker, added, leased
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
NAMES = {
    "engine", "file system", "permissions", "disk space", "write-ahead log", "locks", "schema", "leases", "clock",
    "integrity",
}  # fmt: skip


async def checked(store: SqliteStore, name: str) -> Check:
    """One finding; all others are good."""
    checks = {check.name: check for check in await store.check()}
    assert checks.keys() == NAMES
    assert [each.name for each in checks.values() if not each.ok] in ([], [name])
    return checks[name]


async def failing(store: SqliteStore, name: str) -> str:
    """What is found, with advice."""
    check = await checked(store, name)
    assert not check.ok
    assert check.advice
    return check.found


async def test_a_sound_store_passes_every_check(store: SqliteStore) -> None:
    """Each with what was found."""
    await leased(store)
    checks = await store.check()
    assert {check.name for check in checks} == NAMES
    assert [check for check in checks if not check.ok] == []
    assert all(check.found for check in checks)


async def test_an_old_engine(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that can damage a file."""
    monkeypatch.setattr(checking, "sqlite_version", lambda: (3, 51, 2))
    assert "3.51.2" in await failing(store, "engine")


async def test_a_network_file_system(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened by force, or moved since."""
    monkeypatch.setattr(checking, "file_system", lambda path: "nfs4")
    assert "nfs4" in await failing(store, "file system")


async def test_a_file_that_others_may_read(store: SqliteStore, path: Path) -> None:
    """Payloads may be private."""
    await asyncio.to_thread(path.chmod, 0o644)
    assert "0644" in await failing(store, "permissions")


async def test_a_disk_that_is_nearly_full(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it refuses jobs."""
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(3 * 1024**2))
    assert await failing(store, "disk space") == "3 MiB free"


async def test_a_log_that_has_grown(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader keeps an old moment."""
    await added(store)
    monkeypatch.setattr(checking, "LONG_LOG", 1024)
    assert "KiB" in await failing(store, "write-ahead log")


async def test_leases_that_nobody_takes_over(opened: Open) -> None:
    """No worker is there to do it."""
    clock = ManualClock()
    store = await opened(clock=clock)
    await leased(store)
    clock.advance(LEASE // SECOND + 1)
    assert (await failing(store, "leases")).startswith("1 ")


@pytest.mark.parametrize("by", ["beat", "entry"])
async def test_rows_from_the_future(opened: Open, by: str) -> None:
    """The clock was set back: scheduled jobs would wait."""
    clock = ManualClock()
    store = await opened(clock=clock)
    await (store.workers.beat(a_worker(), LEASE) if by == "beat" else store.journal.note("tick"))
    clock.set_wall(clock.now() - 600 * SECOND)
    assert "600s ahead" in await failing(store, "clock")


async def test_a_migration_that_is_missing(store: SqliteStore) -> None:
    """What opening would apply."""
    await store.jobs.depth()
    await store.write(lambda tx: tx.db.execute("DELETE FROM migration WHERE number = 2").fetchall())
    assert "1 pending" in await failing(store, "schema")


async def test_a_damaged_file(opened: Open, path: Path) -> None:
    """An index that does not have what its table has."""
    store = await opened()
    await asyncio.gather(*(added(store) for _ in range(5)))
    await store.close()
    _damage(path)
    assert "ok" not in await failing(await opened(), "integrity")


def _damage(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    db.execute("PRAGMA writable_schema = ON")
    db.execute("DELETE FROM sqlite_schema WHERE name = 'job_listed_dead'").fetchall()
    db.close()


async def test_locks_that_were_dropped(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real loss is shown in a process of its own; here the system says that there is no lock."""
    monkeypatch.setattr(checking, "_holds_lock", lambda path: False)
    assert (await failing(store, "locks")).startswith("dropped")

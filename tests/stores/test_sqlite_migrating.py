"""Migrations: one process at a time, each step whole or not at all, and nothing is touched that is not ours."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from redrive.errors import ForeignStore, NewerStore, RedriveError, StoreError, StoreUnavailable
from redrive.store import Settings
from redrive.stores.sqlite import SqliteStore, migrating
from redrive.stores.sqlite.migrating import Migration
from redrive.stores.sqlite.statements import migrations, statements
from redrive.testing.factories import added, depth_of, state_of
from tests.stores.children import Child
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
Start = Callable[..., Child]
STEPS = [Migration(*each) for each in migrations()]
NEXT = len(STEPS) + 1


def changed(path: Path, *texts: str) -> None:
    """Change a file that no store of this process has open."""
    db = apsw.Connection(str(path))
    for text in texts:
        db.execute(text).fetchall()
    db.close()


def written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def read(path: Path) -> bytes:
    return path.read_bytes()


def names_beside(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def asked(path: Path, text: str) -> Any:
    db = apsw.Connection(str(path))
    answer = db.execute(text).get
    db.close()
    return answer


@pytest.fixture
async def made(path: Path) -> Path:
    """A file of this version, closed."""
    store = SqliteStore(path)
    await store.open()
    await store.close()
    return path


async def test_a_fresh_file_is_made_with_everything(path: Path, opened: Open) -> None:
    """Version, log and mark; and then nothing is pending."""
    store = SqliteStore(path)
    assert store.pending() == [name for _, name, _ in migrations()]
    assert names_beside(path) == []
    await store.open()
    assert store.pending() == []
    await store.close()
    assert asked(path, "PRAGMA journal_mode") == "wal"
    assert asked(path, "PRAGMA application_id") == migrating.APPLICATION
    assert asked(path, "SELECT value FROM meta WHERE key = 'version'") == str(migrations()[-1][0])


async def test_an_empty_file_is_a_fresh_one(path: Path, opened: Open) -> None:
    """Somebody made it with touch."""
    written(path, b"")
    await added(await opened())


@pytest.mark.parametrize("side", [".before", ""], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, NEXT))
async def test_a_killed_migration_resumes(path: Path, start: Start, opened: Open, number: int, side: str) -> None:
    """Right before its commit nothing of it is there, right after it all; the next to open goes on."""
    child = start("look", path, REDRIVE_FAILPOINT=f"migrate.{number}{side}")
    assert child.ended() == -signal.SIGKILL
    done = number - 1 if side else number
    assert SqliteStore(path).pending() == [step.name for step in STEPS[done:]]
    store = await opened()
    job = await added(store)
    assert await state_of(store, job.id) is not None
    assert store.pending() == []


async def test_two_processes_that_migrate_at_once_do_it_once(path: Path, start: Start, opened: Open) -> None:
    """The second waits for the first, and finds nothing to do."""
    children = [start("look", path) for _ in range(3)]
    await asyncio.to_thread(lambda: [child.says("opened") for child in children])
    store = await opened()
    rows = await store.read(lambda snapshot: snapshot.all("applied"))
    assert [row[0] for row in rows] == [number for number, _, _ in migrations()]


async def test_who_waits_too_long_for_a_migration_says_for_whom(
    made: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is pending, and a stopped process has the lock."""
    holder = start("hold", made)
    holder.stopped()
    monkeypatch.setattr(
        migrating, "steps", lambda: [*STEPS, Migration(NEXT, f"{NEXT:04}_more", "CREATE TABLE more (a);")]
    )
    with pytest.raises(StoreUnavailable, match="cannot be migrated now") as raised:
        await SqliteStore(made, settings=Settings(busy_timeout=0.2)).open()
    assert f"process {holder.pid}" in str(raised.value)


async def test_a_further_step_is_applied_to_a_file_that_is_there(
    made: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs stay; the version rises, and what is compatible never falls."""
    await (await opened()).close()
    steps = [
        *STEPS,
        Migration(NEXT, "more", f"-- compatible_from: {NEXT}\nCREATE TABLE more (a);"),
        Migration(NEXT + 1, "rest", "-- compatible_from: 1\nCREATE TABLE rest (a);"),
    ]
    monkeypatch.setattr(migrating, "steps", lambda: steps)
    store = await opened()
    await added(store)
    values = await store.read(lambda s: [s.first("meta", name) for name in ("version", "compatible_from")])
    assert values == [(str(NEXT + 1),), (str(NEXT),)]


async def test_a_step_that_fails_leaves_the_file_as_it_was(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a half of it."""
    broken = Migration(NEXT, f"{NEXT:04}_broken", "CREATE TABLE half (a); CREATE TABLE half (a);")
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "steps", lambda: [*STEPS, broken])
        with pytest.raises(RedriveError, match="half"):
            await SqliteStore(made).open()
    assert asked(made, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == 0
    store = SqliteStore(made)
    await store.open()
    await store.close()


async def test_a_changed_migration_is_refused(made: Path) -> None:
    """A file of a development version is not guessed at."""
    changed(made, "UPDATE migration SET checksum = 'another'")
    for ask in (SqliteStore(made).pending, lambda: asyncio.run(SqliteStore(made).open())):
        with pytest.raises(StoreError, match="0001_first") as raised:
            await asyncio.to_thread(ask)
        assert "move the file away" in str(raised.value)


async def test_a_newer_file_is_opened_as_long_as_it_says_so(made: Path, opened: Open) -> None:
    """Workers of two versions run side by side."""
    changed(
        made,
        "INSERT INTO migration VALUES (99, '0099_later', 'x', 0)",
        "UPDATE meta SET value = '99' WHERE key = 'version'",
    )
    store = await opened()
    await added(store)
    assert (await depth_of(store)).ready == 1


async def test_a_file_that_is_too_new_is_refused(made: Path) -> None:
    """With both versions, and what to do."""
    changed(
        made,
        "INSERT INTO migration VALUES (99, '0099_later', 'x', 0)",
        "UPDATE meta SET value = '99' WHERE key = 'version'",
        "UPDATE meta SET value = '98' WHERE key = 'compatible_from'",
    )
    with pytest.raises(NewerStore, match="version 99") as raised:
        await SqliteStore(made).open()
    assert "upgrade" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("table", ["customers (name)", "job (id)"])
async def test_the_database_of_another_program_is_refused_and_left_alone(path: Path, table: str) -> None:
    """Whatever its tables are called; not a byte of it changes, and nothing is put beside it."""
    changed(path, f"CREATE TABLE {table}", "CREATE TABLE meta (a)", "CREATE TABLE migration (a)")
    before = read(path)
    with pytest.raises(ForeignStore, match="another program"):
        await SqliteStore(path).open()
    with pytest.raises(ForeignStore, match="another program"):
        SqliteStore(path).pending()
    assert read(path) == before
    assert names_beside(path) == [path.name]


def test_statements_have_names_of_their_own() -> None:
    """Every one that is asked for is there once, and begins with what it does."""
    assert len(statements()) > 60
    assert all(text.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"} for text in statements().values())

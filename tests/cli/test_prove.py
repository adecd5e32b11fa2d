"""`redrive prove`: what it adds up, what it names when something does not fit, and how it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from redrive.clock import ManualClock
from redrive.errors import NotFound, UsageError
from redrive.job import State
from redrive.store import Store
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.transaction import Transaction
from redrive.testing.factories import added, buried, done
from tests.cli.conftest import Cli, Shop

ID = "01950000-0000-7000-8000-0000000000a1"


async def some(store: Store) -> None:
    """One done, one dead, one that waits; and an act."""
    await done(store, queue="email")
    await buried(store, queue="email", id=ID)
    await added(store, queue="slow")
    await store.journal.note("deploy", actor="alice")


@pytest.fixture
def books(shop: Shop) -> Shop:
    """A shop where something has happened."""
    shop.do(some(shop.store))
    return shop


def test_it_shows_where_the_jobs_of_each_queue_are(books: Shop) -> None:
    """A line for each queue, and what it comes to."""
    answer = books.cli("prove")
    assert answer.code == 0
    assert [line.split() for line in answer.out.splitlines()] == [
        ["QUEUE", "CAME", "DONE", "DISCARDED", "PURGED", "MOVED", "ON", "LIVE", "DEAD", "OFF"],
        ["email", "2", "1", "0", "0", "0", "0", "1"],
        ["slow", "1", "0", "0", "0", "0", "1", "0"],
    ]
    assert answer.err == (
        "redrive: the ledger adds up: 3 jobs came, each is accounted for\n"
        "redrive: the trail has no seal yet: 1 act not sealed yet; a worker seals what people did every few seconds\n"
    )


def test_it_can_be_asked_for_some_queues(books: Shop) -> None:
    """One that never was is not found."""
    assert [row["queue"] for row in books.cli("prove", "slow", "--json").json[0]["queues"]] == ["slow"]
    answer = books.cli("prove", "slwo")
    assert (answer.code, answer.err) == (5, "redrive: queue slwo has no jobs and never had; there are email, slow\n")


def test_a_program_gets_all_of_it(books: Shop) -> None:
    """One object."""
    books.do(books.store.journal.seal(10))
    [proof] = books.cli("prove", "--json").json
    assert (proof["adds_up"], proof["flaws"], proof["since"]) == (True, [], None)
    email = proof["queues"][0]
    assert (email["came"], email["went"], email["here"], email["missing"], email["done"]) == (2, 1, 1, 0, 1)
    trail = proof["trail"]
    assert (trail["holds"], trail["sealed"], trail["unsealed"], trail["broken"]) == (True, 1, 0, None)
    assert trail["seal"].startswith("1:")


def test_a_seal_that_was_noted_is_looked_for(books: Shop) -> None:
    """It is still there, or it is not; what is no seal is said."""
    books.do(books.store.journal.seal(10))
    seal = books.cli("prove", "--json").json[0]["trail"]["seal"]
    answer = books.cli("prove", "--seal", seal)
    assert answer.code == 0
    assert f"the trail holds: 1 act under 1 seal, the last one {seal} of 2026-01-01" in answer.err
    answer = books.cli("prove", "--seal", "7:0123456789abcdef")
    assert answer.code == 1
    assert "does not hold: seal 7: was noted elsewhere and is not there: the trail was cut" in answer.err
    answer = books.cli("prove", "--seal", "seven")
    assert (answer.code, answer.err) == (
        2,
        "redrive: 'seven' is no seal; write it as `redrive prove` shows it, such as 12:3f2a9c04d1b7e855\n",
    )


def test_code_can_ask_too(books: Shop) -> None:
    """With the same answer."""
    proof = books.app.prove()
    assert proof.adds_up
    assert [(account.queue, account.came) for account in proof.accounts] == [("email", 2), ("slow", 1)]
    assert [account.queue for account in books.app.prove(["slow"]).accounts] == ["slow"]
    with pytest.raises(NotFound, match="queue slwo has no jobs"):
        books.app.prove(["slwo"])
    with pytest.raises(UsageError, match="is no seal"):
        books.app.prove(seal="1")


# what does not fit ----------------------------------------------------------------------------------------------------


@pytest.fixture
def spoilt(folder: Path) -> Callable[[str], None]:
    """Changes the folder's store behind its back."""

    def change(text: str) -> None:
        async def changed(store: SqliteStore) -> None:
            def write(tx: Transaction) -> None:
                tx.db.execute(text)

            await store.write(write)

        on_file(folder, changed)

    on_file(folder, some)
    return change


def on_file(folder: Path, work: Callable[[SqliteStore], Coroutine[Any, Any, None]]) -> None:
    """What the test itself does with the store of the folder."""

    async def each() -> None:
        store = SqliteStore(folder / "redrive.db", clock=ManualClock())
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(each())


def test_what_does_not_fit_is_named(spoilt: Callable[[str], None], cli: Cli) -> None:
    """The kind, what it means, and the ids; the exit code is 1."""
    spoilt("DELETE FROM letter")
    answer = cli("prove")
    assert answer.code == 1
    said = "dead without letter, 1 of them: dead jobs have no open letter: it was deleted or changed behind the store's"
    assert f"{said} back\n  {ID}\n" in answer.out
    assert answer.err.startswith("redrive: the ledger does not add up: the numbers do, but not the rows, ")
    [proof] = cli("prove", "--json").json
    assert proof["adds_up"] is False
    assert {flaw["kind"]: flaw["names"] for flaw in proof["flaws"]}["dead without letter"] == [ID]


def test_what_left_no_row_is_counted_only(spoilt: Callable[[str], None], cli: Cli) -> None:
    """And the sentence says so."""
    spoilt(f"DELETE FROM job WHERE state = '{State.READY}'")
    answer = cli("prove")
    assert answer.code == 1
    assert "1 missing" in answer.out
    assert (
        "queue slow: 1 came, 0 went, 0 are there; 1 job left no trace: rows were deleted behind the store's back; "
        "counted only, no row names them"
    ) in answer.out


def test_more_than_came_is_said(spoilt: Callable[[str], None], cli: Cli) -> None:
    """Counts were lost."""
    spoilt("DELETE FROM counter WHERE name = 'enqueued' AND queue = 'email'")
    answer = cli("prove")
    assert answer.code == 1
    assert "2 too many" in answer.out
    assert "2 more than came: counts were lost, or rows were put in behind the store's back" in answer.out


def test_many_are_not_all_printed(spoilt: Callable[[str], None], cli: Cli) -> None:
    """As many as are asked for, and how many more."""
    spoilt("UPDATE depth SET n = 7 WHERE (queue, state) IN (('email', 'dead'), ('slow', 'ready'))")
    answer = cli("prove", "--limit", "1")
    assert "depth, 2 of them:" in answer.out
    assert "  email dead\n  and 1 more\n" in answer.out

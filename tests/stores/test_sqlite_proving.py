"""What is wrong in a file is named: rows that somebody deleted, changed or put in behind the store's back."""

import asyncio
from pathlib import Path

import pytest

from redrive.clock import ManualClock
from redrive.ledger import FLAWS, Broken, Proof
from redrive.store import Done, Edit, JobQuery, Plan
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.migrating import Migration
from redrive.stores.sqlite.statements import migrations
from redrive.stores.sqlite.transaction import Transaction
from redrive.testing.factories import added, buried, claimed, discarded, done, settled
from tests.stores.conftest import Open
from tests.stores.test_sqlite_migrating import changed

pytestmark = pytest.mark.anyio
ID = "01950000-0000-7000-8000-0000000000a1"
HEX = ID.replace("-", "")


@pytest.fixture
async def store(opened: Open, clock: ManualClock) -> SqliteStore:
    """A store in which every kind of row is kept, and everything adds up."""
    store = await opened(clock=clock)
    await done(store, queue="other", id=ID[:-2] + "b1")
    await discarded(store, queue="other")
    purged = await buried(store, queue="other", id=ID[:-2] + "b2")
    await store.letters.purge([purged.id], "alice", "")
    await buried(store, id=ID)
    await store.letters.edit([Edit(ID, 1, b"{}")], "alice", "")
    for id in ("a2", "a3"):
        await buried(store, id=ID[:-2] + id)
    redrive = await store.redrives.open(Plan(filter="id in (a2, a3)", stages=()), "alice", "")
    await store.redrives.freeze(redrive.id, 10)
    await store.redrives.release(redrive.id, 1, 10, 10)
    await settled(store, Done(job=(await claimed(store))[0]))
    assert (await store.journal.prove()).adds_up
    return store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def planted(store: SqliteStore, *texts: str) -> Proof:
    """What adding up comes to after the file was changed."""

    def change(tx: Transaction) -> None:
        for text in texts:
            tx.db.execute(text)

    await store.write(change)
    return await store.journal.prove()


def names(proof: Proof) -> dict[str, tuple[str, ...]]:
    return {flaw.kind: flaw.names for flaw in proof.flaws}


CHANGED = "was changed itself, or one before it was"
DEAD = f"x'{HEX}'"
ALIVE = "(SELECT id FROM job WHERE state = 'ready')"
PURGED = "(SELECT id FROM tombstone)"


PLANTED = [
    ("dead without letter", f"DELETE FROM letter WHERE id = {DEAD}"),
    ("dead without letter", f"UPDATE letter SET state = 'closed' WHERE id = {DEAD}"),
    ("letter without dead", f"DELETE FROM job WHERE id = {DEAD}"),
    ("redriven without job", f"DELETE FROM job WHERE id = {ALIVE}"),
    ("alive without letter", f"DELETE FROM letter WHERE id = {ALIVE}"),
    ("in two states", f"INSERT INTO tombstone VALUES ({DEAD}, 0)"),
    ("in two states", f"UPDATE done SET id = {DEAD} WHERE queue = 'other'"),
    ("in two states", f"UPDATE done SET id = {PURGED} WHERE queue = 'other'"),
    ("letter of purged", f"INSERT INTO tombstone VALUES ({DEAD}, 0)"),
    ("letter without failure", f"DELETE FROM failure WHERE job = {DEAD}"),
    ("failure without job", f"UPDATE failure SET job = x'00{HEX[2:]}' WHERE job = {DEAD}"),
    ("payload without letter", f"UPDATE letter_payload SET letter = x'00{HEX[2:]}'"),
    ("item without job", f"DELETE FROM job WHERE id = {ALIVE}"),
    ("item without job", f"UPDATE job SET epoch = 7 WHERE id = {ALIVE}"),
    ("redrive total", "UPDATE redrive SET total = total + 1"),
    ("redrive total", "DELETE FROM redrive_item WHERE state = 'released'"),
    ("redrive tally", "UPDATE redrive_cause SET succeeded = succeeded + 1"),
    ("redrive tally", "DELETE FROM redrive_cause"),
    ("redrive tally", "DELETE FROM redrive_item"),
    ("depth", "UPDATE depth SET n = n + 1 WHERE state = 'dead' AND queue = 'default'"),
    ("depth", f"DELETE FROM job WHERE id = {ALIVE}"),
    ("group count", "UPDATE letter_group SET count = count + 1"),
    ("group count", "DELETE FROM letter_group"),
    ("letter totals", "UPDATE letter_total SET n = n + 1"),
    ("letter totals", "DELETE FROM letter_total"),
    ("letter totals", "UPDATE letter_total SET review = review + 1"),
]


@pytest.mark.parametrize(("kind", "change"), PLANTED)
async def test_what_does_not_fit_is_named(store: SqliteStore, kind: str, change: str) -> None:
    """Each kind by a row that was deleted, changed or put in; the store does not add up, and says which."""
    proof = await planted(store, change)
    assert not proof.adds_up
    assert names(proof)[kind]


def test_every_kind_is_planted_here() -> None:
    """The list above is whole."""
    assert {kind for kind, _ in PLANTED} == FLAWS.keys()


async def test_the_ids_are_those_that_are_wrong(store: SqliteStore) -> None:
    """As many as are asked for, and all of them counted."""
    assert names(await planted(store, f"DELETE FROM letter WHERE id = {DEAD}"))["dead without letter"] == (ID,)
    for n in range(5):
        await buried(store, id=f"{ID[:-2]}c{n}", priority=9)
    await planted(store, "UPDATE letter SET state = 'closed' WHERE state = 'open'")
    [flaw] = [flaw for flaw in (await store.journal.prove(2)).flaws if flaw.kind == "dead without letter"]
    assert (flaw.n, flaw.names) == (6, (ID, f"{ID[:-2]}c0"))


async def test_a_job_that_left_no_trace_is_counted_as_missing(store: SqliteStore) -> None:
    """It never failed, so no row knows its id; the account says how many."""
    await added(store, queue="third")
    proof = await planted(store, "DELETE FROM job WHERE queue = 'third'")
    assert [(account.queue, account.missing) for account in proof.off] == [("third", 1)]
    assert names(proof) == {"depth": ("third ready",)}


@pytest.mark.parametrize("change", ["DELETE FROM counter", "UPDATE counter SET n = n - 1"])
async def test_a_lost_count_is_too_many_rows(store: SqliteStore, change: str) -> None:
    """More is there than ever came."""
    proof = await planted(store, f"{change} WHERE name = 'enqueued' AND queue = 'default'")
    assert [(account.queue, account.missing < 0) for account in proof.off] == [("default", True)]


async def test_it_is_one_moment_beside_whoever_works(opened: Open) -> None:
    """While jobs come, run, die and are moved, every look at them adds up."""
    store, beside = await opened(), await opened()

    async def work() -> None:
        for _ in range(40):
            await buried(store, queue="a")
            await done(store, queue="a")
            await added(store, queue="b", priority=1)
            await store.jobs.move("b", "c", "alice", 1)
            await store.jobs.cancel([row.id for row in await store.jobs.find(JobQuery(queue="c", limit=1))], "alice")
            await store.journal.seal(3)

    working, looks = asyncio.create_task(work()), 0
    while not working.done():
        proof = await beside.journal.prove()
        assert (proof.off, proof.flaws, proof.trail.broken) == ([], [], None)
        looks += 1
    await working
    assert looks > 5


# the trail ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def sealed(store: SqliteStore) -> SqliteStore:
    """The acts are entries 2 to 7 or so; three are under a seal, three under the next, one under none."""
    while await store.journal.seal(3) == 3:
        pass
    await store.journal.note("act", actor="alice")
    assert (await store.journal.prove()).adds_up
    return store


async def acts(store: SqliteStore) -> list[int]:
    """The numbers of what is sealed."""
    return [entry.seq for entry in await store.journal.events() if entry.actor][:-1]


@pytest.mark.parametrize("column", ["at", "event", "reason", "actor", "text", "queue", "attempt"])
async def test_a_changed_act_is_named(sealed: SqliteStore, column: str) -> None:
    """Whatever was changed in it."""
    seq = (await acts(sealed))[1]
    value = "9" if column in ("at", "attempt") else "'x'"
    proof = await planted(sealed, f"UPDATE journal SET {column} = {value} WHERE seq = {seq}")
    assert proof.trail.broken == Broken(seal=1, why="was changed", entry=seq)
    assert not proof.adds_up


async def test_a_missing_act_is_named(sealed: SqliteStore) -> None:
    """Deleted, or made to look as if nobody had sealed it."""
    seq = (await acts(sealed))[2]
    proof = await planted(sealed, f"UPDATE journal SET seal = NULL WHERE seq = {seq}")
    assert proof.trail.broken == Broken(seal=1, why="is missing", entry=seq)
    proof = await planted(sealed, f"DELETE FROM journal WHERE seq = {seq}")
    assert proof.trail.broken == Broken(seal=1, why="is missing", entry=seq)


@pytest.mark.parametrize(
    ("seal", "broken"),
    [("1", (1, "was put in")), ("NULL", (2, "was put in")), ("99", (99, "bears a seal that is not there"))],
)
async def test_an_act_that_was_put_in_is_named(sealed: SqliteStore, seal: str, broken: tuple[int, str]) -> None:
    """Under a seal, beside it, or under one that never was; also after the next sealing."""
    text = f"INSERT INTO journal (seq, at, event, actor, seal) VALUES (0, 1, 'job.discarded', 'mallory', {seal})"
    proof = await planted(sealed, text)
    assert proof.trail.broken == Broken(seal=broken[0], why=broken[1], entry=0)
    await sealed.journal.seal(10)
    assert not (await sealed.journal.prove()).adds_up


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("DELETE FROM seal WHERE number = 1", 1),
        ("UPDATE seal SET hash = zeroblob(32) WHERE number = 1", 1),
        ("UPDATE seal SET at = 5 WHERE number = 2", 2),
    ],
)
async def test_a_changed_seal_is_named(sealed: SqliteStore, change: str, number: int) -> None:
    """A seal holds the one before it."""
    broken = (await planted(sealed, change)).trail.broken
    assert broken is not None
    assert (broken.seal, broken.why) == (number, "is missing" if "DELETE" in change else CHANGED)


async def test_a_trail_that_was_cut_is_seen_by_who_has_noted_its_end(sealed: SqliteStore) -> None:
    """A trail cut at its end looks like a short one: what was noted elsewhere shows the difference."""
    last = (await sealed.journal.prove()).trail.last
    assert last is not None
    number = last.number
    await planted(sealed, f"DELETE FROM journal WHERE seal = {number}", f"DELETE FROM seal WHERE number = {number}")
    broken = (await sealed.journal.prove(noted=(number, last.hash))).trail.broken
    assert broken is not None
    assert "cut" in broken.why


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE journal SET text = 'x' WHERE seal = 1",
        "INSERT INTO journal (seq, at, event, actor, seal) VALUES (0, 0, 'act', 'mallory', 1)",
        "UPDATE seal SET lines = zeroblob(length(lines)) WHERE number = 1",
    ],
)
async def test_what_is_left_of_forgotten_acts_must_fit(sealed: SqliteStore, change: str) -> None:
    """They may go, but not be others."""
    assert (await planted(sealed, "UPDATE seal SET forgotten_at = 1 WHERE number = 1")).adds_up
    assert (
        await planted(sealed, "DELETE FROM journal WHERE seq = (SELECT min(seq) FROM journal WHERE seal = 1)")
    ).adds_up
    assert not (await planted(sealed, change)).adds_up


async def test_a_seal_is_forgotten_no_sooner_than_its_entries(opened: Open, clock: ManualClock) -> None:
    """Share by share: what is still there is still looked at."""
    store = await opened(clock=clock, journal_retention=1)
    for _ in range(3):
        await store.journal.note("act", actor="alice")
        await store.journal.seal(1)
    clock.advance(1)
    forgotten = []
    while await store.jobs.prune(1):
        forgotten.append((await store.journal.prove()).trail.forgotten)
    assert forgotten == [1, 2, 3]


# a store of before ----------------------------------------------------------------------------------------------------


async def test_a_store_of_before_opens_its_books_with_what_is_there(
    path: Path, clock: ManualClock, opened: Open
) -> None:
    """Moves and purges were not counted then: what does not follow from the counts is carried over, and said."""
    first, *_ = [Migration(*each) for each in migrations()]
    job = f"x'{HEX}'"
    changed(
        path,
        "PRAGMA journal_mode = WAL",
        first.text,
        f"INSERT INTO migration VALUES (1, '{first.name}', '{first.checksum}', 0)",
        "INSERT INTO meta VALUES ('version', '1'), ('compatible_from', '1')",
        "INSERT INTO counter VALUES (0, 'default', 't', 5, '', 'enqueued', 3), (0, 'default', 't', 5, '', 'done', 1)",
        "INSERT INTO depth VALUES ('moved', 'ready', 1)",
        "INSERT INTO job (id, state, queue, priority, due_at, fence, starts, attempts, crashes, losses, suspect, epoch,"
        " epoch_at, payload_version, wire_version, encoding, created_at, task, needs, payload) VALUES"
        f" ({job}, 'ready', 'moved', 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 't', '', x'7b7d')",
    )
    clock.advance(60)
    store = await opened(clock=clock)
    proof = await store.journal.prove()
    assert {account.queue: account.carried for account in proof.accounts} == {"default": -2, "moved": 1}
    assert (proof.adds_up, proof.since) == (True, clock.now())
    await settled(store, Done(job=(await claimed(store))[0]))
    assert (await store.journal.prove()).adds_up


async def test_a_new_store_carries_nothing_over(store: SqliteStore) -> None:
    """Its books begin with its first job."""
    proof = await store.journal.prove()
    assert (proof.since, {account.carried for account in proof.accounts}) == (None, {0})

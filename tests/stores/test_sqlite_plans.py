"""How SQLite finds things: nothing that runs for every job walks through all of them."""

import re
from collections.abc import Iterator

import apsw
import pytest

from redrive.job import State
from redrive.store import Buried, Done, Gate, JobQuery
from redrive.stores.sqlite import SqliteStore, claiming, finding, reading
from redrive.stores.sqlite.statements import migrations, statements
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.testing.factories import a_failure, added, added_many, claimed, wanted
from redrive.triage import meant

GROWING = {
    *("job", "done", "failure", "letter", "traceback", "journal", "counter", "tombstone", "note"),
    *("letter_payload", "redrive_item"),
}
"""Tables that grow with the work; the others have a row per queue, gate, worker or cause."""

ALLOWED = {
    "resolve": "a person typed the end of an id, and there is no index on ends",
    "leases": "every lease there is, and those are as many as there are slots",
    "stuck_leases": "the same, for the doctor",
    "find_leased": "the same, for a page",
    "find_rare_ready": "it is asked where few jobs are ready",
    "count_letters": "what it walks through is what the condition of a filter leaves",
    "judge_all_letters": "a filter that only the predicate can judge means all letters until each was looked at",
    "count_by_group": "the same",
    "outline_letters": "the same",
    "letter_span": "the first and the last entry of an index",
    "latest_times": "the last entry, from the end",
    "latest_entries": "the last entries, from the end",
}
"""What scans one of them nevertheless, and why that is bounded."""

EVERYDAY = [name for name in statements() if not name.startswith("prove_")]
"""To add everything up is to walk through everything: a person asks for that, beside whoever works."""


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    """An empty store, without statistics, as every store begins."""
    connection = apsw.Connection(":memory:")
    for _, _, text in migrations():
        connection.execute(text).fetchall()
    yield connection
    connection.close()


def plan(db: apsw.Connection, text: str) -> list[str]:
    """What SQLite would do, line by line."""
    numbered = [int(number) for number in re.findall(r"\?(\d+)", text)]
    values = (None,) * (max(numbered) if numbered else text.count("?"))
    return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {text}", values)]


def names_of(text: str) -> dict[str, str]:
    """The tables of a statement by the names under which a plan speaks of them."""
    found = {table: table for table in GROWING}
    return found | {alias: table for table, alias in re.findall(r"\b(\w+) AS (\w+)\b", text) if table in GROWING}


def scans(db: apsw.Connection, text: str) -> list[str]:
    """The lines that walk through a growing table, or sort what they found in one."""
    names = names_of(text)
    scanned = (re.match(r"SCAN (\w+)", line) for line in plan(db, text))
    return [found[0] for found in scanned if found and found[1] in names]


@pytest.mark.parametrize("name", EVERYDAY)
def test_no_statement_walks_through_a_growing_table(db: apsw.Connection, name: str) -> None:
    """Except those that say why they may; and one that no longer does is taken off the list."""
    assert bool(scans(db, statements()[name])) == (name in ALLOWED)


@pytest.mark.parametrize("name", ["line", "line_of_lane", "key_holder", "find_dead", "entries", "find_letters"])
def test_what_is_asked_in_order_is_found_in_order(db: apsw.Connection, name: str) -> None:
    """A page costs what stands on it, not a sort of everything."""
    assert [line for line in plan(db, statements()[name]) if "TEMP B-TREE" in line] == []


def wanted_last(lines: list[str]) -> bool:
    """Whether a plan searches a table first and looks for each row of it among those that were asked for."""
    at = next((number for number, line in enumerate(lines) if line.startswith("SCAN wanted")), 0)
    return at > 0 and lines[at - 1].startswith("SEARCH")


@pytest.mark.parametrize("name", [name for name, text in statements().items() if " AS wanted" in text])
def test_what_is_asked_for_comes_first(db: apsw.Connection, name: str) -> None:
    """A few ids are looked up one by one, not looked for among all rows of a state."""
    assert not wanted_last(plan(db, statements()[name]))


def test_a_planted_search_is_found(db: apsw.Connection) -> None:
    """The control."""
    text = "SELECT 1 FROM job AS j CROSS JOIN carray(?1) AS wanted WHERE j.queue = ?2 AND j.state = 'ready'"
    assert wanted_last(plan(db, text))


@pytest.mark.parametrize(
    "planted",
    [
        "SELECT * FROM job WHERE last_error = ?",
        "SELECT * FROM done AS d WHERE result IS ?",
        "DELETE FROM letter WHERE host = ?",
    ],
)
def test_a_planted_scan_is_found(db: apsw.Connection, planted: str) -> None:
    """The control."""
    assert scans(db, planted)


class Steps:
    """Counts what SQLite does, in steps of its machine."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.n = 0
        self._db = snapshot.db
        self._db.set_progress_handler(self._count, 10)

    def _count(self) -> bool:
        self.n += 10
        return False

    def taken(self) -> int:
        self._db.set_progress_handler(None)
        return self.n


@pytest.mark.anyio
@pytest.mark.parametrize("behind", ["without", "task", "dependency"])
async def test_a_claim_does_not_walk_through_what_is_held_back(store: SqliteStore, behind: str) -> None:
    """Past ten times as many parked jobs it takes about as many steps."""
    if behind in ("task", "dependency"):
        key = "heavy" if behind == "task" else "payments"
        await store.jobs.gate(Gate(kind="task" if behind == "task" else "dependency", key=key, state="closed"), "a")
    want = wanted(5, without=("heavy",) if behind == "without" else ())
    steps = []
    for n in (200, 1_800):
        await added_many(store, n, task="heavy", needs=("payments",), priority=9)
        light = await added(store, task="light")

        def claim(tx: Transaction) -> tuple[list[str], int]:
            counted = Steps(tx)
            return [job.id for job in claiming.claim(tx, want)], counted.taken()

        ids, taken = await store.write(claim)
        assert ids[0] == light.id
        steps.append(taken)
    assert steps[1] < steps[0] * 2 + 500


@pytest.mark.anyio
async def test_a_page_of_a_rare_state_does_not_walk_through_the_common_ones(store: SqliteStore) -> None:
    """Among two thousand ready jobs and many done the one that is dead is found at once."""
    await added_many(store, 400)
    ends = [Done(job=job) for job in await claimed(store, 300)]
    await store.jobs.settle(ends)
    [dying] = await claimed(store, 1)
    await store.jobs.settle([Buried(job=dying, failure=a_failure())])
    await added_many(store, 2_000)

    def find(snapshot: Snapshot) -> tuple[list[str], int]:
        counted = Steps(snapshot)
        page = reading.find(snapshot, JobQuery(states=(State.DEAD, State.SCHEDULED, State.DISCARDED), limit=50))
        return [each.id for each in page], counted.taken()

    ids, taken = await store.read(find)
    assert ids == [dying.id]
    assert taken < 1_000


@pytest.mark.anyio
@pytest.mark.parametrize(("ready", "dead"), [(2_000, 3), (3, 2_000)])
async def test_a_page_of_ready_jobs_does_not_walk_through_the_others(store: SqliteStore, ready: int, dead: int) -> None:
    """Whether nearly all are ready or nearly none."""
    waiting = await added_many(store, ready, queue="late")
    await added_many(store, dead, queue="early")
    dying = await claimed(store, dead, queues={"early": dead})
    await store.jobs.settle([Buried(job=job, failure=a_failure()) for job in dying])

    def find(snapshot: Snapshot) -> tuple[list[str], int]:
        counted = Steps(snapshot)
        page = reading.find(snapshot, JobQuery(states=(State.READY,), limit=3))
        return [each.id for each in page], counted.taken()

    ids, taken = await store.read(find)
    assert ids == [job.id for job in waiting[:-4:-1]]
    assert taken < 1_000


def of_page(db: apsw.Connection, filter: str) -> list[str]:
    """What SQLite would do for a page of the letters that a filter means."""
    condition = finding.condition_of(meant(filter, 0)).sql.replace(finding.CONTAINS, "instr")
    return plan(db, statements()["find_letters"].replace("/* condition */ 1", condition))


@pytest.mark.parametrize(
    ("filter", "index"),
    [
        ("", "letter_open"),
        ("queue = email", "letter_open_of_queue"),
        ("task = send", "letter_open_of_task"),
        ("reason = timeout and host = h1", "letter_open_of_reason"),
        ("message ~ refused", "letter_open"),
    ],
)
def test_a_page_of_open_letters_is_read_from_an_index_of_them(db: apsw.Connection, filter: str, index: str) -> None:
    """In its order, so that a page costs what stands on it."""
    lines = of_page(db, filter)
    assert f"SEARCH l USING INDEX {index} " in lines[0]
    assert not [line for line in lines if "TEMP B-TREE" in line]


def test_other_states_do_not_look_there(db: apsw.Connection) -> None:
    """The control: an index of open letters cannot answer for the others."""
    assert "letter_open" not in of_page(db, "state = closed and queue = email")[0]


@pytest.mark.anyio
async def test_a_plan_does_not_look_at_values(store: SqliteStore) -> None:
    """Otherwise SQLite plans each statement with a LIMIT anew whenever it is given another one."""

    def looks(snapshot: Snapshot) -> bool:
        return snapshot.db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 0

    assert [await store.write(looks), await store.read(looks)] == [False, False]

"""A store that an earlier version has made: it is opened, everything is there, and what was under way goes on."""

from collections import Counter
from pathlib import Path

import apsw
import pytest

from redrive.clock import ManualClock
from redrive.ledger import Proof
from redrive.query.parsing import parse
from redrive.redrives import drive
from redrive.store import Done
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.statements import migrations
from redrive.testing.factories import claimed
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
MADE_BY = Path(__file__).parent / "made_by"
EARLIER = [name for _, name, _ in migrations()[:-1]]


def restored(path: Path, step: int) -> None:
    """The file as the version with so many steps of the schema left it."""
    db = apsw.Connection(str(path))
    for _, _, text in migrations()[:step]:
        db.execute(text).fetchall()
    db.execute((MADE_BY / f"{step:04}.sql").read_text(encoding="utf-8")).fetchall()
    db.close()


@pytest.fixture
async def earlier(path: Path, opened: Open) -> SqliteStore:
    """A store of the first schema, opened by this version."""
    restored(path, 1)
    return await opened(clock=ManualClock())


async def letters(store: SqliteStore, filter: str) -> int:
    return await store.letters.count(parse(filter, 0))


async def proof(store: SqliteStore) -> Proof:
    return await store.journal.prove()


def test_every_released_schema_is_tried() -> None:
    """A step that is added without a store of the step before would go untried."""
    assert sorted(path.stem for path in MADE_BY.glob("*.sql")) == [name[:4] for name in EARLIER]


async def test_everything_is_there(earlier: SqliteStore) -> None:
    """Jobs, letters of every state, groups with their notes, edited payloads, the redrive and its items."""
    assert earlier.pending() == []
    states = [await letters(earlier, f"state = {state}") for state in ("open", "redriven", "closed", "discarded")]
    assert states == [3, 1, 1, 1]
    [group] = [each for each in await earlier.letters.groups() if each.fingerprint == "beef"]
    assert (group.count, [note.text for note in (await earlier.letters.named("beef"))[0].notes]) == (
        2,
        ["ask the relay"],
    )
    page = await earlier.letters.find(parse("group = beef and state = open", 0))
    whole = await earlier.letters.whole([letter.id for letter in page.letters])
    assert sorted(len(letter.replaced) for letter in whole) == [0, 1]
    assert sorted(letter.epochs for letter in whole) == [1, 2]
    totals = await earlier.letters.totals()
    assert sum(kind.n for kind in totals.kinds) == 3


async def test_the_books_are_opened_with_what_is_there(earlier: SqliteStore) -> None:
    """And add up from then on."""
    found = await proof(earlier)
    assert (found.off, found.flaws) == ([], [])
    [job] = await claimed(earlier, 1, queues={"email": 1})
    await earlier.jobs.settle([Done(job=job)])
    found = await proof(earlier)
    assert (found.off, found.flaws) == ([], [])


async def test_a_redrive_that_was_under_way_goes_on(earlier: SqliteStore) -> None:
    """Each of its letters comes back once, and the redrive ends."""
    clock = ManualClock()
    [redrive] = await earlier.redrives.find(["running"])
    for _ in range(2):
        while await drive(earlier, clock, redrive.id) == 0:
            pass
        [job] = await claimed(earlier, 1, queues={"default": 1})
        assert job.epoch == 2
        await earlier.jobs.settle([Done(job=job)])
    while await drive(earlier, clock, redrive.id) is not None:
        pass
    items = await earlier.redrives.items(redrive.id)
    assert Counter(item.state for item in items) == {"succeeded": 2}
    assert (await proof(earlier)).flaws == []

"""What a redrive on SQLite does where only a file that was changed from elsewhere can lead."""

import pytest

from redrive.store import Plan
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import packed
from redrive.testing.factories import buried, live

pytestmark = pytest.mark.anyio
OTHER = "01950000-0000-7000-8000-0000000001b1"


async def test_a_letter_whose_key_was_taken_is_skipped(store: SqliteStore) -> None:
    """The job that took its idempotency key has done the work: it is named, and nothing is done twice."""
    job = await buried(store, key="order-7")

    def take_key(tx: Transaction) -> None:
        tx.run("add_done", packed(OTHER), "t", "default", tx.now, tx.now + 1_000_000, 1, 1, 0, "order-7", None)

    await store.write(take_key)
    redrive = await store.redrives.open(Plan(), "alice", "")
    await store.redrives.freeze(redrive.id, 10)
    chunk = await store.redrives.release(redrive.id, 1, 1, 1)
    assert (chunk.released, chunk.skipped) == (0, 1)
    [item] = await store.redrives.items(redrive.id, ["skipped"])
    assert item.why == "superseded by job 000001b1, which took its idempotency key"
    assert (await live(store, job.id)).epoch == 1

"""Values as they stand in the file, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import UsageError
from redrive.job import new_id
from redrive.store import Buried, Discarded
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.values import listed, names_in, packed, spelled, unpacked_or_none, writable
from redrive.testing.factories import a_failure, a_job, a_worker, entries_of, leased, open_in, record_of, settled
from tests.stores.conftest import Open

HALF = "half \ud800 of a pair"


@given(st.uuids())
def test_an_id_comes_back_as_people_write_it(id: object) -> None:
    """From any of its spellings."""
    text = str(id)
    for typed in (text, text.upper(), text.replace("-", "")):
        assert spelled(packed(typed)) == text


@pytest.mark.parametrize("id", ["", "1", "no-such-id", "0" * 31, "0" * 33, "g" * 32, "\ud800" * 32, "é" * 32])
def test_what_cannot_be_an_id_is_none(id: str) -> None:
    """It is found nowhere, and where one is needed that is said."""
    assert unpacked_or_none(id) is None
    with pytest.raises(UsageError, match="write a UUID"):
        packed(id)


def test_ids_keep_their_order() -> None:
    """A later job is a later row, so that pages and ties go by age."""
    ids = [new_id() for _ in range(1_000)]
    assert sorted(map(packed, ids)) == [packed(id) for id in ids]


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_written(text: str) -> None:
    """What is whole stays as it is; half a character is spelled out."""
    written = writable(text)
    written.encode()
    assert written == text or any("\ud800" <= letter <= "\udfff" for letter in text)


@given(st.lists(st.text()))
def test_names_come_back(names: list[str]) -> None:
    """Whatever is in them; and nothing is no name."""
    assert names_in(listed(names)) == tuple(names)
    assert names_in("") == ()


@pytest.mark.anyio
async def test_the_failure_path_cannot_fail_for_half_a_character(store: SqliteStore) -> None:
    """In no field of a failure, and in no reason: the settlement is written, with what was half spelled out."""
    failure = a_failure(
        **dict.fromkeys(
            ("reason", "type", "message", "traceback", "fingerprint", "title", "step", "host", "release", "worker",
             "cause"),
            HALF,
        )
    )  # fmt: skip
    job = await leased(store)
    await settled(store, Buried(job=job, failure=failure, why=HALF))
    letter = await store.letters.get(job.id)
    assert letter is not None
    assert letter.message == letter.failures[0].traceback == r"half \ud800 of a pair"
    assert await open_in(store, letter.group) == [job.id]
    other = await leased(store)
    await settled(store, Discarded(job=other, reason=HALF, why=HALF))
    assert (await record_of(store, other.id)).end_reason == r"half \ud800 of a pair"
    assert (await entries_of(store, other.id))[-1].text == r"half \ud800 of a pair"


@pytest.mark.anyio
@pytest.mark.parametrize("number", [0, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
async def test_inodes_of_any_size(store: SqliteStore, number: int) -> None:
    """Some file systems use all 64 bits, and SQLite has a sign."""
    await store.workers.beat(a_worker(lock_device=number, lock_inode=number), 10**9)
    [worker] = await store.workers.find()
    assert (worker.lock_device, worker.lock_inode) == (number, number)


@pytest.mark.anyio
async def test_a_job_is_found_however_its_id_was_spelled(opened: Open) -> None:
    """What a client of another language made in capitals is the same job."""
    store = await opened()
    job = a_job(id=new_id().upper())
    await store.jobs.add([job])
    assert await store.jobs.get(job.id) == await store.jobs.get(job.id.lower()) is not None

"""Rules of editing: another payload for a dead job, seen by whoever comes later, with the original kept."""

from redrive.clock import ManualClock
from redrive.disposal import GONE
from redrive.letter import Letter, Replaced
from redrive.query.parsing import parse
from redrive.store import Buried, Disposed, Done, Edit, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import a_failure, buried, claimed, entries_of, live, settled, totals

NO_ID = "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2"


class EditingRules(Rules):
    """What edit promises."""

    async def test_an_edit_gives_the_job_another_payload(self, store: Store) -> None:
        """It runs with that when it is brought back, under another idempotency key; everything else is as it was."""
        job = await buried(store, payload=b'{"to":"a@b"}', headers=b'{"x":"1"}')
        before = await live(store, job.id)
        assert await store.letters.edit([Edit(job.id, 1, b'{"to":"c@d"}')], "alice", "a typo") == Disposed([job.id])
        after = await live(store, job.id)
        assert (after.payload, after.payload_version, after.headers) == (b'{"to":"c@d"}', 2, b'{"x":"1"}')
        assert (after.state, after.attempts, after.epoch) == (before.state, before.attempts, before.epoch)
        assert await store.letters.count(parse('payload.to = "c@d"', 0)) == 1
        await store.letters.revive([job.id], "alice", "fixed")
        [running] = await claimed(store)
        assert (running.payload, running.idempotency_key) == (b'{"to":"c@d"}', f"{job.id}:v2")

    async def test_the_original_is_kept(self, store: Store, clock: ManualClock) -> None:
        """And every payload in between, with who replaced it when; also after the job has died again."""
        job = await buried(store, payload=b"1")
        first = Replaced(version=1, payload=b"1", at=clock.now(), actor="alice")
        await store.letters.edit([Edit(job.id, 1, b"2")], "alice", "")
        clock.advance(5)
        second = Replaced(version=2, payload=b"2", at=clock.now(), actor="bob")
        await store.letters.edit([Edit(job.id, 2, b"3")], "bob", "")
        letter = await _letter(store, job.id)
        assert (letter.payload, letter.payload_version, letter.version) == (b"3", 3, 3)
        assert letter.replaced == (first, second)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        letter = await _letter(store, job.id)
        assert (letter.payload_version, letter.replaced) == (3, (first, second))

    async def test_a_page_does_not_read_payloads(self, store: Store) -> None:
        """Neither the present one nor those before."""
        job = await buried(store)
        await store.letters.edit([Edit(job.id, 1, b"2")], "alice", "")
        [letter] = (await store.letters.find(parse("", 0))).letters
        assert (letter.payload, letter.payload_version, letter.replaced) == (None, 1, ())

    async def test_an_edit_tells_who_and_why(self, store: Store) -> None:
        """In the journal, at the job."""
        job = await buried(store)
        await store.letters.edit([Edit(job.id, 1, b"2")], "alice", "a typo")
        last = (await entries_of(store, job.id))[-1]
        assert (last.event, last.actor, last.text) == ("job.edited", "alice", "payload version 2: a typo")
        assert (await totals(store))["edited"] == 1

    async def test_a_second_edit_of_the_same_version_changes_nothing(self, store: Store) -> None:
        """Also in the same batch; whoever was first is not overwritten."""
        job = await buried(store, payload=b"1")
        why = {job.id: "it has changed since it was read (version 1, now 2)"}
        both = [Edit(job.id, 1, b"2"), Edit(job.id, 1, b"3")]
        assert await store.letters.edit(both, "alice", "") == Disposed([job.id], why)
        assert await store.letters.edit([Edit(job.id, 1, b"4")], "bob", "") == Disposed([], why)
        letter = await _letter(store, job.id)
        assert (letter.payload, letter.version, len(letter.replaced)) == (b"2", 2, 1)

    async def test_a_death_meanwhile_refuses_an_edit(self, store: Store) -> None:
        """What was read is not what is there any more."""
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        assert (await store.letters.edit([Edit(job.id, 1, b"2")], "alice", "")).ids == []

    async def test_only_open_letters_are_edited(self, store: Store) -> None:
        """The others are left as they are, each with the reason."""
        jobs = [await buried(store) for _ in range(3)]
        await store.letters.revive([jobs[0].id, jobs[1].id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        await store.letters.discard([jobs[2].id], "alice", "")
        versions = [(await _letter(store, job.id)).version for job in jobs]
        edits = [Edit(job.id, version, b"2") for job, version in zip(jobs, versions, strict=True)]
        assert (await store.letters.edit([*edits, Edit(NO_ID, 1, b"2")], "alice", "")).left == {
            jobs[0].id: "it is closed, not open",
            jobs[1].id: "it is redriven, not open",
            jobs[2].id: "it is discarded, not open",
            NO_ID: GONE,
        }
        assert (await live(store, jobs[1].id)).payload == jobs[1].payload

    async def test_a_purge_takes_the_originals_with_it(self, store: Store) -> None:
        """A letter that is gone has none; one that was restored still has."""
        job, other = await buried(store), await buried(store)
        await store.letters.edit([Edit(job.id, 1, b"2"), Edit(other.id, 1, b"2")], "alice", "")
        await store.letters.discard([other.id], "alice", "")
        await store.letters.restore([other.id], "alice", "")
        await store.letters.purge([job.id], "alice", "")
        assert await store.letters.get(job.id) is None
        assert len((await _letter(store, other.id)).replaced) == 1


async def _letter(store: Store, id: str) -> Letter:
    letter = await store.letters.get(id)
    assert letter is not None
    return letter

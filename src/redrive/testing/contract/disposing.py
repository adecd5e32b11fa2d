"""Rules of ending letters: discarded and restored as they were, or purged for good."""

import msgspec

from redrive.clock import SECOND, ManualClock
from redrive.disposal import GONE, KEY_TAKEN
from redrive.job import Job, State
from redrive.letter import GroupState, Letter, LetterState
from redrive.query.parsing import parse
from redrive.store import Accepted, Buried, Discarded, Disposed, Done, Existing, Outline, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import (
    a_failure,
    a_job,
    added,
    buried,
    claimed,
    depth_of,
    entries_of,
    live,
    open_in,
    record_of,
    settled,
    state_of,
    totals,
    wanted,
)

NO_ID = "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2"


class DisposingRules(Rules):
    """What discard, restore and purge promise."""

    # discard ----------------------------------------------------------------------------------------------------------

    async def test_a_discarded_letter_ends_with_its_job(self, store: Store, clock: ManualClock) -> None:
        """The job is discarded, the letter too, and group, totals and depths no longer count it."""
        job, other = await buried(store), await buried(store)
        clock.advance(60)
        assert await store.letters.discard([job.id], "alice", "a test order") == Disposed([job.id])
        record = await record_of(store, job.id)
        assert (await state_of(store, job.id), record.ended_at) == (State.DISCARDED, clock.now())
        assert ((await _letter(store, job.id)).state, record.end_reason) == (LetterState.DISCARDED, "discarded")
        assert [group.count for group in await store.letters.groups()] == [1]
        assert [kind.n for kind in (await store.letters.totals()).kinds] == [1]
        assert await open_in(store, "f00d") == [other.id]
        assert (await depth_of(store)).dead == 1
        assert (await totals(store))["discarded"] == 1

    async def test_a_discard_tells_who_and_why(self, store: Store) -> None:
        """In the journal, at the job."""
        job = await buried(store)
        await store.letters.discard([job.id], "alice", "a test order")
        last = (await entries_of(store, job.id))[-1]
        assert (last.event, last.actor, last.text) == ("job.discarded", "alice", "a test order")
        assert (last.task, last.queue, last.epoch, last.attempt) == (job.task, job.queue, 1, 1)

    async def test_what_a_rule_discards_is_its_own(self, store: Store, clock: ManualClock) -> None:
        """Also when a person restores it; a letter that has failed again meanwhile is left, and belongs to no rule."""
        old = await buried(store, failure=a_failure(at=clock.now()))
        new = await buried(store, failure=a_failure(at=clock.now() + SECOND))
        answer = await store.letters.discard([old.id, new.id], "rule:calm", "old", clock.now(), rule="calm")
        assert answer.ids == [old.id]
        await store.letters.restore([old.id], "alice", "")
        assert [(await _letter(store, job.id)).rule for job in (old, new)] == ["calm", None]

    async def test_only_open_letters_are_discarded(self, store: Store, clock: ManualClock) -> None:
        """The others are left as they are, each with the reason."""
        jobs = [await buried(store) for _ in range(4)]
        await store.letters.revive([jobs[0].id, jobs[1].id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        await store.letters.discard([jobs[2].id], "alice", "")
        assert await store.letters.discard([*(job.id for job in jobs), jobs[3].id, NO_ID], "alice", "") == Disposed(
            [jobs[3].id],
            {
                jobs[0].id: "it is closed, not open",
                jobs[1].id: "it is redriven, not open",
                jobs[2].id: "it is discarded, not open",
                NO_ID: GONE,
            },
        )
        assert await state_of(store, jobs[1].id) == State.READY

    async def test_a_discard_leaves_what_failed_after_its_cut_off(self, store: Store, clock: ManualClock) -> None:
        """A letter that died again since somebody looked is another one."""
        old = await buried(store, failure=a_failure(at=clock.now()))
        cut_off = clock.now()
        clock.advance(1)
        new = await buried(store, failure=a_failure(at=clock.now()))
        why = {new.id: "it has failed again since"}
        assert await store.letters.discard([old.id, new.id], "alice", "", cut_off) == Disposed([old.id], why)
        assert await store.letters.purge([old.id, new.id], "alice", "", cut_off) == Disposed([old.id], why)

    async def test_a_discard_frees_the_key(self, store: Store) -> None:
        """The next job may have it."""
        job = await buried(store, key="order-7")
        await store.letters.discard([job.id], "alice", "")
        await added(store, key="order-7")

    async def test_a_discarded_letter_is_forgotten_with_its_notes(self, store: Store, clock: ManualClock) -> None:
        """When the retention of closed letters is over."""
        job = await buried(store)
        await store.letters.note("seen", "alice", ids=[job.id])
        await store.letters.discard([job.id], "alice", "")
        clock.advance("30d")
        assert await store.jobs.prune(100) == 2
        assert await store.letters.get(job.id) is None
        assert await store.letters.restore([job.id], "alice", "") == Disposed([], {job.id: GONE})

    # restore ----------------------------------------------------------------------------------------------------------

    async def test_restore_undoes_a_discard_exactly(self, store: Store, clock: ManualClock) -> None:
        """Job, letter, group, totals and depths are what they were; only the letter's version has gone on."""
        jobs = [await buried(store, key=f"k{n}", priority=n, batch="b") for n in range(3)]
        await store.letters.assign("bob", "alice", ids=[jobs[0].id])
        before = await _everything(store, jobs)
        clock.advance(60)
        ids = [job.id for job in jobs]
        assert await store.letters.discard(ids, "alice", "wrong ones") == Disposed(ids)
        assert (await store.letters.totals()).kinds == []
        clock.advance(60)
        assert await store.letters.restore(ids[::-1], "alice", "sorry") == Disposed(ids[::-1])
        assert await _everything(store, jobs) == before
        last = (await entries_of(store, ids[0]))[-1]
        assert (last.event, last.actor, last.text) == ("job.restored", "alice", "sorry")
        assert (await totals(store))["restored"] == 3

    async def test_a_restored_letter_lives_on(self, store: Store, clock: ManualClock) -> None:
        """It holds its key, is kept for ever, and can be brought back or discarded again."""
        job = await buried(store, key="order-7")
        await store.letters.discard([job.id], "alice", "")
        await store.letters.restore([job.id], "alice", "")
        assert await store.jobs.add([a_job(key="order-7")]) == [Existing(job.id, State.DEAD)]
        clock.advance("400d")
        assert await store.jobs.prune(100) == 0
        assert await store.letters.discard([job.id], "alice", "") == Disposed([job.id])
        assert await store.letters.restore([job.id], "alice", "") == Disposed([job.id])
        assert await store.letters.revive([job.id], "alice", "fixed") == [job.id]

    async def test_a_restore_does_not_reopen_a_group(self, store: Store) -> None:
        """It is no new failure."""
        job = await buried(store)
        await store.letters.discard([job.id], "alice", "")
        await store.letters.set_groups(["f00d"], GroupState.CLOSED, "alice")
        await store.letters.restore([job.id], "alice", "")
        assert [(group.state, group.count) for group in await store.letters.groups()] == [(GroupState.CLOSED, 1)]

    async def test_a_key_that_was_taken_is_not_taken_back(self, store: Store) -> None:
        """Nor by two of the same batch; the letter stays discarded and says why."""
        first = await buried(store, key="order-7")
        await store.letters.discard([first.id], "alice", "")
        second = await buried(store, key="order-7")
        assert await store.letters.restore([first.id], "alice", "") == Disposed([], {first.id: KEY_TAKEN})
        await store.letters.discard([second.id], "alice", "")
        both = await store.letters.restore([first.id, second.id], "alice", "")
        assert both == Disposed([first.id], {second.id: KEY_TAKEN})
        assert [await state_of(store, job.id) for job in (first, second)] == [State.DEAD, State.DISCARDED]

    async def test_only_what_was_discarded_as_a_letter_is_restored(self, store: Store) -> None:
        """A job that was discarded in a later epoch has no death to go back to."""
        jobs = [await buried(store) for _ in range(3)]
        await store.letters.revive([jobs[0].id, jobs[1].id], "alice", "fixed")
        await settled(store, Discarded(job=(await claimed(store))[0], reason="discarded"))
        why = "its job was discarded after it had been brought back"
        assert (await store.letters.restore([job.id for job in jobs], "alice", "")).left == {
            jobs[0].id: why,
            jobs[1].id: "it is redriven, not discarded",
            jobs[2].id: "it is open, not discarded",
        }
        assert (await live(store, jobs[1].id)).state == State.READY

    # purge ------------------------------------------------------------------------------------------------------------

    async def test_a_purge_removes_everything(self, store: Store) -> None:
        """Letter, failures, notes and job; who did it stays in the journal."""
        job, other = await buried(store), await buried(store)
        await store.letters.note("seen", "alice", ids=[job.id])
        assert await store.letters.purge([job.id], "alice", "the customer asked") == Disposed([job.id])
        assert (await store.letters.get(job.id), await store.jobs.get(job.id)) == (None, None)
        assert await store.letters.count(parse("state in (open, discarded, closed)", 0)) == 1
        [group] = await store.letters.groups()
        assert (group.count, group.sample) == (1, other.id)
        assert [kind.n for kind in (await store.letters.totals()).kinds] == [1]
        assert (await depth_of(store)).dead == 1
        last = (await entries_of(store, job.id))[-1]
        assert (last.event, last.actor, last.text) == ("job.purged", "alice", "the customer asked")
        assert (await totals(store))["letters_purged"] == 1
        kept = await _letter(store, other.id)
        assert kept.failures[0].traceback is not None

    async def test_what_was_purged_is_not_raised_again(self, store: Store, clock: ManualClock) -> None:
        """A client that adds the same id once more is told so, also after years; nothing runs."""
        job = await buried(store, key="order-7")
        await store.letters.purge([job.id], "alice", "")
        clock.advance("400d")
        await store.jobs.prune(100)
        assert await store.jobs.add([job]) == [Existing(job.id, "purged")]
        assert await store.jobs.claim(wanted()) == []
        assert await store.letters.restore([job.id], "alice", "") == Disposed([], {job.id: GONE})
        other = a_job(key="order-7")
        assert await store.jobs.add([other]) == [Accepted(other.id)]

    async def test_discarded_and_closed_letters_are_purged_too(self, store: Store) -> None:
        """With the narrow row of a job that is done; only what has been brought back and lives is left."""
        jobs = [await buried(store) for _ in range(3)]
        await store.letters.discard([jobs[0].id], "alice", "")
        await store.letters.revive([jobs[1].id, jobs[2].id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        left = {jobs[2].id: "its job has been brought back and has not ended"}
        found = await store.letters.purge([job.id for job in jobs], "alice", "")
        assert found == Disposed([jobs[0].id, jobs[1].id], left)
        assert [await store.jobs.get(job.id) for job in jobs[:2]] == [None, None]
        assert await store.jobs.add(jobs[:2]) == [Existing(job.id, "purged") for job in jobs[:2]]
        assert [group.count for group in await store.letters.groups()] == [0]

    # many -------------------------------------------------------------------------------------------------------------

    async def test_an_outline_tells_what_a_filter_means(self, store: Store, clock: ManualClock) -> None:
        """Whether the engine can answer by itself or has to look into each."""
        begin = clock.now()
        for n in range(6):
            failure = a_failure(at=clock.now(), fingerprint=f"{n % 2}f", reason=("network", "timeout")[n % 2])
            await buried(store, failure=failure, payload=msgspec.json.encode({"n": n}))
            clock.advance(1)
        seconds = [begin + n * 1_000_000 for n in range(6)]
        for text, outline in {
            "": Outline(n=6, groups=2, oldest=begin, newest=seconds[5]),
            "reason = timeout": Outline(n=3, groups=1, oldest=seconds[1], newest=seconds[5]),
            "payload.n > 2 and payload.n < 5": Outline(n=2, groups=2, oldest=seconds[3], newest=seconds[4]),
            "queue = nowhere": Outline(n=0),
            "queue = nowhere and payload.n = 1": Outline(n=0),
        }.items():
            assert await store.letters.outline(parse(text, clock.now())) == outline, text

    async def test_a_thousand_letters_are_one_batch(self, store: Store) -> None:
        """Discarded, restored and purged, they leave the sums right."""
        jobs = [a_job(key=str(n)) for n in range(1_000)]
        await store.jobs.add(jobs)
        await store.jobs.settle(_burials(await claimed(store, 1_000)))
        ids = [job.id for job in jobs]
        for deal in (store.letters.discard, store.letters.restore, store.letters.purge):
            assert await deal(ids, "alice", "") == Disposed(ids)
        assert (await store.letters.totals()).kinds == []
        assert [group.count for group in await store.letters.groups()] == [0]
        assert await store.jobs.add(jobs[:2]) == [Existing(id, "purged") for id in ids[:2]]


def _burials(jobs: list[Job]) -> list[Buried]:
    return [Buried(job=job, failure=a_failure()) for job in jobs]


async def _everything(store: Store, jobs: list[Job]) -> object:
    """All that can be known of these letters, but for their versions."""
    letters = await store.letters.whole([job.id for job in jobs])
    return (
        [msgspec.structs.replace(letter, version=1) for letter in letters],
        [await record_of(store, job.id) for job in jobs],
        await store.letters.groups(),
        await store.letters.totals(),
        await depth_of(store),
    )


async def _letter(store: Store, id: str) -> Letter:
    letter = await store.letters.get(id)
    assert letter is not None
    return letter

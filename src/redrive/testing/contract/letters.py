"""Rules of dead letters: one per job, with every failure of every epoch, in the group of its cause."""

from redrive.clock import ManualClock
from redrive.job import Job, State
from redrive.letter import GroupState, LetterState
from redrive.query.tree import OPEN
from redrive.store import Buried, Discarded, Done, Existing, Retried, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import (
    a_failure,
    added,
    buried,
    claimed,
    depth_of,
    done,
    entries_of,
    leased,
    live,
    open_in,
    record_of,
    settled,
    state_of,
    totals,
    wanted,
)


class LetterRules(Rules):
    """What the letters facet promises."""

    async def test_a_burial_writes_the_letter(self, store: Store, clock: ManualClock) -> None:
        """It says what the job was and how it failed, from the first failure to the last."""
        job = await leased(store, queue="email", priority=8)
        first = a_failure(at=clock.now(), attempt=1, reason="timeout", fingerprint="cafe")
        await settled(store, Retried(job=job, at=0, failure=first))
        clock.advance(5)
        [job] = await claimed(store)
        last = a_failure(at=clock.now(), attempt=2, release="v2")
        await settled(store, Buried(job=job, failure=last))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert (letter.task, letter.queue, letter.priority, letter.state) == (job.task, "email", 8, LetterState.OPEN)
        assert (letter.reason, letter.type, letter.message) == (last.reason, last.type, last.message)
        assert (letter.group, letter.attempts, letter.epochs) == ("f00d", 2, 1)
        assert (letter.first_failed_at, letter.failed_at) == (first.at, last.at)
        assert (letter.host, letter.worker, letter.release) == (last.host, last.worker, "v2")
        assert letter.failures == (first, last)

    async def test_a_dead_job_keeps_its_row(self, store: Store, clock: ManualClock) -> None:
        """Payload and headers are there for the day it is brought back."""
        job = await buried(store, payload=b"[1]", headers=b'{"a":"b"}')
        record, kept = await record_of(store, job.id), await live(store, job.id)
        assert (kept.state, kept.payload, kept.headers) == (State.DEAD, b"[1]", b'{"a":"b"}')
        assert (record.ended_at, record.worker) == (clock.now(), None)

    async def test_a_job_without_a_death_has_no_letter(self, store: Store) -> None:
        """Neither success nor a retry writes one."""
        job = await leased(store)
        await settled(store, Retried(job=job, at=0, failure=a_failure()))
        await settled(store, Done(job=(await claimed(store))[0]))
        assert await store.letters.get(job.id) is None
        assert await store.letters.groups() == []

    async def test_equal_causes_share_a_group(self, store: Store, clock: ManualClock) -> None:
        """A group counts its letters and knows when it was seen first and last; the biggest comes first."""
        begin = clock.now()
        first = await buried(store, failure=a_failure(at=begin))
        clock.advance(60)
        await buried(store, failure=a_failure(at=clock.now(), fingerprint="beef", title="another"))
        await buried(store, failure=a_failure(at=clock.now()))
        big, small = await store.letters.groups()
        assert (big.fingerprint, big.count, big.first_seen, big.last_seen) == ("f00d", 2, begin, clock.now())
        assert (big.title, big.task, big.reason, big.state) == (
            "ConnectionError in email.send",
            first.task,
            "network",
            GroupState.OPEN,
        )
        assert (small.fingerprint, small.count, small.title) == ("beef", 1, "another")
        assert [group.fingerprint for group in await store.letters.groups(limit=1)] == ["f00d"]

    async def test_a_group_counts_its_open_letters(self, store: Store) -> None:
        """What is being redriven has left the count, and comes back to it with its next death."""
        job, _ = await buried(store), await buried(store)
        assert [group.count for group in await store.letters.groups()] == [2]
        await store.letters.revive([job.id], "alice", "fixed")
        assert [group.count for group in await store.letters.groups()] == [1]
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        assert [group.count for group in await store.letters.groups()] == [2]

    async def test_a_batch_of_burials_counts_each(self, store: Store) -> None:
        """A group row is written once per batch and loses none."""
        for _ in range(5):
            await added(store)
        jobs = await claimed(store, 5)
        assert await store.jobs.settle([Buried(job=job, failure=a_failure()) for job in jobs]) == frozenset()
        [group] = await store.letters.groups()
        assert group.count == 5
        assert await open_in(store, "f00d") == [job.id for job in jobs]

    async def test_adding_a_letter_again_does_not_raise_the_dead(self, store: Store) -> None:
        """A dead job stays dead until somebody revives it."""
        job = await buried(store)
        assert await store.jobs.add([job]) == [Existing(job.id, State.DEAD)]
        assert await store.jobs.claim(wanted()) == []
        assert (await depth_of(store)).dead == 1

    async def test_a_revived_job_begins_a_new_epoch(self, store: Store, clock: ManualClock) -> None:
        """Epoch plus one, counts from zero, due now; history and fence are kept."""
        job = await buried(store)
        clock.advance(60)
        assert await store.letters.revive([job.id], "alice", "deployed v2") == [job.id]
        now = await live(store, job.id)
        assert (now.state, now.epoch, now.due_at, now.epoch_at) == (State.READY, 2, clock.now(), clock.now())
        assert (now.attempts, now.starts, now.crashes, now.losses, now.suspect) == (0, 0, 0, 0, 0)
        assert now.fence >= job.fence
        record = await record_of(store, job.id)
        assert (len(record.failures), record.ended_at, record.end_reason) == (1, None, None)
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.state == LetterState.REDRIVEN

    async def test_a_revival_is_journalled_and_counted(self, store: Store) -> None:
        """Who did it and why."""
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "deployed v2")
        last = (await entries_of(store, job.id))[-1]
        assert (last.event, last.actor, last.epoch) == ("job.redriven", "alice", 2)
        assert "deployed v2" in (last.text, last.reason)
        assert (await totals(store))["redriven"] == 1

    async def test_only_the_dead_are_revived_and_once(self, store: Store) -> None:
        """Anything else is not answered and not changed; an epoch rises by exactly one."""
        dead = await buried(store)
        others = [(await done(store)).id, (await leased(store)).id, (await added(store)).id, "no-such-id"]
        assert await store.letters.revive([dead.id, dead.id, *others], "alice", "try") == [dead.id]
        assert await store.letters.revive([dead.id], "alice", "try") == []
        assert (await live(store, dead.id)).epoch == 2

    async def test_a_second_death_extends_the_letter(self, store: Store) -> None:
        """One letter per job: epochs rise, failures are added, the letter is open again."""
        job = await self._buried_twice(store)
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert (letter.epochs, len(letter.failures), letter.state) == (2, 2, LetterState.OPEN)
        assert letter.version > 1
        [group] = await store.letters.groups()
        assert (group.count, await open_in(store, "f00d")) == (1, [job.id])

    async def test_a_death_of_another_cause_moves_the_letter(self, store: Store) -> None:
        """A letter is in the group of its last failure."""
        job = await self._buried_twice(store, fingerprint="beef")
        assert await open_in(store, "f00d") == []
        assert await open_in(store, "beef") == [job.id]
        assert {group.fingerprint: group.count for group in await store.letters.groups() if group.count} == {"beef": 1}

    async def test_the_sample_of_a_group_is_one_of_its_letters(self, store: Store) -> None:
        """Also when the one it was has died of something else, or has ended; the last open one is as good."""
        first, second, third = [await buried(store) for _ in range(3)]
        await store.letters.revive([first.id], "alice", "fixed")
        [again] = await claimed(store)
        await settled(store, Buried(job=again, failure=a_failure(fingerprint="beef")))
        await store.letters.discard([third.id], "alice", "")
        letters = store.letters
        for groups in (await letters.groups(), await letters.groups(OPEN), await letters.named("")):
            assert {group.fingerprint: group.sample for group in groups} == {"f00d": second.id, "beef": first.id}

    async def test_a_success_after_revive_closes_the_letter(self, store: Store) -> None:
        """What was dead is done; the letter stays as history."""
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        letter, kept = await store.letters.get(job.id), (await record_of(store, job.id)).finished
        assert letter is not None
        assert kept is not None
        assert (letter.state, len(letter.failures), kept.epoch) == (LetterState.CLOSED, 1, 2)
        assert await open_in(store, "f00d") == []

    async def test_a_closed_letter_stays_for_a_while_with_its_history(self, store: Store, clock: ManualClock) -> None:
        """It outlives the finished row; in the end it is forgotten too."""
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        clock.advance("2d")
        assert await store.jobs.prune(100) == 1
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert (await store.jobs.get(job.id), letter.state, len(letter.failures)) == (None, LetterState.CLOSED, 1)
        clock.advance("28d")
        assert await store.jobs.prune(100) == 1
        assert await store.letters.get(job.id) is None

    async def test_an_open_letter_is_never_forgotten(self, store: Store, clock: ManualClock) -> None:
        """However old it is: somebody has to decide."""
        job = await buried(store)
        clock.advance("400d")
        assert await store.jobs.prune(100) == 0
        assert await store.letters.get(job.id) is not None

    async def test_a_discard_after_revive_discards_the_letter(self, store: Store) -> None:
        """By the handler, and by cancelling."""
        first, second = await buried(store), await buried(store)
        await store.letters.revive([first.id, second.id], "alice", "fixed")
        await store.jobs.cancel([second.id], "alice")
        await settled(store, Discarded(job=(await claimed(store))[0], reason="discarded"))
        for job in (first, second):
            letter = await store.letters.get(job.id)
            assert letter is not None
            assert letter.state == LetterState.DISCARDED
        assert await state_of(store, first.id) == State.DISCARDED

    async def test_a_retry_in_a_later_epoch_leaves_the_letter_redriven(self, store: Store) -> None:
        """Only an ending of the epoch changes it."""
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Retried(job=(await claimed(store))[0], at=0, failure=a_failure(epoch=2)))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.state == LetterState.REDRIVEN

    async def _buried_twice(self, store: Store, fingerprint: str = "f00d") -> Job:
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        [job] = await claimed(store)
        return await settled(store, Buried(job=job, failure=a_failure(epoch=2, fingerprint=fingerprint)))

"""Rules of redriven jobs: how they end is told to the redrive, in the transaction in which they end."""

import msgspec

from redrive.clock import SECOND, ManualClock
from redrive.job import State
from redrive.letter import LetterState
from redrive.query.tree import EVERYTHING
from redrive.store import Buried, Done, Move, Retried, Share, Store
from redrive.testing.contract.base import Rules
from redrive.testing.contract.redrives import dead, frozen, item, tally
from redrive.testing.factories import a_failure, claimed, settled, state_of


class RedrivenRules(Rules):
    """What settling promises to redrives."""

    async def test_a_job_that_finishes_has_succeeded(self, store: Store) -> None:
        """When it is done, not when it is released."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        assert ((await tally(store, redrive)).succeeded, (await tally(store, redrive)).running) == (0, 1)
        await settled(store, Done(job=(await claimed(store))[0]))
        done = await tally(store, redrive)
        assert (done.succeeded, done.passed, done.running) == (1, 1, 0)
        assert (await item(store, redrive, job.id)).state == "succeeded"
        assert await state_of(store, job.id) is State.DONE

    async def test_an_own_failure_counts_at_once(self, store: Store, clock: ManualClock) -> None:
        """The first attempt that fails as before is an answer; the job may still come to a good end."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        [back] = await claimed(store)
        await settled(store, Retried(job=back, at=clock.now() + SECOND, failure=a_failure(epoch=2)))
        seen = await tally(store, redrive)
        assert (seen.relapsed, seen.recurred, seen.running) == (1, 0, 1)
        clock.advance(1)
        await settled(store, Done(job=(await claimed(store))[0]))
        seen = await tally(store, redrive)
        assert (seen.relapsed, seen.passed, seen.succeeded, seen.running) == (1, 0, 1, 0)
        [stage] = await store.redrives.stages(redrive.id)
        assert (stage.relapsed, stage.passed) == (1, 0)
        assert (await item(store, redrive, job.id)).state == "succeeded"

    async def test_the_final_judge_waits_for_the_burial(self, store: Store) -> None:
        """A retry tells it nothing."""
        await dead(store, 1)
        redrive = await frozen(store, judge="final")
        await store.redrives.release(redrive.id, 1, 1, 1)
        await settled(store, Retried(job=(await claimed(store))[0], at=0, failure=a_failure(epoch=2)))
        assert (await tally(store, redrive)).relapsed == 0
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        seen = await tally(store, redrive)
        assert (seen.relapsed, seen.recurred) == (1, 1)

    async def test_a_new_cause_is_told_apart(self, store: Store) -> None:
        """It got past the old fault; the letter is in the group of the new one."""
        first, second = await dead(store, 2)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 2, 2)
        claims = {job.id: job for job in await claimed(store, 2)}
        await settled(store, Buried(job=claims[first.id], failure=a_failure(epoch=2, fingerprint="beef", title="new")))
        await settled(store, Buried(job=claims[second.id], failure=a_failure(epoch=2)))
        seen = await tally(store, redrive)
        assert (seen.otherwise, seen.strayed, seen.recurred, seen.relapsed) == (1, 1, 1, 1)
        patterns = await store.redrives.patterns(redrive.id)
        assert [(each.state, each.why, each.title, each.sample) for each in patterns] == [
            ("otherwise", "beef", "new", first.id),
            ("recurred", "f00d", "ConnectionError in email.send", second.id),
        ]

    async def test_new_rules_about_causes_change_no_verdict(self, store: Store) -> None:
        """An item keeps its cause: what fails as before has recurred, by whatever name the rules know it now."""
        first, second, third = await dead(store, 3)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 3, 3)
        await _moved(store, second.id)
        claims = {job.id: job for job in await claimed(store, 3)}
        renamed = a_failure(epoch=2, fingerprint="cafe", plain="f00d")
        moved = a_failure(epoch=2, fingerprint="cafe")
        await settled(store, Buried(job=claims[first.id], failure=renamed))
        await settled(store, Buried(job=claims[second.id], failure=moved))
        await settled(store, Buried(job=claims[third.id], failure=moved))
        seen = await tally(store, redrive)
        assert (seen.recurred, seen.relapsed, seen.otherwise, seen.strayed) == (2, 2, 1, 1)
        assert [(await item(store, redrive, job.id)).cause for job in (first, second, third)] == ["f00d"] * 3
        assert (await item(store, redrive, third.id)).state == "otherwise"

    async def test_a_letter_that_was_moved_is_released_with_its_cause(self, store: Store) -> None:
        """The redrive holds it in the group in which it was frozen."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        await _moved(store, job.id)
        assert (await store.redrives.release(redrive.id, 1, 1, 1)).released == 1
        await settled(store, Done(job=(await claimed(store))[0]))
        assert (await tally(store, redrive)).succeeded == 1

    async def test_a_job_that_dies_again_returns_to_its_letter(self, store: Store) -> None:
        """With its history; and may be redriven again."""
        [job] = await dead(store, 1)
        for epoch in (2, 3):
            redrive = await frozen(store)
            await store.redrives.release(redrive.id, 1, 1, 1)
            await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=epoch)))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert (letter.state, letter.epochs, len(letter.failures)) == (LetterState.OPEN, 3, 3)
        assert (await tally(store, redrive)).recurred == 1

    async def test_a_late_settlement_tells_nothing(self, store: Store) -> None:
        """Only who holds the lease is heard."""
        await dead(store, 1)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        [job] = await claimed(store)
        stale = msgspec.structs.replace(job, fence=job.fence - 1)
        assert await store.jobs.settle([Done(job=stale)]) == {job.id}
        assert (await tally(store, redrive)).running == 1

    async def test_an_operator_who_cancels_a_job_is_heard(self, store: Store) -> None:
        """The redrive does not wait for it for ever."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        assert await store.jobs.cancel([job.id], "bob") == [job.id]
        seen = await tally(store, redrive)
        assert (seen.discarded, seen.dropped, seen.running) == (1, 1, 0)
        assert (await item(store, redrive, job.id)).why == "cancelled"

    async def test_a_revived_job_is_none_of_the_redrive_it_was_in(self, store: Store) -> None:
        """Its next end belongs to nobody."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        await store.letters.revive([job.id], "bob", "")
        await settled(store, Done(job=(await claimed(store))[0]))
        seen = await tally(store, redrive)
        assert (seen.recurred, seen.succeeded) == (1, 0)


async def _moved(store: Store, id: str) -> None:
    """The letter is regrouped."""
    letter = await store.letters.get(id)
    assert letter is not None
    move = Move(id=id, failed_at=letter.failed_at, before=letter.group, group="cafe", title="quota", plain="f00d")
    operation = await store.operations.open("regroup", EVERYTHING, "alice", "")
    ended = await store.operations.step(operation.id, None, Share(mark=None, moves=(move,)))
    assert ended is not None
    assert ended.done == 1

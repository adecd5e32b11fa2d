"""Rules of what needs a person: marked, guarded against loops, skipped by redrives, counted; and of what rules tell."""

import pytest

from redrive.clock import SECOND, ManualClock
from redrive.job import Job, State
from redrive.letter import GroupState, Letter, LetterState
from redrive.query.parsing import parse
from redrive.store import Accepted, Buried, Done, Foreign, Plan, RedriveState, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.contract.redrives import dead, frozen, item, now, tally
from redrive.testing.factories import a_failure, a_job, buried, claimed, entries_of, live, settled

GROUP = "f00d"


class ReviewingRules(Rules):
    """What the verbs that hold letters for a person promise."""

    # marking and clearing ---------------------------------------------------------------------------------------------

    async def test_a_letter_is_marked_with_why_and_cleared_again(self, store: Store) -> None:
        """The story of the letter tells who did both, and filters find it."""
        job, other = await dead(store, 2)
        assert (await store.letters.review([job.id, job.id], "ask Anna", "alice")).ids == [job.id]
        assert (await _letter(store, job.id)).review == "ask Anna"
        assert await _found(store, "review ~ anna and review is not null") == [job.id]
        assert await _found(store, "review is null") == [other.id]
        assert await _found(store, 'review = "ask Anna" and payload.to is not null') == [job.id]
        assert (await store.letters.review([job.id], None, "bob")).ids == [job.id]
        assert (await _letter(store, job.id)).review is None
        told = [(each.event, each.actor, each.text) for each in (await entries_of(store, job.id))[-2:]]
        assert told == [("letter.review", "alice", "ask Anna"), ("letter.reviewed", "bob", None)]

    async def test_a_mark_has_a_version(self, store: Store) -> None:
        """Who edits has read what it says."""
        job = await buried(store)
        await store.letters.review([job.id], "ask Anna", "alice")
        assert (await _letter(store, job.id)).version == 2

    async def test_only_open_letters_are_marked(self, store: Store) -> None:
        """The others are named with why not; what needs no review is not cleared."""
        job, back = await dead(store, 2)
        await store.letters.revive([back.id], "alice", "")
        nobody = "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2"
        marked = await store.letters.review([back.id, nobody], "why", "alice")
        assert (marked.ids, marked.left) == (
            [],
            {back.id: "it is redriven, not open", nobody: "there is no such letter"},
        )
        cleared = await store.letters.review([job.id], None, "alice")
        assert (cleared.ids, cleared.left) == ([], {job.id: "it needs no review"})

    async def test_a_mark_outlives_a_retry_a_discard_and_an_edit(self, store: Store) -> None:
        """Only a person clears it."""
        [job] = await dead(store, 1)
        await store.letters.review([job.id], "ask Anna", "alice")
        await store.letters.discard([job.id], "alice", "")
        await store.letters.restore([job.id], "alice", "")
        await store.letters.revive([job.id], "alice", "")
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2, fingerprint="beef")))
        assert (await _letter(store, job.id)).review == "ask Anna"
        assert await _counted(store) == (1, 1)

    async def test_a_discard_remembers_its_rule_with_what_it_has_ended(self, store: Store) -> None:
        """In the same transaction, so that nobody is killed in between; what it has left is no business of the rule."""
        job, back = await dead(store, 2)
        await store.letters.revive([back.id], "alice", "")
        answer = await store.letters.discard([job.id, back.id], "rule:tidy", "", rule="tidy")
        assert answer.ids == [job.id]
        await store.letters.restore([job.id], "alice", "")
        assert [(await _letter(store, each.id)).rule for each in (job, back)] == ["tidy", None]
        await store.letters.discard([job.id], "alice", "")
        assert (await _letter(store, job.id)).rule == "tidy"

    async def test_a_letter_may_come_with_a_mark(self, store: Store) -> None:
        """Who imports it says so."""
        job = a_job(state=State.DEAD)
        foreign = Foreign(job=job, failures=(a_failure(),), first_failed_at=0, review="the import says so")
        assert await store.letters.take_in([foreign], "alice") == [Accepted(job.id)]
        assert (await _letter(store, job.id)).review == "the import says so"
        assert await _counted(store) == (1, 1)

    # counting ---------------------------------------------------------------------------------------------------------

    async def test_what_needs_a_person_is_counted_whatever_happens_to_it(self, store: Store) -> None:
        """Of all open letters, by kind; each way for a letter to come and go keeps the number."""
        jobs = await dead(store, 5)
        for job in jobs:
            await store.letters.review([job.id], "ask Anna", "alice")
        assert await _counted(store) == (5, 5)
        await store.letters.review([jobs[0].id], "ask Bob", "alice")
        await store.letters.review([jobs[1].id], None, "alice")
        assert await _counted(store) == (5, 4)
        await store.letters.discard([jobs[0].id, jobs[1].id], "alice", "")
        assert await _counted(store) == (3, 3)
        await store.letters.restore([jobs[0].id], "alice", "")
        await store.letters.purge([jobs[2].id], "alice", "")
        assert await _counted(store) == (3, 3)
        await store.letters.revive([jobs[3].id], "alice", "")
        assert await _counted(store) == (2, 2)
        await settled(store, Done(job=(await claimed(store))[0]))
        assert await _counted(store) == (2, 2)

    # the loop guard ---------------------------------------------------------------------------------------------------

    async def test_what_comes_back_with_the_same_cause_is_counted(self, store: Store) -> None:
        """In a row: another cause, and a person who has looked, begin anew."""
        [job] = await dead(store, 1)
        seen = []
        for cause in (GROUP, GROUP, "beef", "beef"):
            await _again(store, job, cause)
            seen.append((await _letter(store, job.id)).returns)
        assert seen == [1, 2, 0, 1]
        assert await _found(store, "returns >= 1") == [job.id]
        await store.letters.review([job.id], "why", "alice")
        assert (await _letter(store, job.id)).returns == 1
        await store.letters.review([job.id], None, "alice")
        assert (await _letter(store, job.id)).returns == 0

    async def test_a_letter_that_comes_back_too_often_needs_a_person(self, opener: Opener) -> None:
        """From the burial on with which it is too often; what a person wrote before stays."""
        store = await opener(max_epochs=2)
        job, marked = await dead(store, 2)
        await store.letters.review([marked.id], "ask Anna", "alice")
        for each in (job, marked):
            await _again(store, each)
            await _again(store, each)
        assert (await _letter(store, job.id)).review == "loop guard: it came back 2 times in a row with the same cause"
        assert (await _letter(store, marked.id)).review == "ask Anna"
        assert await _counted(store) == (2, 2)

    async def test_the_loop_guard_can_be_switched_off(self, opener: Opener) -> None:
        """Zero is never."""
        store = await opener(max_epochs=0)
        [job] = await dead(store, 1)
        for _ in range(7):
            await _again(store, job)
        assert ((await _letter(store, job.id)).review, (await _letter(store, job.id)).returns) == (None, 7)

    # redrives ---------------------------------------------------------------------------------------------------------

    async def test_a_redrive_leaves_alone_what_needs_a_person(self, store: Store) -> None:
        """Also what is marked after it was frozen; the others go."""
        early, late, other = await dead(store, 3)
        await store.letters.review([early.id], "ask Anna", "alice")
        redrive = await frozen(store)
        await store.letters.review([late.id], "ask Bob", "alice")
        chunk = await store.redrives.release(redrive.id, 1, 3, 100)
        assert (chunk.released, chunk.skipped) == (1, 2)
        assert (await item(store, redrive, early.id)).why == "needs review: ask Anna"
        assert (await item(store, redrive, late.id)).why == "needs review: ask Bob"
        assert [(await live(store, job.id)).epoch for job in (early, late, other)] == [1, 1, 2]
        assert (await _letter(store, early.id)).state is LetterState.OPEN

    async def test_a_redrive_leaves_alone_what_has_expired(self, store: Store, clock: ManualClock) -> None:
        """Brought back it would be ended at once, and its letter with it."""
        [job] = await dead(store, 1, expires=clock.now() + 60 * SECOND)
        clock.advance(61)
        redrive = await frozen(store)
        assert (await store.redrives.release(redrive.id, 1, 1, 1)).skipped == 1
        assert (await item(store, redrive, job.id)).why.startswith("not eligible: its job expired at 20")
        assert (await _letter(store, job.id)).state is LetterState.OPEN

    async def test_a_forced_redrive_brings_back_both(self, store: Store, clock: ManualClock) -> None:
        """What had expired runs; what needed a person still does when it dies again."""
        [job] = await dead(store, 1, expires=clock.now() + 60 * SECOND)
        await store.letters.review([job.id], "ask Anna", "alice")
        clock.advance(61)
        redrive = await frozen(store, force=True)
        assert (await store.redrives.release(redrive.id, 1, 1, 1)).released == 1
        [back] = await claimed(store)
        assert (back.id, back.expires, await _counted(store)) == (job.id, None, (0, 0))
        await settled(store, Buried(job=back, failure=a_failure(epoch=2)))
        assert (await _letter(store, job.id)).review == "ask Anna"

    @pytest.mark.parametrize("stopped", [True, False])
    async def test_a_cause_that_recurs_reopens_its_group(self, store: Store, stopped: bool) -> None:
        """When its redrive stops for it, or when the first of its letters dies again, whichever comes first."""
        await dead(store, 3)
        await store.letters.set_groups([GROUP], GroupState.CLOSED, "alice", release="2.4.1")
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 1, 1)
        if stopped:
            await store.redrives.stop(redrive.id, [GROUP], "redriver")
        else:
            await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        [group] = await store.letters.named(GROUP)
        assert (group.state, group.closed_in) == (GroupState.REOPENED, "2.4.1")
        [told] = [each.text for each in await store.journal.latest(50) if each.event == "group.reopened"]
        assert (told or "").startswith("group f00d, which was closed in release 2.4.1, ")
        assert (await tally(store, redrive)).released == 1

    # a redrive that waits ---------------------------------------------------------------------------------------------

    async def test_a_redrive_that_waits_for_a_release_releases_nothing(self, store: Store) -> None:
        """Until it has begun; who says so first is heard, once."""
        await dead(store, 2)
        redrive = await frozen(store, when_release=">= 2.4")
        assert redrive.state == "waiting"
        assert (await store.redrives.release(redrive.id, 1, 2, 2)).released == 0
        assert [each.id for each in await store.redrives.find(["waiting"])] == [redrive.id]
        assert await store.redrives.find(["running"]) == []
        begun = await store.redrives.change(redrive.id, redrive.version, "running", "redriver", "2.4.1 runs")
        assert begun is not None
        assert begun.state == "running"
        assert await store.redrives.change(redrive.id, redrive.version, "running", "redriver") is None
        assert [each.text for each in await store.journal.latest(9) if each.event == "redrive.begun"] == [
            f"redrive {redrive.id[-8:]}: 2.4.1 runs"
        ]
        assert (await store.redrives.release(redrive.id, 1, 2, 2)).released == 2

    async def test_a_pause_while_it_waits_ends_in_waiting(self, store: Store) -> None:
        """It does not begin by being resumed; once it has begun it does not wait again."""
        await dead(store, 1)
        redrive = await frozen(store, when_release="2.4")
        steps: tuple[tuple[RedriveState, RedriveState], ...] = (
            ("paused", "paused"),
            ("running", "waiting"),
            ("running", "running"),
            ("paused", "paused"),
        )
        for state, after in steps:
            changed = await store.redrives.change(redrive.id, (await now(store, redrive)).version, state, "bob")
            assert changed is not None
            assert changed.state == after
        resumed = await store.redrives.change(redrive.id, (await now(store, redrive)).version, "running", "bob")
        assert resumed is not None
        assert resumed.state == "running"

    async def test_a_waiting_redrive_holds_its_letters_and_can_be_cancelled(self, store: Store) -> None:
        """They are in no other one meanwhile."""
        [job] = await dead(store, 1)
        first = await frozen(store, when_release="2.4")
        second = await frozen(store)
        assert (await item(store, second, job.id)).why == f"already in redrive {first.id[-8:]}"
        over = await store.redrives.change(first.id, first.version, "cancelled", "bob")
        assert over is not None
        assert over.state == "cancelled"

    async def test_where_the_letters_of_a_redrive_will_run(self, store: Store) -> None:
        """Task and queue of each that is not released, or the queue that they are sent to."""
        await dead(store, 2, task="mail", queue="email")
        await dead(store, 1, task="pay")
        assert await store.redrives.places((await frozen(store)).id) == [("default", "pay"), ("email", "mail")]
        await store.redrives.change((await store.redrives.find())[0].id, 2, "cancelled", "bob")
        sent = await frozen(store, queue="slow")
        assert await store.redrives.places(sent.id) == [("slow", "mail"), ("slow", "pay")]

    # what rules need --------------------------------------------------------------------------------------------------

    async def test_only_one_redrive_of_an_actor_is_open_if_that_is_asked(self, store: Store) -> None:
        """Whoever comes second is given the one that is there."""
        await dead(store, 1)
        first = await store.redrives.open(Plan(), "rule:a", "", sole=True)
        again = await store.redrives.open(Plan(), "rule:a", "", sole=True)
        other = await store.redrives.open(Plan(), "rule:b", "", sole=True)
        assert again.id == first.id != other.id
        assert [each.id for each in await store.redrives.find(actor="rule:a")] == [first.id]
        await store.redrives.change(first.id, 1, "cancelled", "bob")
        assert (await store.redrives.open(Plan(), "rule:a", "", sole=True)).id != first.id
        assert len(await store.redrives.find(actor="rule:a")) == 2

    async def test_a_rule_tells_of_a_death_once(self, store: Store) -> None:
        """One line for each group; the next death of a letter is told again."""
        jobs = await dead(store, 2)
        new = (await dead(store, 1, "beef"))[0]
        ids = [job.id for job in (*jobs, new)]
        assert sorted(await store.letters.notify([*ids, ids[0]], "loud", "rule:loud")) == sorted(ids)
        assert await store.letters.notify(ids, "loud", "rule:loud") == []
        assert await store.letters.notify(ids, "other", "rule:other") == []
        told = [(each.actor, each.text) for each in await store.journal.latest(20) if each.event == "rule.notified"]
        assert told == [
            ("rule:loud", "rule loud: 1 letter of group beef: ConnectionError in email.send"),
            ("rule:loud", "rule loud: 2 letters of group f00d: ConnectionError in email.send"),
        ]
        assert await _found(store, "rule = loud") == sorted(ids)
        await _again(store, new)
        assert await _found(store, "rule is null") == [new.id]


async def _again(store: Store, job: Job, cause: str = GROUP) -> None:
    """It is brought back and dies."""
    assert await store.letters.revive([job.id], "alice", "") == [job.id]
    [back] = await claimed(store)
    await settled(store, Buried(job=back, failure=a_failure(epoch=back.epoch, fingerprint=cause)))


async def _letter(store: Store, id: str) -> Letter:
    letter = await store.letters.get(id)
    assert letter is not None
    return letter


async def _found(store: Store, filter: str) -> list[str]:
    return sorted(letter.id for letter in (await store.letters.find(parse(filter, 0))).letters)


async def _counted(store: Store) -> tuple[int, int]:
    """How many letters are open, and how many of those need a person."""
    kinds = (await store.letters.totals()).kinds
    return sum(kind.n for kind in kinds), sum(kind.review for kind in kinds)

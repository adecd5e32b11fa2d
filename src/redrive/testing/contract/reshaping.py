"""Rules of what a redrive changes on the way: limits, priority, order, and the payloads themselves."""

from typing import Any

import pytest

from redrive.backoff import Fixed
from redrive.clock import ManualClock
from redrive.job import Job
from redrive.limits import Limits, encode_limits, limits_of
from redrive.store import Buried, Done, Due, Edit, Given, Plan, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.contract.redrives import dead, frozen, item, now, states, tally
from redrive.testing.factories import (
    a_failure,
    added,
    buried,
    claimed,
    depth_of,
    entries_of,
    live,
    settled,
    totals,
)

SET: dict[str, Any] = {"settings": ["payload.n=2"]}
"""A plan that gives other payloads; what they are is computed by whoever drives it."""


def a_given(due: Due, payload: bytes | None = b'{"n":2}', why: str = "") -> Given:
    """What somebody computed for a letter."""
    return Given(id=due.id, version=due.version, payload=payload, why=why)


class ReshapingRules(Rules):
    """What a redrive promises about what it changes."""

    # how they are retried ---------------------------------------------------------------------------------------------

    async def test_limits_of_a_redrive_take_the_place_of_the_jobs_own(self, store: Store) -> None:
        """What is not said stays as the job has it."""
        [job] = await dead(store, 1, policy=encode_limits(Limits(max_attempts=7, timeout=5)))
        redrive = await frozen(store, limits=Limits(backoff=Fixed(3), jitter="none", timeout=9))
        await store.redrives.release(redrive.id, 1, 1, 1)
        limits = limits_of((await live(store, job.id)).policy)
        assert (limits.backoff, limits.jitter, limits.timeout, limits.max_attempts) == (Fixed(3), "none", 9, 7)

    async def test_they_hold_for_that_epoch(self, store: Store) -> None:
        """The next redrive begins with the job's own again, whatever was said to several before it."""
        own = encode_limits(Limits(max_attempts=7))
        [job] = await dead(store, 1, policy=own)
        plans: list[dict[str, Any]] = [{"limits": Limits(timeout=9)}, {"max_attempts": 2}, {}]
        for epoch, plan in enumerate(plans, 2):
            redrive = await frozen(store, **plan)
            await store.redrives.release(redrive.id, 1, 1, 1)
            limits = limits_of((await live(store, job.id)).policy)
            assert limits.timeout == (9 if epoch == 2 else None)
            assert limits.max_attempts == (2 if epoch == 3 else 7)
            await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=epoch)))
        assert limits == limits_of(own)

    async def test_jobs_get_another_priority(self, store: Store) -> None:
        """And are claimed by it."""
        await dead(store, 1, priority=2)
        redrive = await frozen(store, priority=8)
        await added(store, priority=5)
        await store.redrives.release(redrive.id, 1, 1, 1)
        [first, _] = await claimed(store, 2)
        assert (first.redrive, first.priority) == (redrive.id, 8)

    # in which order ---------------------------------------------------------------------------------------------------

    async def test_the_oldest_comes_first_when_asked(self, store: Store, clock: ManualClock) -> None:
        """Of all causes, however many chunks it takes; one that was stopped is passed by."""
        ids = []
        for n in range(8):
            clock.advance(1)
            failure = a_failure(at=clock.now(), fingerprint="beef" if n % 4 == 0 else "f00d")
            ids.append((await buried(store, failure=failure)).id)
        redrive = await frozen(store, order="oldest")
        for _ in range(3):
            await store.redrives.release(redrive.id, 1, 3, 1)
        assert {each.id for each in await store.redrives.items(redrive.id, ["released"])} == set(ids[:3])
        assert await store.redrives.stop(redrive.id, ["beef"], "alice") == ["beef"]
        assert (await store.redrives.release(redrive.id, 2, 2, 100)).released == 2
        released = {each.id for each in await store.redrives.items(redrive.id, ["released"])}
        assert released == {*ids[:4], ids[5]}

    @pytest.mark.parametrize("filter", ["payload.tier = gold", "priority = 5"])
    async def test_a_limit_takes_the_oldest_when_they_come_first(
        self, store: Store, clock: ManualClock, filter: str
    ) -> None:
        """However they are frozen, and whether or not the engine has to look into the payload."""
        ids = []
        for n in range(6):
            clock.advance(1)
            other: dict[str, Any] = {"payload": b"{}", "priority": 4} if n == 1 else {"payload": b'{"tier":"gold"}'}
            ids.append((await buried(store, failure=a_failure(at=clock.now()), **other)).id)
        redrive = await store.redrives.open(Plan(filter=filter, limit=3, order="oldest"), "alice", "")
        assert not await store.redrives.freeze(redrive.id, 2)
        assert await store.redrives.freeze(redrive.id, 2)
        assert {each.id for each in await store.redrives.items(redrive.id)} == {ids[0], ids[2], ids[3]}

    # with which payloads ----------------------------------------------------------------------------------------------

    async def test_nothing_is_due_that_could_not_be_released(self, store: Store) -> None:
        """Before it is frozen, of another stage, or while it is paused."""
        await dead(store, 6)
        opened = await store.redrives.open(Plan(), "alice", "")
        assert await store.redrives.due(opened.id, 1, 3, 100) == []
        await store.redrives.freeze(opened.id, 100)
        assert await store.redrives.due(opened.id, 2, 3, 100) == []
        assert len(await store.redrives.due(opened.id, 1, 3, 100)) == 3
        running = await now(store, opened)
        await store.redrives.change(running.id, running.version, "paused", "alice")
        assert await store.redrives.due(running.id, 1, 3, 100) == []

    async def test_what_is_due_is_what_would_be_released(self, store: Store) -> None:
        """With version, task and payload; whoever asks gets the same until somebody releases it."""
        jobs = await dead(store, 6, payload=b'{"n":1}')
        redrive = await frozen(store)
        due = await store.redrives.due(redrive.id, 1, 3, 100)
        assert await store.redrives.due(redrive.id, 1, 3, 100) == due
        assert [(each.version, each.task, each.payload) for each in due] == [(1, jobs[0].task, b'{"n":1}')] * 3
        await store.redrives.release(redrive.id, 1, 3, 100)
        released = {each.id for each in await store.redrives.items(redrive.id, ["released"])}
        assert released == {each.id for each in due}

    async def test_few_megabytes_are_handed_out_at_once(self, store: Store) -> None:
        """At least one payload, and the others later."""
        await dead(store, 8, payload=b'"' + b"x" * 1_000_000 + b'"')
        redrive = await frozen(store, **SET)
        rounds = []
        while due := await store.redrives.due(redrive.id, 1, 8, 100) or await store.redrives.due(redrive.id, 2, 8, 9):
            given = [a_given(each, b"1") for each in due]
            rounds.append((await store.redrives.release(redrive.id, 1, 8, 100, given)).released)
        assert sum(rounds) == 8
        assert max(rounds) < 8

    async def test_a_letter_is_released_with_the_payload_that_is_given(self, store: Store, clock: ManualClock) -> None:
        """At once with its new epoch; the original is kept and the journal says who edited it, as by an edit."""
        [job] = await dead(store, 1, payload=b'{"n":1}')
        redrive = await frozen(store, **SET)
        due = await store.redrives.due(redrive.id, 1, 1, 100)
        assert (await store.redrives.release(redrive.id, 1, 1, 100, [a_given(due[0])])).released == 1
        back = await live(store, job.id)
        assert (back.payload, back.payload_version, back.epoch) == (b'{"n":2}', 2, 2)
        assert back.idempotency_key == f"{job.id}:v2"
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert [(each.payload, each.actor, each.at) for each in letter.replaced] == [(b'{"n":1}', "alice", clock.now())]
        edited, redriven = (await entries_of(store, job.id))[-2:]
        assert (edited.event, edited.actor) == ("job.edited", "alice")
        assert edited.text == f"payload version 2: redrive {redrive.id[-8:]}"
        assert redriven.event == "job.redriven"
        assert (await totals(store))["edited"] == 1

    async def test_nothing_is_released_without_its_payload(self, store: Store) -> None:
        """It stays dead and pending until somebody has computed it; nor is it skipped."""
        await dead(store, 3, payload=b'{"n":1}')
        redrive = await frozen(store, **SET)
        due = await store.redrives.due(redrive.id, 1, 3, 100)
        chunk = await store.redrives.release(redrive.id, 1, 3, 100)
        assert (chunk.released, chunk.skipped, chunk.left) == (0, 0, 3)
        assert (await store.redrives.release(redrive.id, 1, 3, 100, [a_given(due[1])])).released == 1
        assert await states(store, redrive) == {"released": 1, "pending": 2}
        assert (await depth_of(store)).dead == 2

    async def test_a_payload_for_what_has_changed_meanwhile_is_not_used(self, store: Store) -> None:
        """Somebody's edit is not lost: the letter waits until its payload is computed from that."""
        [job] = await dead(store, 1, payload=b'{"n":1}')
        redrive = await frozen(store, **SET)
        [before] = await store.redrives.due(redrive.id, 1, 1, 100)
        await store.letters.edit([Edit(job.id, before.version, b'{"n":1,"to":"c@d"}')], "bob", "")
        chunk = await store.redrives.release(redrive.id, 1, 1, 100, [a_given(before)])
        assert (chunk.released, chunk.skipped, chunk.left) == (0, 0, 1)
        [after] = await store.redrives.due(redrive.id, 1, 1, 100)
        assert (after.version, after.payload) == (before.version + 1, b'{"n":1,"to":"c@d"}')
        given = a_given(after, b'{"n":2,"to":"c@d"}')
        assert (await store.redrives.release(redrive.id, 1, 1, 100, [given])).released == 1
        assert (await live(store, job.id)).payload_version == 3

    async def test_a_letter_may_keep_its_payload(self, store: Store) -> None:
        """When the change makes no difference to it."""
        [job] = await dead(store, 1, payload=b'{"n":2}')
        redrive = await frozen(store, **SET)
        [due] = await store.redrives.due(redrive.id, 1, 1, 100)
        assert (await store.redrives.release(redrive.id, 1, 1, 100, [a_given(due, None)])).released == 1
        assert (await live(store, job.id)).payload_version == 1

    async def test_a_letter_that_cannot_be_changed_is_skipped_with_its_sentence(self, store: Store) -> None:
        """The others go on."""
        await dead(store, 2, payload=b'{"n":1}')
        redrive = await frozen(store, **SET)
        one, other = await store.redrives.due(redrive.id, 1, 2, 100)
        given = [a_given(one, None, "there is no place for it"), a_given(other)]
        chunk = await store.redrives.release(redrive.id, 1, 2, 100, given)
        assert (chunk.released, chunk.skipped) == (1, 1)
        skipped = await item(store, redrive, one.id)
        assert (skipped.state, skipped.why) == ("skipped", "there is no place for it")
        assert (await tally(store, redrive)).skipped == 1

    async def test_several_may_compute_at_once(self, store: Store, opener: Opener) -> None:
        """Each letter is released once, by whoever comes first."""
        await dead(store, 4, payload=b'{"n":1}')
        redrive, other = await frozen(store, **SET), await opener()
        given = [a_given(each) for each in await store.redrives.due(redrive.id, 1, 2, 100)]
        assert [a_given(each) for each in await other.redrives.due(redrive.id, 1, 2, 100)] == given
        assert (await other.redrives.release(redrive.id, 1, 2, 100, given)).released == 2
        assert (await store.redrives.release(redrive.id, 1, 2, 100, given)).released == 0
        assert (await store.redrives.release(redrive.id, 2, 2, 100, given)).released == 0
        assert await states(store, redrive) == {"released": 2, "pending": 2}
        assert (await totals(store))["edited"] == 2

    # what would be ----------------------------------------------------------------------------------------------------

    async def test_what_would_be_skipped_is_known_before(self, store: Store) -> None:
        """Held by another redrive, or brought back by somebody; what the others have is told if asked."""
        [held] = await dead(store, 1, "beef")
        first = await frozen(store)
        [free] = await dead(store, 1, payload=b'{"n":2}')
        found = await store.redrives.weigh([held.id, free.id], Plan(settings=("payload.n=1",)))
        assert found.skipped == {held.id: f"already in redrive {first.id[-8:]}"}
        assert [(each.id, each.payload) for each in found.due] == [(free.id, b'{"n":2}')]
        assert (await store.redrives.weigh([held.id, free.id], Plan())).due == []
        await store.letters.review([free.id], "ask the customer", "alice")
        assert (await store.redrives.weigh([free.id], Plan())).skipped == {free.id: "needs review: ask the customer"}
        assert (await store.redrives.weigh([free.id], Plan(force=True))).skipped == {}
        await settled(store, Done(job=await _revived(store, free.id)))
        assert (await store.redrives.weigh([free.id], Plan())).skipped == {free.id: "brought back meanwhile"}


async def _revived(store: Store, id: str) -> Job:
    await store.letters.revive([id], "bob", "")
    return (await claimed(store))[0]

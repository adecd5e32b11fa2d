"""Rules of redrives: frozen letters, released in stages, each brought back once, and told how it ended."""

from collections import Counter

import msgspec
import pytest

from redrive.clock import ManualClock
from redrive.errors import UsageError
from redrive.job import Job, State
from redrive.leftovers import SINCE
from redrive.letter import LetterState
from redrive.limits import Limits, encode_limits, limits_of
from redrive.query.tree import EVERYTHING
from redrive.store import Buried, Discarded, Done, Item, Plan, Redrive, Share, Store, Tally
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    a_failure,
    added_many,
    buried,
    claimed,
    depth_of,
    entries_of,
    live,
    settled,
    totals,
)


async def dead(store: Store, n: int, cause: str = "f00d", **changes: object) -> list[Job]:
    """So many letters of one cause."""
    await added_many(store, n, **changes)
    jobs = await claimed(store, n)
    assert await store.jobs.settle([Buried(job=job, failure=a_failure(fingerprint=cause)) for job in jobs]) == set()
    return jobs


async def frozen(store: Store, filter: str = "", **plan: object) -> Redrive:
    """A redrive that may release."""
    redrive = await store.redrives.open(msgspec.convert({"filter": filter, **plan}, Plan), "alice", "fixed")
    while not await store.redrives.freeze(redrive.id, 100):
        pass
    return await now(store, redrive)


async def now(store: Store, redrive: Redrive) -> Redrive:
    """The redrive as the store has it."""
    found = await store.redrives.get(redrive.id)
    assert found is not None
    return found


async def tally(store: Store, redrive: Redrive, cause: str = "f00d") -> Tally:
    """How a cause does."""
    return next(each for each in await store.redrives.tally(redrive.id) if each.cause == cause)


async def states(store: Store, redrive: Redrive) -> Counter[str]:
    """How many items are in each state."""
    return Counter(item.state for item in await store.redrives.items(redrive.id, limit=10_000))


async def item(store: Store, redrive: Redrive, id: str) -> Item:
    """One letter in a redrive."""
    return next(each for each in await store.redrives.items(redrive.id, limit=10_000) if each.id == id)


class RedriveRules(Rules):
    """What the redrives facet promises."""

    # opening and freezing ---------------------------------------------------------------------------------------------

    async def test_a_redrive_remembers_what_was_asked(self, store: Store, clock: ManualClock) -> None:
        """Who, why, when and how; it begins by freezing."""
        plan = Plan(filter="reason = network", rate=5.0, stages=(1, 2), stop_at="never", judge="final", queue="slow")
        opened = await store.redrives.open(plan, "alice", "deployed v2")
        assert opened == await now(store, opened)
        assert (opened.plan, opened.actor, opened.reason) == (plan, "alice", "deployed v2")
        assert (opened.state, opened.opened_at, opened.total) == ("freezing", clock.now(), 0)
        assert await store.redrives.get("0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2") is None
        assert [entry.event for entry in await store.journal.events()] == ["redrive.opened"]

    async def test_a_filter_that_cannot_be_understood_opens_nothing(self, store: Store) -> None:
        """It is refused before anything is written."""
        with pytest.raises(UsageError, match="reasn"):
            await store.redrives.open(Plan(filter="reasn = network"), "alice", "")
        assert await store.redrives.find() == []

    async def test_it_freezes_in_chunks(self, store: Store) -> None:
        """Each takes in a share; the last one says so."""
        jobs = await dead(store, 5)
        redrive = await store.redrives.open(Plan(), "alice", "")
        assert [await store.redrives.freeze(redrive.id, 2) for _ in range(3)] == [False, False, True]
        assert await store.redrives.freeze(redrive.id, 2)
        redrive = await now(store, redrive)
        assert (redrive.state, redrive.total) == ("running", 5)
        items = await store.redrives.items(redrive.id)
        assert [each.id for each in items] == sorted(job.id for job in jobs)
        assert {(each.state, each.cause) for each in items} == {("pending", "f00d")}

    async def test_only_letters_of_the_filter_are_in_it(self, store: Store) -> None:
        """Also where the engine has to look into the payload, and only open ones."""
        await dead(store, 3, payload=b'{"tier":"gold"}')
        await dead(store, 4, payload=b'{"tier":"plain"}')
        [other] = await dead(store, 1, payload=b'{"tier":"gold"}')
        await store.letters.revive([other.id], "bob", "")
        assert (await frozen(store, "payload.tier = gold")).total == 3

    async def test_a_limit_takes_those_that_failed_last(self, store: Store, clock: ManualClock) -> None:
        """So many and no more, however they are frozen."""
        ids = []
        for _ in range(4):
            clock.advance(1)
            ids.append((await buried(store, failure=a_failure(at=clock.now()))).id)
        redrive = await frozen(store, limit=3)
        assert {each.id for each in await store.redrives.items(redrive.id)} == set(ids[1:])

    async def test_letters_that_die_after_the_opening_are_not_in_it(self, store: Store) -> None:
        """Also when it has not frozen yet, and when they had died before and die again."""
        first, again, _ = await dead(store, 3)
        await store.letters.revive([again.id], "bob", "")
        redrive = await store.redrives.open(Plan(), "alice", "")
        [job] = await claimed(store)
        await settled(store, Buried(job=job, failure=a_failure(epoch=2)))
        late = await buried(store)
        await store.redrives.freeze(redrive.id, 100)
        items = {each.id for each in await store.redrives.items(redrive.id)}
        assert len(items) == 2
        assert first.id in items
        assert {again.id, late.id}.isdisjoint(items)

    async def test_nothing_comes_in_by_the_place_of_a_purged_letter(self, store: Store) -> None:
        """Nothing that comes later takes the place of what is gone, also within one tick of the clock."""
        [first] = await dead(store, 1)
        redrive = await store.redrives.open(Plan(), "alice", "")
        await store.letters.purge([first.id], "alice", "")
        [later] = await dead(store, 1)
        while not await store.redrives.freeze(redrive.id, 100):
            pass
        assert await store.redrives.items(redrive.id) == []
        operation = await store.operations.open("discard", EVERYTHING, "alice", "")
        await store.letters.purge([later.id], "alice", "")
        [last] = await dead(store, 1)
        after = await store.operations.step(operation.id, None, Share(mark=None, ids=(last.id,)))
        assert after is not None
        assert (after.done, after.left) == (0, {SINCE: 1})

    async def test_one_open_redrive_holds_a_letter(self, store: Store) -> None:
        """Another one skips it and says where it is; once that one is over it may have it."""
        [job] = await dead(store, 1)
        first = await frozen(store)
        second = await frozen(store)
        held = await item(store, second, job.id)
        assert (held.state, held.why) == ("skipped", f"already in redrive {first.id[-8:]}")
        assert await store.redrives.change(first.id, first.version, "cancelled", "alice") is not None
        assert (await item(store, await frozen(store), job.id)).state == "pending"

    async def test_what_was_stopped_may_be_in_another_one(self, store: Store) -> None:
        """The letters of a stopped cause are free again."""
        [job] = await dead(store, 1)
        first = await frozen(store)
        assert await store.redrives.stop(first.id, ["f00d", "beef"], "alice") == ["f00d"]
        assert await store.redrives.stop(first.id, ["f00d"], "alice") == []
        assert (await item(store, await frozen(store), job.id)).state == "pending"

    # releasing --------------------------------------------------------------------------------------------------------

    async def test_nothing_is_released_before_it_is_frozen(self, store: Store) -> None:
        """Half a selection moves nothing."""
        await dead(store, 3)
        redrive = await store.redrives.open(Plan(), "alice", "")
        await store.redrives.freeze(redrive.id, 2)
        assert (await store.redrives.release(redrive.id, 1, 3, 100)).released == 0
        assert (await depth_of(store)).dead == 3

    async def test_a_released_letter_begins_a_new_epoch(self, store: Store, clock: ManualClock) -> None:
        """Once, with counts from zero, due now, by name of the redrive; depth, groups, totals and journal know."""
        [job] = await dead(store, 1)
        redrive = await frozen(store)
        clock.advance(60)
        chunk = await store.redrives.release(redrive.id, 1, 5, 100)
        assert (chunk.released, chunk.skipped, chunk.left) == (1, 0, 0)
        back = await live(store, job.id)
        assert (back.state, back.epoch, back.redrive, back.due_at) == (State.READY, 2, redrive.id, clock.now())
        assert (back.attempts, back.starts, back.epoch_at) == (0, 0, clock.now())
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.state is LetterState.REDRIVEN
        assert [group.count for group in await store.letters.groups()] == [0]
        assert (await store.letters.totals()).kinds == []
        depth = await depth_of(store)
        assert (depth.dead, depth.ready) == (0, 1)
        assert (await totals(store))["redriven"] == 1
        assert (await entries_of(store, job.id))[-1].event == "job.redriven"
        assert {entry.event for entry in await store.journal.latest(2)} == {"job.redriven", "redrive.released"}
        assert (await store.redrives.release(redrive.id, 1, 5, 100)).released == 0
        assert (await store.redrives.release(redrive.id, 2, 5, 100)).released == 0
        assert (await live(store, job.id)).epoch == 2

    async def test_a_stage_releases_what_it_has_and_no_more(self, store: Store) -> None:
        """In as many chunks as it takes; the next one begins then, and who believes otherwise does nothing."""
        await dead(store, 12)
        redrive = await frozen(store)

        async def release(stage: int, size: int, limit: int) -> tuple[int, int]:
            chunk = await store.redrives.release(redrive.id, stage, size, limit)
            return chunk.released, chunk.left

        assert await release(2, 5, 100) == (0, 0)
        assert await release(1, 5, 2) == (2, 3)
        assert await release(2, 5, 100) == (0, 0)
        assert await release(1, 9, 100) == (3, 0)
        assert await release(1, 5, 100) == (0, 0)
        assert await release(2, 5, 100) == (5, 0)
        assert await release(3, 5, 100) == (2, 0)
        assert [(each.number, each.released) for each in await store.redrives.stages(redrive.id)] == [
            (1, 5),
            (2, 5),
            (3, 2),
        ]
        assert (await now(store, redrive)).stage == 3

    async def test_the_causes_take_turns(self, store: Store) -> None:
        """A small one is among the first as much as a big one."""
        await dead(store, 20, "big")
        await dead(store, 2, "small")
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 6, 4)
        await store.redrives.release(redrive.id, 1, 6, 4)
        tallies = await store.redrives.tally(redrive.id)
        assert [(each.cause, each.released) for each in tallies] == [("big", 4), ("small", 2)]

    async def test_a_stopped_cause_is_not_released(self, store: Store) -> None:
        """It stays dead and untouched; the others go on."""
        await dead(store, 5, "broken")
        await dead(store, 5, "fixed")
        redrive = await frozen(store)
        await store.redrives.release(redrive.id, 1, 2, 100)
        assert await store.redrives.stop(redrive.id, ["broken"], "alice") == ["broken"]
        assert (await store.redrives.release(redrive.id, 2, 100, 100)).released == 4
        broken = await tally(store, redrive, "broken")
        assert (broken.released, broken.left, broken.stopped) == (1, 4, 1)
        assert (await depth_of(store)).dead == 4

    async def test_what_has_changed_meanwhile_is_skipped_with_its_reason(self, store: Store) -> None:
        """Nothing that is not the death that was frozen is brought back."""
        jobs = await dead(store, 4)
        redrive = await frozen(store)
        await store.letters.revive([job.id for job in jobs[:3]], "bob", "")
        claims = {job.id: job for job in await claimed(store, 3)}
        await store.jobs.settle(
            [
                Discarded(job=claims[jobs[0].id], reason="discarded"),
                Buried(job=claims[jobs[1].id], failure=a_failure(epoch=2)),
            ]
        )
        chunk = await store.redrives.release(redrive.id, 1, 100, 100)
        assert (chunk.released, chunk.skipped, chunk.left) == (1, 3, 0)
        whys = {each.id: each.why for each in await store.redrives.items(redrive.id, ["skipped"])}
        assert whys == {
            jobs[0].id: "discarded meanwhile",
            jobs[1].id: "brought back meanwhile",
            jobs[2].id: "brought back meanwhile",
        }
        assert [(p.state, p.why, p.n) for p in await store.redrives.patterns(redrive.id)] == [
            ("skipped", "brought back meanwhile", 2),
            ("skipped", "discarded meanwhile", 1),
        ]
        assert (await live(store, jobs[1].id)).epoch == 2

    async def test_skipped_letters_do_not_spend_the_stage(self, store: Store) -> None:
        """A stage of two releases two."""
        jobs = await dead(store, 5)
        redrive = await frozen(store)
        await store.letters.revive([job.id for job in jobs[:2]], "bob", "")
        left = 3
        while left:
            left = (await store.redrives.release(redrive.id, 1, 3, 100)).left
        found = await states(store, redrive)
        assert (found["released"], found["skipped"] + found["pending"]) == (3, 2)  # which comes first is left to chance

    async def test_parallel_bounds_what_is_released_and_not_ended(self, store: Store) -> None:
        """The next one follows when one has ended."""
        await dead(store, 5)
        redrive = await frozen(store, parallel=2)
        assert (await store.redrives.release(redrive.id, 1, 5, 100)).released == 2
        assert (await store.redrives.release(redrive.id, 1, 5, 100)).released == 0
        await settled(store, Done(job=(await claimed(store))[0]))
        assert (await store.redrives.release(redrive.id, 1, 5, 100)).released == 1

    async def test_a_rate_is_kept_whoever_releases(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        """So many a second, from all processes together."""
        await dead(store, 40)
        redrive, other = await frozen(store, rate=4.0), await opener()
        released = 0
        for _ in range(20):
            clock.advance(0.25)
            for each in (store, other):
                released += (await each.redrives.release(redrive.id, 1, 40, 100)).released
        assert released == 20

    async def test_jobs_go_where_they_are_sent(self, store: Store) -> None:
        """To another queue, and the depths of both know it."""
        [job] = await dead(store, 1)
        redrive = await frozen(store, queue="slow")
        await store.redrives.release(redrive.id, 1, 1, 1)
        assert (await live(store, job.id)).queue == "slow"
        assert ((await depth_of(store)).dead, (await depth_of(store, "slow")).ready) == (0, 1)

    async def test_kept_attempts_leave_at_least_one(self, store: Store) -> None:
        """What was spent stays spent; a new limit is written where the job carries it."""
        policy = encode_limits(Limits(max_attempts=5))
        [job] = await dead(store, 1, policy=policy)
        first = await frozen(store, keep_attempts=True)
        await store.redrives.release(first.id, 1, 1, 1)
        assert (await live(store, job.id)).attempts == 1
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        second = await frozen(store, keep_attempts=True, max_attempts=2)
        await store.redrives.release(second.id, 1, 1, 1)
        back = await live(store, job.id)
        assert (back.attempts, limits_of(back.policy).max_attempts) == (1, 2)

    async def test_a_paused_redrive_releases_nothing(self, store: Store) -> None:
        """Until it is resumed."""
        await dead(store, 2)
        redrive = await frozen(store)
        paused = await store.redrives.change(redrive.id, redrive.version, "paused", "bob", "lunch")
        assert paused is not None
        assert (paused.state, paused.why) == ("paused", "lunch")
        assert (await store.redrives.release(redrive.id, 1, 2, 2)).released == 0
        resumed = await store.redrives.change(redrive.id, paused.version, "running", "bob")
        assert resumed is not None
        assert resumed.state == "running"
        assert (await store.redrives.release(redrive.id, 1, 2, 2)).released == 2

    async def test_a_change_of_another_version_changes_nothing(self, store: Store) -> None:
        """Whoever looked at an older one has to look again; and what is over stays over."""
        redrive = await frozen(store)
        assert await store.redrives.change(redrive.id, redrive.version - 1, "paused", "bob") is None
        over = await store.redrives.change(redrive.id, redrive.version, "cancelled", "bob")
        assert over is not None
        assert over.ended_at is not None
        for state in ("running", "paused", "finished"):
            assert await store.redrives.change(redrive.id, over.version, state, "bob") is None
        assert (await now(store, redrive)).state == "cancelled"

    async def test_a_pause_while_it_freezes_keeps_its_place(self, store: Store) -> None:
        """It goes on freezing where it was."""
        await dead(store, 3)
        redrive = await store.redrives.open(Plan(), "alice", "")
        await store.redrives.freeze(redrive.id, 2)
        paused = await store.redrives.change(redrive.id, redrive.version, "paused", "bob")
        assert paused is not None
        assert not await store.redrives.freeze(redrive.id, 2)
        resumed = await store.redrives.change(redrive.id, paused.version, "running", "bob")
        assert resumed is not None
        assert resumed.state == "freezing"
        assert await store.redrives.freeze(redrive.id, 2)
        assert (await now(store, redrive)).total == 3

    # finding ----------------------------------------------------------------------------------------------------------

    async def test_redrives_are_found_newest_first(self, store: Store) -> None:
        """All of them, or those in these states."""
        first, second = await frozen(store), await store.redrives.open(Plan(), "bob", "")
        assert [each.id for each in await store.redrives.find()] == [second.id, first.id]
        assert [each.id for each in await store.redrives.find(limit=1)] == [second.id]
        assert [each.id for each in await store.redrives.find(["running", "paused"])] == [first.id]

    async def test_items_come_in_pages(self, store: Store) -> None:
        """In the order of their ids, of one state if asked."""
        jobs = sorted(job.id for job in await dead(store, 5))
        redrive = await frozen(store)
        page = await store.redrives.items(redrive.id, limit=3)
        rest = await store.redrives.items(redrive.id, after=page[-1].id, limit=3)
        assert [each.id for each in (*page, *rest)] == jobs
        await store.redrives.release(redrive.id, 1, 2, 2)
        assert len(await store.redrives.items(redrive.id, ["released"])) == 2
        assert len(await store.redrives.items(redrive.id, ["released", "pending"])) == 5

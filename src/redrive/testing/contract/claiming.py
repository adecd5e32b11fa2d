"""Rules of claiming: who is first in line, what holds a job back, and what a claim changes."""

import asyncio

from redrive.clock import SECOND, ManualClock
from redrive.job import Job, State
from redrive.store import Released, Store, Want
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    LEASE,
    a_failure,
    added,
    added_many,
    buried,
    claimed,
    closed,
    depth_of,
    entries_of,
    leased,
    live,
    record_of,
    settled,
    state_of,
    totals,
    wanted,
)


class ClaimingRules(Rules):
    """What `claim` and the claiming half of `turn` promise."""

    async def test_an_empty_store_has_nothing_to_claim(self, store: Store) -> None:
        """No job, no error."""
        assert await store.jobs.claim(wanted()) == []

    async def test_a_claim_leases_the_job(self, store: Store) -> None:
        """State, holder, start and fence are written before the worker learns of the job."""
        job = await leased(store)
        record = await record_of(store, job.id)
        assert (job.state, job.starts, job.attempts, job.fence) == (State.LEASED, 1, 0, 1)
        assert (record.job, record.worker, record.lease_left) == (job, "w1", LEASE)

    async def test_a_leased_job_is_not_claimed(self, store: Store) -> None:
        """One holder at a time."""
        await leased(store)
        assert await store.jobs.claim(wanted()) == []

    async def test_priority_nine_goes_first_then_due_at_then_id(self, store: Store, clock: ManualClock) -> None:
        """The line has one order on every engine."""
        now = clock.now()
        later = await added(store, due_at=now - 1)
        twins = await added_many(store, 2, due_at=now - 5)
        low = await added(store, priority=0, due_at=now - 9)
        high = await added(store, priority=9, due_at=now)
        assert _ids(await claimed(store, 5)) == _ids([high, *twins, later, low])

    async def test_a_claim_takes_no_more_than_its_limit(self, store: Store) -> None:
        """The rest stays for others."""
        jobs = await added_many(store, 5)
        assert _ids(await store.jobs.claim(wanted(3))) == _ids(jobs[:3])
        assert await store.jobs.claim(wanted(0)) == []
        assert (await depth_of(store)).ready == 2

    async def test_a_claim_takes_of_each_queue_what_it_has_slots_for(self, store: Store) -> None:
        """`queues` says how many of each; a queue not named or without a slot is left alone."""
        first = await added_many(store, 3, queue="a")
        second = await added_many(store, 3, queue="b")
        await added_many(store, 1, queue="c")
        got = await store.jobs.claim(wanted(10, queues={"a": 2, "b": 9, "c": 0}))
        assert sorted(_ids(got)) == sorted(_ids([*first[:2], *second]))

    async def test_the_limit_holds_over_all_queues(self, store: Store) -> None:
        """Free slots of queues do not add up beyond the free slots of the worker, and priority rules among them."""
        await added_many(store, 2, queue="a")
        high = await added_many(store, 2, queue="b", priority=8)
        assert _ids(await store.jobs.claim(wanted(2, queues={"a": 2, "b": 2}))) == _ids(high)

    async def test_a_full_queue_does_not_hide_the_others(self, store: Store) -> None:
        """Many urgent jobs of a queue without a slot do not starve another queue."""
        await added_many(store, 50, queue="busy", priority=9)
        [calm] = await added_many(store, 1, queue="calm", priority=0)
        got = await store.jobs.claim(wanted(5, queues={"busy": 1, "calm": 4}))
        assert len(got) == 2
        assert got[-1].id == calm.id

    async def test_no_queue_named_is_every_queue(self, store: Store) -> None:
        """A worker without a choice serves all."""
        jobs = [await added(store, queue=queue) for queue in "abc"]
        assert _ids(await claimed(store, 3)) == _ids(jobs)

    async def test_tasks_without_a_free_runner_are_left(self, store: Store) -> None:
        """`without` names tasks whose runner is full; the others pass them in the line."""
        await added(store, task="heavy", priority=9)
        light = await added(store, task="light")
        assert _ids(await store.jobs.claim(wanted(without=("heavy",)))) == [light.id]
        assert len(await store.jobs.claim(wanted())) == 1

    async def test_a_scheduled_job_is_claimed_at_its_time_and_not_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nobody has to promote it."""
        await added(store, due_at=clock.now() + 2 * SECOND)
        clock.advance(1.999)
        assert await store.jobs.claim(wanted()) == []
        clock.advance(0.001)
        assert len(await store.jobs.claim(wanted())) == 1

    async def test_due_first_goes_first_whenever_it_was_added(self, store: Store, clock: ManualClock) -> None:
        """A job that waited for its time takes its place by it."""
        scheduled = await added(store, due_at=clock.now() + SECOND)
        clock.advance(2)
        younger = await added(store)
        assert _ids(await claimed(store, 2)) == _ids([scheduled, younger])

    async def test_suspects_are_left_unless_wanted(self, store: Store) -> None:
        """A worker without a slot to run one alone does not take a suspect; others pass it."""
        job = await leased(store)
        await settled(store, Released(job=job, at=0, why="its process died", suspect=1))
        other = await added(store)
        assert _ids(await store.jobs.claim(wanted(suspects=False))) == [other.id]
        [suspect] = await store.jobs.claim(wanted())
        assert (suspect.id, suspect.suspect) == (job.id, 1)

    async def test_an_expired_job_is_discarded_not_run_and_journalled(self, store: Store, clock: ManualClock) -> None:
        """Its time is over: it ends without success, and the next in line is claimed in its place."""
        late = await added(store, expires=clock.now() + SECOND)
        clock.advance(2)
        fresh = await added(store, expires=clock.now() + SECOND)
        assert _ids(await store.jobs.claim(wanted(1))) == [fresh.id]
        record = await record_of(store, late.id)
        assert (await state_of(store, late.id), record.end_reason) == (State.DISCARDED, "expired")
        assert [(e.event, e.reason) for e in await entries_of(store, late.id)] == [("job.discarded", "expired")]
        assert (await totals(store))["discarded"] == 1
        assert (await live(store, late.id)).starts == 0

    async def test_starts_is_counted_at_every_claim_and_never_refunded(self, store: Store) -> None:
        """A job that kills its worker still ends: released or not, a start is a start."""
        job = await leased(store)
        for start in (2, 3):
            await settled(store, Released(job=job, at=0, why="the worker drains"))
            [job] = await claimed(store)
            assert (job.starts, job.attempts) == (start, 0)

    async def test_the_fence_only_rises(self, store: Store, clock: ManualClock) -> None:
        """Over releases, takeovers and epochs no lease has the number of an earlier one."""
        job = await buried(store)
        fences = [job.fence]
        await store.letters.revive([job.id], "alice", "fixed")
        [job] = await claimed(store)
        fences.append(job.fence)
        [orphan] = await store.jobs.reap("reaper", ["w1"], 10, LEASE)
        fences.append(orphan.job.fence)
        await settled(store, Released(job=orphan.job, at=0, why="worker gone"))
        [job] = await claimed(store)
        fences.append(job.fence)
        assert fences == sorted(set(fences))

    async def test_what_cannot_be_read_is_not_claimed(self, store: Store) -> None:
        """A newer client's wire version or encoding waits for a newer worker; the line goes on behind it."""
        await added(store, wire_version=99, priority=9)
        await added(store, encoding=99, priority=9)
        readable = await added(store)
        assert _ids(await store.jobs.claim(wanted())) == [readable.id]

    async def test_two_claimers_never_get_the_same_job(self, store: Store, opener: Opener) -> None:
        """However many ask at once, each job has one holder."""
        jobs = await added_many(store, 60)
        stores = [store, await opener()]
        wants = [Want(worker=f"w{n}", limit=7, lease=LEASE) for n in range(12)]
        takes = await asyncio.gather(*(stores[n % 2].jobs.claim(want) for n, want in enumerate(wants)))
        got = [job.id for take in takes for job in take]
        assert sorted(got) == sorted(_ids(jobs))

    async def test_a_turn_settles_and_claims(self, store: Store) -> None:
        """One round trip ends what has run and starts the next; who was late is named."""
        ran, [waiting] = await leased(store), await added_many(store, 1)
        stale = await leased_and_reaped(store)
        turn = await store.jobs.turn(
            [Released(job=ran, at=0, why="drains"), Released(job=stale, at=0, why="drains")], wanted(1)
        )
        assert (turn.late, _ids(turn.jobs)) == (frozenset({stale.id}), [ran.id])
        assert await state_of(store, waiting.id) == State.READY

    async def test_a_turn_may_claim_what_it_has_settled(self, store: Store) -> None:
        """Settling comes first."""
        job = await leased(store)
        turn = await store.jobs.turn([Released(job=job, at=0, why="drains")], wanted())
        assert _ids(turn.jobs) == [job.id]
        assert turn.jobs[0].fence > job.fence

    async def test_a_turn_without_want_claims_nothing(self, store: Store) -> None:
        """A worker that drains only settles."""
        job = await added(store)
        turn = await store.jobs.turn([], None)
        assert (turn.late, turn.jobs) == (frozenset(), [])
        assert await state_of(store, job.id) == State.READY

    async def test_a_turn_answers_when_the_next_job_is_due(self, store: Store, clock: ManualClock) -> None:
        """So that a worker knows how long to rest; None when nothing waits for its time."""
        assert (await store.jobs.turn([], wanted())).next_due is None
        due = clock.now() + 10 * SECOND
        await added(store, due_at=due + SECOND)
        await added(store, due_at=due)
        assert (await store.jobs.turn([], wanted())).next_due == due

    async def test_the_next_due_is_of_the_wanted_queues(self, store: Store, clock: ManualClock) -> None:
        """A worker is not told of jobs that it does not serve."""
        await added(store, queue="other", due_at=clock.now() + SECOND)
        due = clock.now() + 10 * SECOND
        await added(store, queue="mine", due_at=due)
        assert (await store.jobs.turn([], wanted(queues={"mine": 1}))).next_due == due

    async def test_a_redriven_job_does_not_jump_the_queue(self, store: Store, clock: ManualClock) -> None:
        """It is due from the moment it came back."""
        old = await buried(store, failure=a_failure())
        clock.advance(10)
        waiting = await added(store)
        clock.advance(1)
        assert await store.letters.revive([old.id], "alice", "fixed") == [old.id]
        assert _ids(await claimed(store, 2)) == _ids([waiting, old])

    async def test_a_job_that_needs_nothing_passes_a_closed_dependency(self, store: Store) -> None:
        """A closed dependency holds back only jobs that need it."""
        needy = await added(store, needs=("mail", "payments"), priority=9)
        free = await added(store, needs=("mail",))
        await store.jobs.gate(closed("dependency", "payments"), "alice")
        assert _ids(await store.jobs.claim(wanted())) == [free.id]
        assert await state_of(store, needy.id) == State.READY


async def leased_and_reaped(store: Store) -> Job:
    """A job as a worker knows it that has lost its lease to a reaper; in a queue of its own."""
    await added(store, queue="elsewhere")
    [job] = await claimed(store, worker="slow", queues={"elsewhere": 1})
    await store.jobs.reap("reaper", ["slow"], 10, LEASE)
    return job


def _ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]

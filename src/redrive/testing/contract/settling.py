"""Rules of settling: what follows from an attempt is written once, by whoever holds the lease, all or nothing."""

import pytest

from redrive.clock import SECOND, ManualClock
from redrive.job import RESULT_LIMIT, State
from redrive.store import Buried, Discarded, Done, Released, Retried, Snoozed, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    LEASE,
    a_failure,
    added,
    claimed,
    depth_of,
    done,
    entries_of,
    every_ending,
    lease_of,
    leased,
    live,
    record_of,
    settled,
    state_of,
    totals,
    wanted,
)

KINDS = ["done", "retried", "snoozed", "buried", "discarded", "released"]
ODD_TEXTS = [
    "",
    "NUL \x00 in the middle",
    "☃ \u202e \U0001f4a9 e\u0301 \ufffe",
    "'; drop table jobs; --",
    "x" * 100_000,
]


class SettlingRules(Rules):
    """What `settle` promises."""

    @pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
    async def test_a_late_settle_changes_nothing(self, store: Store, kind: int) -> None:
        """After a takeover the first holder's settlement is reported and leaves no trace in rows or counts."""
        job = await leased(store)
        await store.jobs.reap("reaper", ["w1"], 10, LEASE)
        before = await _everything(store, job.id)
        assert await store.jobs.settle([every_ending(job, 0)[kind]]) == frozenset({job.id})
        assert await _everything(store, job.id) == before

    @pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
    async def test_a_second_settle_changes_nothing(self, store: Store, kind: int) -> None:
        """A worker that is unsure whether its settlement arrived sends it again, and that is late."""
        settlement = every_ending(await leased(store), 0)[kind]
        await settled(store, settlement)
        before = await _everything(store, settlement.job.id)
        assert await store.jobs.settle([settlement]) == frozenset({settlement.job.id})
        assert await _everything(store, settlement.job.id) == before

    async def test_a_settle_of_a_forgotten_job_is_late(self, store: Store, clock: ManualClock) -> None:
        """It was finished by another and pruned meanwhile; it does not come back."""
        job = await done(store)
        clock.advance("2d")
        assert await store.jobs.prune(10) == 1
        assert await store.jobs.settle([Retried(job=job, at=0, failure=a_failure())]) == frozenset({job.id})
        assert await store.jobs.get(job.id) is None

    async def test_the_late_do_not_hinder_the_others(self, store: Store) -> None:
        """In one batch each lease is judged by itself."""
        late = await leased(store)
        await store.jobs.cancel([late.id], "alice")
        held = await leased(store)
        assert await store.jobs.settle([Done(job=late), Done(job=held)]) == frozenset({late.id})
        assert await state_of(store, held.id) == State.DONE

    async def test_settling_nothing_is_nothing(self, store: Store) -> None:
        """An empty batch is a batch."""
        assert await store.jobs.settle([]) == frozenset()

    async def test_a_lease_that_ended_but_was_not_taken_over_still_settles(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The fence names the right, and nobody else has it yet."""
        job = await leased(store)
        clock.advance("5m")
        await settled(store, Done(job=job))
        assert await state_of(store, job.id) == State.DONE

    async def test_a_done_job_leaves_its_narrow_row(self, store: Store, clock: ManualClock) -> None:
        """The attempt that succeeded is counted, the result is kept, the payload is not."""
        job = await leased(store, key="k", queue="email")
        clock.advance(3)
        await settled(store, Done(job=job, result=b'{"ok":1}', duration=1_234))
        record = await record_of(store, job.id)
        kept = record.finished
        assert kept is not None
        assert record.job is None
        assert (kept.id, kept.task, kept.queue, kept.key) == (job.id, job.task, "email", "k")
        assert (kept.attempts, kept.epoch, kept.result, kept.duration) == (1, 1, b'{"ok":1}', 1_234)
        assert kept.ended_at == clock.now()

    async def test_a_done_job_without_result_has_none(self, store: Store) -> None:
        """None is not JSON's null."""
        kept = (await record_of(store, (await done(store)).id)).finished
        assert kept is not None
        assert kept.result is None

    async def test_a_result_of_up_to_64_kib_is_kept_for_a_day_and_pruned_after(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Finished rows go when their time is over, never before."""
        result = b'"' + b"r" * (RESULT_LIMIT - 2) + b'"'
        job = await leased(store)
        await settled(store, Done(job=job, result=result))
        clock.advance("23h59m")
        assert await store.jobs.prune(100) == 0
        kept = (await record_of(store, job.id)).finished
        assert kept is not None
        assert kept.result == result
        clock.advance("2m")
        assert await store.jobs.prune(100) == 1
        assert await store.jobs.get(job.id) is None

    async def test_a_retried_job_spends_an_attempt_and_waits(self, store: Store, clock: ManualClock) -> None:
        """It is scheduled for its next attempt, with the failure kept."""
        job, at, failure = await leased(store), clock.now() + 5 * SECOND, a_failure(attempt=1)
        await settled(store, Retried(job=job, at=at, failure=failure))
        record = await record_of(store, job.id)
        now = await live(store, job.id)
        assert (now.state, now.attempts, now.due_at) == (State.SCHEDULED, 1, at)
        assert (now.crashes, now.losses, now.suspect) == (0, 0, 0)
        assert (record.failures, record.worker, record.lease_left) == ((failure,), None, None)
        clock.advance(5)
        assert len(await store.jobs.claim(wanted())) == 1

    async def test_crashes_and_losses_are_counted_apart(self, store: Store) -> None:
        """Without spending an attempt if the settlement says so; `suspect` is written as given."""
        job = await leased(store)
        await settled(store, Retried(job=job, at=0, failure=a_failure(), spend=0, crashed=1, suspect=2))
        [job] = await claimed(store)
        assert (job.attempts, job.crashes, job.losses, job.suspect) == (0, 1, 0, 2)
        await settled(store, Retried(job=job, at=0, failure=a_failure(), lost=1))
        [job] = await claimed(store)
        assert (job.attempts, job.crashes, job.losses, job.suspect) == (1, 1, 1, 0)

    async def test_a_snoozed_job_spends_no_attempt(self, store: Store, clock: ManualClock) -> None:
        """It comes back at its time, and the journal says that it was snoozed."""
        job = await leased(store)
        until = clock.now() + SECOND
        await settled(store, Snoozed(job=job, until=until, why="too early"))
        now = await live(store, job.id)
        assert (now.state, now.attempts, now.due_at) == (State.SCHEDULED, 0, until)
        assert (await entries_of(store, job.id))[-1].event == "job.snoozed"

    async def test_a_released_job_spends_no_attempt_and_is_ready(self, store: Store, clock: ManualClock) -> None:
        """Given back now, it can be claimed now, due from now."""
        job = await leased(store)
        clock.advance(1)
        await settled(store, Released(job=job, at=clock.now(), why="the worker drains"))
        now = await live(store, job.id)
        assert (now.state, now.attempts, now.due_at) == (State.READY, 0, clock.now())

    async def test_unknown_task_since_is_kept_across_releases(self, store: Store, clock: ManualClock) -> None:
        """The grace runs from the first worker that lacked the task."""
        job, since = await leased(store), clock.now()
        for _ in range(2):
            await settled(store, Released(job=job, at=0, why="unknown task", unknown_task=True))
            assert (await record_of(store, job.id)).unknown_since == since
            clock.advance(60)
            [job] = await claimed(store)
        assert (await record_of(store, job.id)).unknown_since == since

    async def test_a_task_that_ran_is_not_unknown_any_more(self, store: Store) -> None:
        """Some worker has its handler: the grace starts anew if it is lost again."""
        job = await leased(store)
        await settled(store, Released(job=job, at=0, why="unknown task", unknown_task=True))
        [job] = await claimed(store)
        await settled(store, Retried(job=job, at=0, failure=a_failure()))
        assert (await record_of(store, job.id)).unknown_since is None

    async def test_a_discarded_job_ends_with_its_reason(self, store: Store, clock: ManualClock) -> None:
        """It keeps its row for a while, has no letter, and the journal tells why."""
        job = await leased(store)
        await settled(store, Discarded(job=job, reason="discarded", why="a duplicate order"))
        record = await record_of(store, job.id)
        assert (await live(store, job.id)).state == State.DISCARDED
        assert (record.end_reason, record.ended_at) == ("discarded", clock.now())
        assert await store.letters.get(job.id) is None
        [entry] = await entries_of(store, job.id)
        assert (entry.event, entry.reason, entry.worker) == ("job.discarded", "discarded", "w1")

    async def test_discarded_rows_are_pruned_after_their_time(self, store: Store, clock: ManualClock) -> None:
        """In the end they are forgotten; the dead are not."""
        gone = await leased(store)
        await settled(store, Discarded(job=gone, reason="discarded"))
        dead = await leased(store)
        await settled(store, Buried(job=dead, failure=a_failure()))
        assert await store.jobs.prune(100) == 0
        clock.advance("31d")
        assert await store.jobs.prune(100) == 1
        assert await store.jobs.get(gone.id) is None
        assert await state_of(store, dead.id) == State.DEAD

    async def test_prune_takes_no_more_than_its_limit(self, store: Store, clock: ManualClock) -> None:
        """No transaction grows with the data."""
        for _ in range(3):
            await done(store)
        clock.advance("2d")
        assert [await store.jobs.prune(2) for _ in range(3)] == [2, 1, 0]

    async def test_a_longer_retention_of_done_is_kept(self, opener: Opener, clock: ManualClock) -> None:
        """The row stays for the longer of its retention and its key's lifetime."""
        store = await opener(done_retention=48 * 3_600 * SECOND)
        await done(store)
        clock.advance("47h")
        assert await store.jobs.prune(100) == 0
        clock.advance("2h")
        assert await store.jobs.prune(100) == 1

    @pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
    async def test_odd_texts_of_failures_survive(self, store: Store, text: str) -> None:
        """What an exception said is kept as the failure path wrote it."""
        failure = a_failure(message=text, traceback=text, title=text, cause=text, host=text, step=text)
        job = await leased(store)
        await settled(store, Buried(job=job, failure=failure))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.failures == (failure,)
        assert letter.message == text

    @pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
    async def test_settling_is_one_transaction(self, store: Store, opener: Opener, kind: int) -> None:
        """The counters say what the rows say, for whoever looks."""
        job = await leased(store)
        await settled(store, every_ending(job, 0)[kind])
        counts, depth = await totals(await opener()), await depth_of(await opener())
        assert counts["started"] == counts["enqueued"] == 1
        waits = KINDS[kind] in ("retried", "snoozed", "released")
        assert (depth.ready, depth.leased, depth.dead) == (int(waits), 0, int(KINDS[kind] == "buried"))
        for name in ("done", "retried", "snoozed", "buried", "discarded"):
            assert counts[name] == int(name == KINDS[kind])
        assert counts["failed"] == int(KINDS[kind] in ("retried", "buried"))


async def _everything(store: Store, id: str) -> list[object]:
    """All that a settlement could change."""
    return [
        await store.jobs.get(id),
        await store.letters.get(id),
        await store.letters.groups(),
        await store.jobs.depth(),
        await totals(store),
    ]


class LeaseRules(Rules):
    """What `extend` and `reap` promise."""

    async def test_an_extended_lease_lasts_from_now(self, store: Store, clock: ManualClock) -> None:
        """A heartbeat moves the deadline, and nobody reaps the job before it."""
        job = await leased(store)
        clock.advance(20)
        assert await store.jobs.extend([lease_of(job)], LEASE) == frozenset()
        assert (await record_of(store, job.id)).lease_left == LEASE
        clock.advance(20)
        assert await store.jobs.reap("reaper", [], 10, LEASE) == []

    async def test_extend_names_what_is_no_longer_held(self, store: Store) -> None:
        """Taken over, settled, cancelled or never there: the holder learns of it."""
        taken = await leased(store)
        await store.jobs.reap("reaper", ["w1"], 10, LEASE)
        finished = await done(store)
        cancelled = await leased(store)
        await store.jobs.cancel([cancelled.id], "alice")
        kept = await leased(store)
        lost = await store.jobs.extend([lease_of(job) for job in (taken, finished, cancelled, kept)], LEASE)
        assert lost == {taken.id, finished.id, cancelled.id}
        assert await store.jobs.extend([], LEASE) == frozenset()

    async def test_a_released_and_claimed_again_job_has_another_lease(self, store: Store) -> None:
        """The old lease is not extended by its number's namesake."""
        old = await leased(store)
        await settled(store, Released(job=old, at=0, why="drains"))
        [new] = await claimed(store)
        assert await store.jobs.extend([lease_of(old)], LEASE) == {old.id}
        assert await store.jobs.extend([lease_of(new)], LEASE) == frozenset()

    async def test_reap_takes_over_what_a_gone_worker_held_and_counts_no_start(self, store: Store) -> None:
        """The reaper has the lease now, under a higher fence, and can settle it; the worker cannot."""
        job = await leased(store)
        [orphan] = await store.jobs.reap("reaper", ["w1"], 10, LEASE)
        assert (orphan.holder, orphan.why, orphan.alone) == ("w1", "worker gone", True)
        assert (orphan.job.id, orphan.job.starts, orphan.job.attempts) == (job.id, 1, 0)
        assert orphan.job.fence > job.fence
        record = await record_of(store, job.id)
        assert (record.worker, record.lease_left) == ("reaper", LEASE)
        assert await store.jobs.settle([Done(job=job)]) == {job.id}
        await settled(store, Released(job=orphan.job, at=0, why="worker gone"))

    async def test_reap_leaves_the_leases_of_the_living(self, store: Store) -> None:
        """Only the workers named and the leases that have ended."""
        await leased(store)
        assert await store.jobs.reap("reaper", ["another"], 10, LEASE) == []

    async def test_an_ended_lease_is_reaped(self, store: Store, clock: ManualClock) -> None:
        """Whoever held it did not say that it lives."""
        await leased(store)
        clock.advance(29.999)
        assert await store.jobs.reap("reaper", [], 10, LEASE) == []
        clock.advance(0.001)
        [orphan] = await store.jobs.reap("reaper", [], 10, LEASE)
        assert orphan.why == "lease ended"

    async def test_when_the_first_lease_ends_is_known_without_reaping(
        self, store: Store, opener: Opener, clock: ManualClock
    ) -> None:
        """None while nobody holds one, nothing left once it has ended, and none of another boot lasts."""
        assert await store.jobs.lease_ends() is None
        await leased(store)
        clock.advance(10)
        await leased(store, queue="other")
        assert await store.jobs.lease_ends() == LEASE - 10 * SECOND
        assert await (await opener(boot="next-boot")).jobs.lease_ends() == 0
        clock.advance(60)
        assert await store.jobs.lease_ends() == 0

    async def test_a_wall_clock_jump_expires_no_lease(self, store: Store, clock: ManualClock) -> None:
        """Leases are counted on the clock that nobody sets."""
        job = await leased(store)
        clock.set_wall(clock.now() + 86_400 * SECOND)
        assert await store.jobs.reap("reaper", [], 10, LEASE) == []
        clock.set_wall(clock.now() - 2 * 86_400 * SECOND)
        assert (await record_of(store, job.id)).lease_left == LEASE

    async def test_another_boots_leases_have_ended(self, store: Store, opener: Opener) -> None:
        """After a restart of the machine nobody can still be running the job."""
        job = await leased(store)
        rebooted = await opener(boot="next-boot")
        [orphan] = await rebooted.jobs.reap("reaper", [], 10, LEASE)
        assert (orphan.job.id, orphan.why) == (job.id, "other boot")

    async def test_a_reap_takes_nothing_twice(self, store: Store, clock: ManualClock) -> None:
        """What a reaper took is its own until its lease ends; then the next one takes it."""
        await leased(store)
        assert len(await store.jobs.reap("first", ["w1"], 10, LEASE)) == 1
        assert await store.jobs.reap("second", ["w1"], 10, LEASE) == []
        clock.advance(31)
        [orphan] = await store.jobs.reap("second", [], 10, LEASE)
        assert orphan.holder == "first"

    async def test_an_orphan_knows_whether_it_was_alone(self, store: Store) -> None:
        """Neighbours are counted before anything is taken, beyond the limit too."""
        await added(store)
        await added(store)
        await claimed(store, 2)
        await added(store)
        await claimed(store, worker="w2")
        [one] = await store.jobs.reap("reaper", ["w1"], 1, LEASE)
        assert not one.alone
        [other] = await store.jobs.reap("reaper", ["w2"], 10, LEASE)
        assert other.alone

    async def test_the_last_of_several_orphans_was_not_alone(self, store: Store) -> None:
        """Reaped in portions, a job that had neighbours is never taken for the guilty one."""
        for _ in range(3):
            await added(store)
        await claimed(store, 3)
        portions = [await store.jobs.reap("reaper", ["w1"], 1, LEASE) for _ in range(3)]
        assert [orphan.alone for [orphan] in portions] == [False, False, False]

    async def test_reap_takes_no_more_than_its_limit(self, store: Store) -> None:
        """The rest is for the next turn."""
        for _ in range(3):
            await added(store)
        await claimed(store, 3)
        assert [len(await store.jobs.reap("reaper", ["w1"], 2, LEASE)) for _ in range(3)] == [2, 1, 0]

"""Rules of operating: cancel, gates, moves, purges, and how deep the queues are."""

from redrive.clock import SECOND, ManualClock
from redrive.job import State
from redrive.store import Done, Gate, Released, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import (
    a_failure,
    added,
    added_many,
    buried,
    claimed,
    closed,
    depth_of,
    done,
    entries_of,
    leased,
    live,
    record_of,
    settled,
    state_of,
    totals,
    wanted,
)


class OperatingRules(Rules):
    """What an operator's verbs promise."""

    async def test_a_cancelled_job_is_discarded_with_that_reason(self, store: Store, clock: ManualClock) -> None:
        """Whether it waits for its turn or for its time; the journal says who did it."""
        ready, scheduled = await added(store), await added(store, due_at=clock.now() + SECOND)
        ids = [ready.id, scheduled.id]
        assert sorted(await store.jobs.cancel(ids, "alice")) == sorted(ids)
        for id in ids:
            assert (await record_of(store, id)).end_reason == "cancelled"
            [entry] = await entries_of(store, id)
            assert (entry.event, entry.reason, entry.actor) == ("job.discarded", "cancelled", "alice")
        assert await store.jobs.claim(wanted()) == []

    async def test_a_cancelled_leased_job_is_late_at_settle(self, store: Store) -> None:
        """Its handler may still run; what it says changes nothing."""
        job = await leased(store)
        assert await store.jobs.cancel([job.id], "alice") == [job.id]
        assert await store.jobs.settle([Done(job=job)]) == {job.id}
        assert await state_of(store, job.id) == State.DISCARDED

    async def test_what_has_ended_is_not_cancelled(self, store: Store) -> None:
        """Done, dead, discarded and unknown jobs stay as they are, and are not answered."""
        ids = [(await done(store)).id, (await buried(store)).id, "no-such-id"]
        assert await store.jobs.cancel(ids, "alice") == []
        assert [await state_of(store, each) for each in ids] == [State.DONE, State.DEAD, None]

    async def test_a_job_is_cancelled_once(self, store: Store) -> None:
        """Named twice or asked for twice, it is answered once."""
        job = await added(store)
        assert await store.jobs.cancel([job.id, job.id], "alice") == [job.id]
        assert await store.jobs.cancel([job.id], "alice") == []
        assert (await totals(store))["discarded"] == 1

    async def test_a_paused_queue_is_not_claimed_and_resumes(self, store: Store) -> None:
        """Its jobs wait, other queues go on, and opening the gate is all it takes."""
        held, free = await added(store, queue="paused"), await added(store, queue="other")
        await store.jobs.gate(closed("queue", "paused"), "alice")
        assert [job.id for job in await store.jobs.claim(wanted())] == [free.id]
        await store.jobs.gate(Gate(kind="queue", key="paused"), "alice")
        assert [job.id for job in await store.jobs.claim(wanted())] == [held.id]

    async def test_many_jobs_behind_a_gate_do_not_hide_the_others(self, store: Store) -> None:
        """However deep a paused queue is, the line goes on behind it."""
        await added_many(store, 300, queue="paused", priority=9)
        free = await added(store, queue="other", priority=0)
        await store.jobs.gate(closed("queue", "paused"), "alice")
        assert [job.id for job in await store.jobs.claim(wanted(1))] == [free.id]

    async def test_a_paused_queue_takes_jobs_in_and_lets_what_runs_settle(self, store: Store) -> None:
        """Pausing holds claims back, nothing else."""
        job = await leased(store)
        await store.jobs.gate(closed("queue", "default"), "alice")
        await added(store)
        await settled(store, Done(job=job))

    async def test_a_gate_opens_by_itself_at_its_time(self, store: Store, clock: ManualClock) -> None:
        """`until` needs nobody who remembers."""
        await added(store)
        await store.jobs.gate(closed("queue", "default", until=clock.now() + 60 * SECOND), "alice")
        clock.advance(59)
        assert await store.jobs.claim(wanted()) == []
        clock.advance(1)
        assert len(await store.jobs.claim(wanted())) == 1

    async def test_a_closed_dependency_opens_again(self, store: Store) -> None:
        """The jobs that were parked spent no attempt and no start."""
        await added(store, needs=("payments",))
        await store.jobs.gate(closed("dependency", "payments"), "alice")
        assert await store.jobs.claim(wanted()) == []
        await store.jobs.gate(Gate(kind="dependency", key="payments"), "alice")
        [job] = await store.jobs.claim(wanted())
        assert (job.starts, job.attempts) == (1, 0)

    async def test_a_closed_task_holds_back_its_jobs_only(self, store: Store) -> None:
        """A gate of a kind holds only what that kind names."""
        await added(store, task="report")
        free = await added(store, task="email", queue="report", needs=("report",))
        await store.jobs.gate(closed("task", "report"), "alice")
        assert [job.id for job in await store.jobs.claim(wanted())] == [free.id]

    async def test_a_gate_says_who_set_it_when_and_why(self, store: Store, clock: ManualClock) -> None:
        """What is in force is answered, listed, and in the journal."""
        answer = await store.jobs.gate(closed("queue", "email", reason="outage"), "alice")
        assert (answer.state, answer.reason, answer.actor, answer.changed_at) == (
            "closed",
            "outage",
            "alice",
            clock.now(),
        )
        assert await store.jobs.gates() == [answer]
        assert (await store.journal.latest(1))[0].actor == "alice"

    async def test_the_last_word_on_a_gate_counts(self, store: Store) -> None:
        """One row per gate; an opened one stays listed."""
        await store.jobs.gate(closed("queue", "email"), "alice")
        await store.jobs.gate(Gate(kind="queue", key="email"), "bob")
        [gate] = await store.jobs.gates()
        assert (gate.state, gate.actor) == ("open", "bob")

    async def test_a_move_takes_waiting_jobs_to_another_queue(self, store: Store, clock: ManualClock) -> None:
        """Ready and scheduled ones go, what runs or is dead stays, and the journal says who did it."""
        running, dead = await leased(store), await buried(store)
        moved = [await added(store), await added(store, due_at=clock.now() + SECOND)]
        assert await store.jobs.move("default", "other", "alice", 100) == 2
        assert [(await live(store, job.id)).queue for job in moved] == ["other", "other"]
        assert [(await live(store, job.id)).queue for job in (running, dead)] == ["default", "default"]
        there, here = await depth_of(store, "other"), await depth_of(store)
        assert (there.ready, there.scheduled, here.ready, here.scheduled) == (1, 1, 0, 0)
        assert "alice" in [entry.actor for entry in await store.journal.events()]

    async def test_a_move_takes_no_more_than_its_limit(self, store: Store) -> None:
        """Called until it answers zero, it has moved all."""
        await added_many(store, 3)
        assert [await store.jobs.move("default", "other", "alice", 2) for _ in range(3)] == [2, 1, 0]

    async def test_a_purge_discards_waiting_jobs(self, store: Store, clock: ManualClock) -> None:
        """Reason `purged`, up to the limit; what runs goes on."""
        running = await leased(store)
        jobs = [*await added_many(store, 2), await added(store, due_at=clock.now() + SECOND)]
        await added(store, queue="other")
        assert [await store.jobs.purge("default", "alice", 2) for _ in range(3)] == [2, 1, 0]
        for job in jobs:
            record = await record_of(store, job.id)
            assert (await state_of(store, job.id), record.end_reason) == (State.DISCARDED, "purged")
        assert (await depth_of(store, "other")).ready == 1
        assert (await totals(store))["purged"] == 3
        assert "alice" in [entry.actor for entry in await store.journal.events()]
        await settled(store, Done(job=running))

    async def test_depth_agrees_with_the_rows(self, store: Store, clock: ManualClock) -> None:
        """Every state is counted where it is, after every kind of change."""
        await done(store)
        await buried(store, failure=a_failure())
        await leased(store)
        back = await leased(store)
        await settled(store, Released(job=back, at=0, why="drains"))
        await added(store, due_at=clock.now() + SECOND)
        depth = await depth_of(store)
        assert (depth.scheduled, depth.ready, depth.leased, depth.dead) == (1, 1, 1, 1)

    async def test_depth_tells_how_old_the_line_is(self, store: Store, clock: ManualClock) -> None:
        """`oldest_ready` is the due time of the first in line."""
        first = clock.now()
        await added(store)
        clock.advance(5)
        await added(store)
        assert (await depth_of(store)).oldest_ready == first
        await claimed(store, 2)
        assert (await depth_of(store)).oldest_ready is None

    async def test_the_first_in_line_is_the_most_urgent(self, store: Store, clock: ManualClock) -> None:
        """Priority comes before age there too."""
        await added(store, priority=2)
        clock.advance(5)
        await added(store, priority=8)
        assert (await depth_of(store)).oldest_ready == clock.now()

    async def test_a_move_of_nothing_leaves_no_trace(self, store: Store) -> None:
        """No entry says that zero jobs were moved."""
        assert await store.jobs.move("default", "other", "alice", 10) == 0
        assert await store.journal.events() == []

    async def test_held_back_jobs_do_not_hide_the_others_of_their_queue(self, store: Store) -> None:
        """Past a closed task, a closed need and tasks without a runner, in the order of the line."""
        await added_many(store, 60, task="report", priority=9)
        await added_many(store, 60, task="charge", needs=("payments", "mail"), priority=9)
        await added_many(store, 60, task="heavy", priority=9)
        low = await added(store, task="charge", needs=("mail",), priority=4)
        high = await added(store, task="light", priority=6)
        await store.jobs.gate(closed("task", "report"), "alice")
        await store.jobs.gate(closed("dependency", "payments"), "alice")
        got = await store.jobs.claim(wanted(10, without=("heavy", "other")))
        assert [job.id for job in got] == [high.id, low.id]

    async def test_depth_of_all_names_every_queue_that_has_jobs(self, store: Store) -> None:
        """None asks for all, a list for those."""
        await buried(store, queue="b")
        await added(store, queue="a")
        assert {depth.queue for depth in await store.jobs.depth()} == {"a", "b"}
        assert [depth.queue for depth in await store.jobs.depth(["a"])] == ["a"]

"""A store against a plain reference: whatever is done, in whatever order, both say the same."""

import asyncio
from collections.abc import Callable

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, invariant, multiple, precondition, rule

from redrive.clock import SECOND, ManualClock
from redrive.job import Job, State
from redrive.store import (
    OPEN_REDRIVES,
    Accepted,
    Added,
    Discarded,
    Done,
    Existing,
    Gate,
    Plan,
    RedriveState,
    Released,
    Retried,
    Snoozed,
    Store,
    becomes,
)
from redrive.testing.expected import Driven, Expected
from redrive.testing.factories import LEASE, a_job, depth_of, every_ending, lease_of, open_in, record_of, wanted

WAITING = (State.SCHEDULED, State.READY)
QUEUES = ("default", "other")
GROUPS = ("f00d", "beef")
DAY = 24 * 3_600 * SECOND


class StoreMachine(RuleBasedStateMachine):
    """Every verb that changes jobs; `make_store` says which engine is exercised."""

    make_store: Callable[[ManualClock], Store]

    jobs: Bundle[str] = Bundle("jobs")
    leases: Bundle[Job] = Bundle("leases")  # the ended ones too
    redrives: Bundle[Driven] = Bundle("redrives")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.known: dict[str, Expected] = {}
        self.paused: set[str] = set()
        self.driven: list[Driven] = []
        self.failures = 0
        self.runner = asyncio.Runner()
        self.store = type(self).make_store(self.clock)
        self.runner.run(self.store.open())

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    # --- what can be done -------------------------------------------------------------------------------------------

    @rule(
        target=jobs,
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from([2, 5, 8]),
        delay=st.sampled_from([0, 0, 5]),
        key=st.sampled_from([None, "k1", "k2"]),
    )
    def enqueue(self, queue: str, priority: int, delay: int, key: str | None) -> str:
        """A new job, perhaps with a key that is taken."""
        due_at = self.clock.now() + delay * SECOND
        job = a_job(queue=queue, priority=priority, due_at=due_at, key=key)
        holder = self._holder(key)
        assert self._add(job) == (Existing(holder.job.id, holder.state) if holder else Accepted(job.id))
        if holder:
            return holder.job.id
        self.known[job.id] = Expected(job, State.SCHEDULED if delay else State.READY, due_at)
        return job.id

    @rule(id=jobs)
    def enqueue_again(self, id: str) -> None:
        """The same id changes nothing, unless the job is forgotten."""
        expected = self.known.get(id)
        if expected is not None:
            [answer] = self.runner.run(self.store.jobs.add([expected.job]))
            assert isinstance(answer, Existing)
            assert answer.id == id

    @rule(target=leases, n=st.integers(1, 4), worker=st.sampled_from(["w1", "w2"]))
    def claim(self, n: int, worker: str) -> MultipleResults[Job]:
        """The first in line, each with a start and a higher fence."""
        now = self.clock.now()
        line = [each for each in self._in(*WAITING) if each.due_at <= now and each.job.queue not in self.paused]
        first = sorted(line, key=lambda each: each.place)[:n]
        got = self.runner.run(self.store.jobs.claim(wanted(n, worker=worker)))
        assert [job.id for job in got] == [each.job.id for each in first]
        for each, job in zip(first, got, strict=True):
            each.state, each.worker, each.starts = State.LEASED, worker, each.starts + 1
            self._lease(each, job)
        return multiple(*got)

    @rule(lease=leases, kind=st.integers(0, 5), delay=st.sampled_from([0, 7]))
    def settle(self, lease: Job, kind: int, delay: int) -> None:
        """Any ending, for a lease that may long be over."""
        at = self.clock.now() + delay * SECOND
        settlement = every_ending(lease, at)[kind]
        late = self.runner.run(self.store.jobs.settle([settlement]))
        held = self._held(lease)
        assert late == (frozenset() if held else frozenset({lease.id}))
        match settlement:
            case _ if held is None:
                pass
            case Done():
                held.attempts += 1
                self._end(held, State.DONE)
            case Retried():
                self._fail(held)
                self._back(held, at)
            case Snoozed() | Released():
                self._back(held, at)
            case Discarded():
                self._end(held, State.DISCARDED)
            case _:
                self._fail(held)
                self._end(held, State.DEAD)
                held.dies("f00d")

    @rule(lease=leases)
    def extend(self, lease: Job) -> None:
        """Only what is held lasts longer."""
        held = self._held(lease)
        lost = self.runner.run(self.store.jobs.extend([lease_of(lease)], LEASE))
        assert lost == (frozenset() if held else frozenset({lease.id}))
        if held:
            held.deadline = self.clock.steady() + LEASE

    @rule(target=leases, gone=st.sampled_from([[], ["w1"], ["w2", "reaper"]]))
    def reap(self, gone: list[str]) -> MultipleResults[Job]:
        """What ended or was held by the gone has a new holder, and no start more."""
        over = [each for each in self._in(State.LEASED) if each.worker in gone or self._is_over(each)]
        orphans = self.runner.run(self.store.jobs.reap("reaper", gone, 100, LEASE))
        assert {orphan.job.id: orphan.holder for orphan in orphans} == {each.job.id: each.worker for each in over}
        for orphan in orphans:
            each = self.known[orphan.job.id]
            each.worker = "reaper"
            self._lease(each, orphan.job)
        return multiple(*(orphan.job for orphan in orphans))

    @rule(id=jobs)
    def cancel(self, id: str) -> None:
        """What has not ended is discarded."""
        each = self.known.get(id)
        alive = each is not None and each.state in (*WAITING, State.LEASED)
        assert self.runner.run(self.store.jobs.cancel([id], "alice")) == ([id] if alive else [])
        if each is not None and alive:
            self._end(each, State.DISCARDED)

    @rule(id=jobs)
    def revive(self, id: str) -> None:
        """The dead get a new epoch."""
        each = self.known.get(id)
        dead = each is not None and each.state is State.DEAD
        assert self.runner.run(self.store.letters.revive([id], "alice", "fixed")) == ([id] if dead else [])
        if each is not None and dead:
            each.epoch, each.attempts, each.starts = each.epoch + 1, 0, 0
            self._back(each, self.clock.now())

    @rule(id=jobs, by=st.sampled_from([None, "tidy"]))
    def discard_letter(self, id: str, by: str | None) -> None:
        """The dead are discarded, perhaps by a rule."""
        each = self.known.get(id)
        dead = each is not None and each.state is State.DEAD
        answer = self.runner.run(self.store.letters.discard([id], "alice", "", rule=by))
        assert answer.ids == ([id] if dead else [])
        if each is not None and dead:
            each.by_hand, each.rule = True, by or each.rule
            self._end(each, State.DISCARDED)

    @rule(id=jobs)
    def restore_letter(self, id: str) -> None:
        """And are dead again, unless somebody has their key."""
        each = self.known.get(id)
        able = each is not None and each.by_hand and self._holder(each.job.key) is None
        assert self.runner.run(self.store.letters.restore([id], "alice", "")).ids == ([id] if able else [])
        if each is not None and able:
            each.by_hand = False
            self._end(each, State.DEAD)

    @rule(id=jobs)
    def purge_letter(self, id: str) -> None:
        """Nothing is left of what has ended, and it is not added again."""
        each = self.known.get(id)
        if each is not None:
            over = each.letter and each.state not in (*WAITING, State.LEASED)
            assert self.runner.run(self.store.letters.purge([id], "alice", "")).ids == ([id] if over else [])
            if over:
                del self.known[id]
                assert self._add(each.job) == Existing(id, "purged")

    @rule(
        target=redrives,
        queue=st.sampled_from([None, *QUEUES]),
        of=st.sampled_from(["", *(f"queue = {q}" for q in QUEUES)]),
    )
    def open_redrive(self, queue: str | None, of: str) -> Driven:
        """A redrive of what is dead by now."""
        plan = Plan(filter=of, queue=queue, stages=())
        redrive = self.runner.run(self.store.redrives.open(plan, "alice", ""))
        self.driven.append(Driven(redrive.id, plan, self.failures))
        return self.driven[-1]

    @rule(driven=redrives, limit=st.integers(1, 3))
    def freeze(self, driven: Driven, limit: int) -> None:
        """It takes in what died before it was opened, and passes by what another one will release."""
        held = {id for each in self.driven if each.state in OPEN_REDRIVES and each is not driven for id in each.pending}
        if driven.state == "freezing":
            while not self.runner.run(self.store.redrives.freeze(driven.id, limit)):
                pass
            dead = [each for each in self._in(State.DEAD) if each.failed_as <= driven.cut and driven.means(each)]
            driven.pending = {each.job.id: each.epoch for each in dead if each.job.id not in held}
            driven.state, driven.version = "running", driven.version + 1
            assert self._pending(driven) == driven.pending.keys()

    @rule(driven=redrives, limit=st.integers(1, 3))
    def release(self, driven: Driven, limit: int) -> None:
        """Whoever is still in the death that was frozen gets a new epoch; the others are skipped."""
        stage = driven.stage or 1
        chunk = self.runner.run(self.store.redrives.release(driven.id, stage, 100, limit))
        gone = driven.pending.keys() - self._pending(driven)
        fit = [each for id in sorted(gone) if self._is_free_in(each := self.known.get(id), driven.pending[id])]
        assert (chunk.released, chunk.skipped) == (len(fit), len(gone) - len(fit))
        assert bool(gone) == (driven.state == "running" and bool(driven.pending))
        for each in fit:
            assert each is not None
            each.epoch, each.attempts, each.starts = each.epoch + 1, 0, 0
            each.job = msgspec.structs.replace(each.job, queue=driven.plan.queue or each.job.queue)
            self._back(each, self.clock.now())
        driven.stage = stage if driven.state == "running" else driven.stage
        driven.pending = {id: epoch for id, epoch in driven.pending.items() if id not in gone}

    @rule(driven=redrives, state=st.sampled_from(["paused", "running", "cancelled"]))
    def change_redrive(self, driven: Driven, state: RedriveState) -> None:
        """Paused, resumed and cancelled from what allows it."""
        before = self.runner.run(self.store.redrives.get(driven.id))
        assert before is not None
        after = becomes(before, state)
        changed = self.runner.run(self.store.redrives.change(driven.id, driven.version, state, "bob"))
        assert (changed and changed.state) == after
        if after is not None:
            driven.state, driven.version = after, driven.version + 1

    @rule(queue=st.sampled_from(QUEUES), to=st.sampled_from(QUEUES))
    def move(self, queue: str, to: str) -> None:
        """What waits goes to another queue."""
        waiting = [each for each in self._in(*WAITING) if each.job.queue == queue]
        assert self.runner.run(self.store.jobs.move(queue, to, "alice", 100)) == len(waiting)
        for each in waiting:
            each.job = msgspec.structs.replace(each.job, queue=to)

    @rule(limit=st.integers(1, 3))
    def seal(self, limit: int) -> None:
        """What people did is sealed, a share at a time."""
        assert self.runner.run(self.store.journal.seal(limit)) <= limit

    @rule(queue=st.sampled_from(QUEUES), closed=st.booleans())
    def gate(self, queue: str, closed: bool) -> None:
        """A queue is paused or goes on."""
        gate = Gate(kind="queue", key=queue, state="closed" if closed else "open")
        assert self.runner.run(self.store.jobs.gate(gate, "alice")).state == gate.state
        (self.paused.add if closed else self.paused.discard)(queue)

    @rule(duration=st.sampled_from([1, 5, 20, 31]))
    def advance(self, duration: int) -> None:
        """Time passes."""
        self.clock.advance(duration)

    @precondition(lambda self: any(each.state is State.DONE for each in self.known.values()))
    @rule()
    def prune_after_a_day(self) -> None:
        """Finished rows are forgotten, the others are not."""
        self.clock.advance("24h1m")
        over = [each.job.id for each in self._in(State.DONE)]
        assert self.runner.run(self.store.jobs.prune(1_000)) == len(over)
        for each in over:
            del self.known[each]

    # --- what must hold after each of it ------------------------------------------------------------------------------

    @invariant()
    def rows_are_as_expected(self) -> None:
        """State, epoch, counts, fence and history of every job."""
        for id, each in self.known.items():
            record = self.runner.run(record_of(self.store, id))
            assert len(record.failures) == each.failures or each.state is State.DONE
            if record.finished:
                got = (State.DONE, record.finished.epoch, record.finished.attempts)
                assert got == (each.state, each.epoch, each.attempts)
            else:
                assert record.job is not None
                job, worker = record.job, record.worker
                now = (job.state, job.epoch, job.attempts, job.starts, job.fence, worker)
                state = each.state if job.state not in WAITING or each.due_at > self.clock.now() else job.state
                assert now == (state, each.epoch, each.attempts, each.starts, each.fence, each.worker)
                assert (job.state in WAITING) == (each.state in WAITING)

    @invariant()
    def depths_are_as_expected(self) -> None:
        """What is counted is what is there."""
        for queue in QUEUES:
            depth = self.runner.run(depth_of(self.store, queue))
            here = [each.state for each in self.known.values() if each.job.queue == queue]
            assert depth.scheduled + depth.ready == sum(state in WAITING for state in here)
            assert (depth.leased, depth.dead) == (here.count(State.LEASED), here.count(State.DEAD))

    @invariant()
    def letters_are_as_expected(self) -> None:
        """The dead, and only they, have an open letter."""
        for group in GROUPS:
            dead = sorted(each.job.id for each in self._in(State.DEAD) if each.group == group)
            assert self.runner.run(open_in(self.store, group)) == dead

    @invariant()
    def everything_adds_up(self) -> None:
        """Nothing is lost or doubled, no row contradicts another, every seal holds."""
        proof = self.runner.run(self.store.journal.prove())
        assert (proof.off, proof.flaws, proof.trail.broken) == ([], [], None)

    # --- the reference ------------------------------------------------------------------------------------------------

    def _add(self, job: Job) -> Added:
        return self.runner.run(self.store.jobs.add([job]))[0]

    def _in(self, *states: State) -> list[Expected]:
        return [each for each in self.known.values() if each.state in states]

    def _holder(self, key: str | None) -> Expected | None:
        def holds(each: Expected) -> bool:
            over = each.state is State.DONE and each.ended_at + DAY <= self.clock.now()
            return each.job.key == key and each.state is not State.DISCARDED and not over

        return next((each for each in self.known.values() if key is not None and holds(each)), None)

    def _held(self, lease: Job) -> Expected | None:
        each = self.known.get(lease.id)
        return each if each and each.state is State.LEASED and each.fence == lease.fence else None

    def _is_over(self, each: Expected) -> bool:
        return each.deadline <= self.clock.steady()

    def _lease(self, each: Expected, job: Job) -> None:
        assert job.fence > each.fence
        assert job.starts == each.starts
        each.fence, each.deadline = job.fence, self.clock.steady() + LEASE

    def _fail(self, each: Expected) -> None:
        self.failures += 1
        each.attempts += 1
        each.failures += 1
        each.failed_as = self.failures

    def _pending(self, driven: Driven) -> set[str]:
        return {item.id for item in self.runner.run(self.store.redrives.items(driven.id, ["pending"]))}

    def _is_free_in(self, each: Expected | None, epoch: int) -> bool:
        dead = each is not None and each.state is State.DEAD and each.epoch == epoch
        return dead and each is not None and each.review is None

    def _back(self, each: Expected, at: int) -> None:
        each.state = State.SCHEDULED if at > self.clock.now() else State.READY
        each.due_at, each.worker = at, None

    def _end(self, each: Expected, state: State) -> None:
        each.state, each.worker, each.ended_at = state, None, self.clock.now()

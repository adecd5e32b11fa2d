"""Jobs and the gates before them in memory."""

import heapq
from collections.abc import Iterator, Sequence

import msgspec

from redrive.errors import UsageError
from redrive.job import Job, State
from redrive.letter import LetterState
from redrive.store import (
    Accepted,
    Added,
    AnySettlement,
    Depth,
    Existing,
    Gate,
    JobQuery,
    Lease,
    Listed,
    Orphan,
    Record,
    Refused,
    Success,
    Turn,
    Want,
)
from redrive.stores.memory.claiming import claim, next_due
from redrive.stores.memory.disposing import end_letter
from redrive.stores.memory.letters import forget_letters
from redrive.stores.memory.reading import listed, matches, record_of
from redrive.stores.memory.reaping import lease_ends, reap
from redrive.stores.memory.redriven import tell_redrive
from redrive.stores.memory.retaining import forget_entries, forget_redrives
from redrive.stores.memory.rows import WAITING, Memory, Row
from redrive.stores.memory.settling import settle_one


class MemoryJobs:
    """Jobs and the gates before them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def add(self, jobs: Sequence[Job]) -> list[Added]:
        """Make these jobs durable, each once; answers in order."""
        for job in jobs:
            _refuse_unwritable(job)
        with self._rows.lock:
            answers = [self._add(job) for job in jobs]
            if any(isinstance(answer, Accepted) for answer in answers):
                self._rows.wake()
            return answers

    async def claim(self, want: Want) -> list[Job]:
        """Lease the first in line: priority descending, due_at, id."""
        with self._rows.lock:
            return claim(self._memory, want)

    async def settle(self, settlements: Sequence[AnySettlement]) -> frozenset[str]:
        """End leases; the ids whose lease was no longer held come back and are unchanged."""
        with self._rows.lock:
            return self._settle(settlements)

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        """Settle and claim the next in one round trip."""
        with self._rows.lock:
            late = self._settle(settlements)
            jobs = claim(self._memory, want) if want else []
            return Turn(late, jobs, next_due(self._memory, want.queues if want else None))

    async def extend(self, leases: Sequence[Lease], lease: int) -> frozenset[str]:
        """Keep these leases for `lease` microseconds from now; the ids no longer held come back."""
        deadline = self._memory.clock.steady() + lease
        lost = set()
        with self._rows.lock:
            for each in leases:
                row = self._memory.held(each.id, each.fence)
                if row is None:
                    lost.add(each.id)
                else:
                    row.deadline, row.boot = deadline, self._memory.boot
        return frozenset(lost)

    async def lease_ends(self) -> int | None:
        """In how many microseconds the first lease ends; none is left where it has, None when nobody holds one."""
        with self._rows.lock:
            return lease_ends(self._memory)

    async def reap(self, reaper: str, gone: Sequence[str], limit: int, lease: int) -> list[Orphan]:
        """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
        with self._rows.lock:
            return reap(self._memory, reaper, frozenset(gone), limit, lease)

    async def cancel(self, ids: Sequence[str], actor: str) -> list[str]:
        """Discard jobs that have not ended, with reason `cancelled`; a leased one loses its lease. Answers who was."""
        with self._rows.lock:
            alive = [row for row in self._memory.known(ids) if row.job.state in (*WAITING, State.LEASED)]
            for row in alive:
                self._discard(row, "cancelled", actor)
            return [row.job.id for row in alive]

    async def depth(self, queues: Sequence[str] | None = None) -> list[Depth]:
        """How deep the queues are; all of them for None."""
        with self._rows.lock:
            known = sorted({queue for (queue, _), n in self._rows.depths.items() if n})
            return [self._depth(queue) for queue in (known if queues is None else queues)]

    async def gate(self, gate: Gate, actor: str) -> Gate:
        """Set a gate; answers what is in force."""
        with self._rows.lock:
            gate = msgspec.structs.replace(gate, changed_at=self._memory.clock.now(), actor=actor)
            self._rows.gates[gate.kind, gate.key] = gate
            queue = gate.key if gate.kind == "queue" else None
            self._memory.note("gate.set", actor=actor, reason=gate.reason, queue=queue, text=_spoken(gate))
            self._rows.wake()
            return gate

    async def gates(self) -> list[Gate]:
        """Every gate that was ever set."""
        with self._rows.lock:
            return [gate for _, gate in sorted(self._rows.gates.items())]

    async def move(self, queue: str, to: str, actor: str, limit: int) -> int:
        """Move up to `limit` waiting jobs to another queue; answers how many."""
        with self._rows.lock:
            rows = self._waiting_in(queue, limit)
            for row in rows:
                self._memory.count(row.job, "moved_out")
                self._memory.count(self._rows.change(row, queue=to), "moved_in")
            if rows:
                self._memory.note("queue.moved", actor=actor, queue=queue, text=f"{len(rows)} jobs to {to}")
                self._rows.wake()
            return len(rows)

    async def purge(self, queue: str, actor: str, limit: int) -> int:
        """Discard up to `limit` waiting jobs of a queue with reason `purged`; answers how many."""
        with self._rows.lock:
            rows = self._waiting_in(queue, limit)
            for row in rows:
                self._discard(row, "purged", actor)
                self._memory.count(row.job, "purged")
            return len(rows)

    async def get(self, id: str) -> Record | None:
        """Everything about one job."""
        with self._rows.lock:
            row = self._rows.jobs.get(id)
            return record_of(row, self._memory) if row else None

    async def resolve(self, suffix: str, limit: int = 3) -> list[str]:
        """The ids that end like this, at most `limit`."""
        with self._rows.lock:
            end = suffix.replace("-", "").lower()
            return [each for each in self._rows.jobs if each.replace("-", "").endswith(end)][:limit]

    async def successes(self, task: str) -> list[Success]:
        """A few successes of a task, chosen by chance among the last ones."""
        with self._rows.lock:
            return [success for _, success in sorted(self._rows.successes.get(task, {}).items())]

    async def find(self, query: JobQuery) -> list[Listed]:
        """A page of jobs, newest first."""
        with self._rows.lock:
            found = (row for row in self._rows.jobs.values() if matches(row.job, query))
            return [listed(row) for row in heapq.nlargest(query.limit, found, key=lambda row: row.job.id)]

    async def prune(self, limit: int) -> int:
        """Forget finished and discarded rows whose time is over; answers how many."""
        with self._rows.lock:
            over = [row.job.id for row in self._rows.jobs.values() if self._is_over(row)][:limit]
            for each in over:
                self._rows.forget(each)
            self._memory.forget_successes()
            gone = len(over) + forget_letters(self._memory, limit - len(over))
            gone += forget_redrives(self._memory, limit - gone)
            return gone + forget_entries(self._memory, limit - gone)

    # --- the steps, under the lock ----------------------------------------------------------------------------------

    def _add(self, job: Job) -> Added:
        if job.id in self._rows.tombstones:
            return Existing(job.id, "purged")
        before = self._holder(job)
        if before is not None:
            return Existing(before.job.id, before.job.state)
        limit = self._limit_of(job.queue)
        if limit is not None and sum(self._rows.depths[job.queue, state] for state in WAITING) >= limit:
            self._memory.count(job, "refused")
            return Refused(f"queue {job.queue} is at its depth limit of {limit:,}")
        now = self._memory.clock.now()
        due_at = job.due_at or now
        job = msgspec.structs.replace(
            job,
            state=State.SCHEDULED if due_at > now else State.READY,
            due_at=due_at,
            created_at=job.created_at or now,
            epoch_at=job.epoch_at or now,
        )
        self._rows.insert(job)
        self._memory.count(job, "enqueued")
        self._memory.record_happy("job.enqueued", job)
        return Accepted(job.id)

    def _holder(self, job: Job) -> Row | None:
        """The job that has this id, or whose idempotency key still counts."""
        return self._rows.jobs.get(job.id) or self._memory.key_holder(job)

    def _limit_of(self, queue: str) -> int | None:
        gate = self._rows.gates.get(("queue", queue))
        return gate.depth_limit if gate else None

    def _settle(self, settlements: Sequence[AnySettlement]) -> frozenset[str]:
        return frozenset(each.job.id for each in settlements if not settle_one(self._memory, each))

    def _discard(self, row: Row, reason: str, actor: str) -> None:
        self._memory.discard(row, reason, actor=actor)
        end_letter(self._memory, row.job.id, LetterState.DISCARDED)
        tell_redrive(self._memory, row.job, "discarded", reason)

    def _waiting_in(self, queue: str, limit: int) -> list[Row]:
        rows = (row for row in self._all_waiting() if row.job.queue == queue)
        return heapq.nsmallest(limit, rows, key=lambda row: (-row.job.priority, row.job.due_at, row.job.id))

    def _all_waiting(self) -> Iterator[Row]:
        return (self._rows.jobs[each] for each in self._rows.waiting)

    def _depth(self, queue: str) -> Depth:
        depths = self._rows.depths
        ready = (row.job for row in self._all_waiting() if row.job.queue == queue and _is_ready(row))
        first = min(ready, default=None, key=lambda job: (-job.priority, job.due_at, job.id))
        return Depth(
            queue=queue,
            scheduled=depths[queue, State.SCHEDULED],
            ready=depths[queue, State.READY],
            leased=depths[queue, State.LEASED],
            dead=depths[queue, State.DEAD],
            oldest_ready=first.due_at if first else None,
        )

    def _is_over(self, row: Row) -> bool:
        settings = self._memory.settings
        if row.job.state is State.DONE:
            return self._memory.past(row, settings.keeps_done(row.job.queue))
        return row.job.state is State.DISCARDED and self._memory.past(row, settings.keeps_closed(row.job.queue))


def _refuse_unwritable(job: Job) -> None:
    """What no file could hold is refused here too, so that a test finds it."""
    for name, value in msgspec.structs.asdict(job).items():
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and not _is_writable(text) for text in texts):
            raise UsageError(f"the {name} {value!r} holds half a surrogate pair and cannot be stored; clean it first")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise UsageError(f"the {name} of {value.bit_length()} bits cannot be stored; 64 is the most")


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_ready(row: Row) -> bool:
    return row.job.state is State.READY


def _spoken(gate: Gate) -> str:
    limit = f", depth limit {gate.depth_limit:,}" if gate.depth_limit is not None else ""
    return f"{gate.kind} {gate.key} {gate.state}{limit}"

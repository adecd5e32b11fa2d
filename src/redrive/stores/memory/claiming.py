"""Claiming in memory: who is first in line, and what holds a job back."""

import heapq
from collections import Counter
from collections.abc import Mapping

from redrive.job import ENCODING_JSON, WIRE_VERSION, Job, State
from redrive.letter import LetterState
from redrive.store import Want
from redrive.stores.memory.disposing import end_letter
from redrive.stores.memory.redriven import tell_redrive
from redrive.stores.memory.rows import Memory, Row


def claim(memory: Memory, want: Want) -> list[Job]:
    """Lease the first in line: priority descending, due_at, id."""
    now = memory.clock.now()
    line = [(-row.job.priority, row.job.due_at, row.job.id) for row in _due(memory, want, now)]
    heapq.heapify(line)
    taken: list[Job] = []
    slots = Counter(want.queues or {})
    while line and len(taken) < want.limit:
        row = memory.rows.jobs[heapq.heappop(line)[2]]
        if want.queues is not None and slots[row.job.queue] <= 0:
            continue
        if row.job.expires is not None and row.job.expires <= now:
            memory.discard(row, "expired")
            end_letter(memory, row.job.id, LetterState.DISCARDED)
            tell_redrive(memory, row.job, "discarded", "expired")
            continue
        slots[row.job.queue] -= 1
        taken.append(_lease(memory, row, want))
    return taken


def next_due(memory: Memory, queues: Mapping[str, int] | None) -> int | None:
    """When the next job of these queues becomes due, if one waits for its time."""
    now = memory.clock.now()
    waiting = (memory.rows.jobs[each].job for each in memory.rows.waiting)
    return min(
        (job.due_at for job in waiting if job.due_at > now and (queues is None or job.queue in queues)), default=None
    )


def _due(memory: Memory, want: Want, now: int) -> list[Row]:
    closed = {place for place, gate in memory.rows.gates.items() if gate.state == "closed" and _lasts(gate.until, now)}
    rows = (memory.rows.jobs[each] for each in memory.rows.waiting)
    return [row for row in rows if row.job.due_at <= now and _wanted(row.job, want) and not _barred(row.job, closed)]


def _lasts(until: int | None, now: int) -> bool:
    return until is None or until > now


def _wanted(job: Job, want: Want) -> bool:
    if job.task in want.without or (job.suspect and not want.suspects) or not _readable(job):
        return False
    return want.queues is None or want.queues.get(job.queue, 0) > 0


def _readable(job: Job) -> bool:
    return job.wire_version <= WIRE_VERSION and job.encoding == ENCODING_JSON


def _barred(job: Job, closed: set[tuple[str, str]]) -> bool:
    places = [("queue", job.queue), ("task", job.task), *(("dependency", need) for need in job.needs)]
    return not closed.isdisjoint(places)


def _lease(memory: Memory, row: Row, want: Want) -> Job:
    job = memory.rows.change(row, state=State.LEASED, starts=row.job.starts + 1, fence=row.job.fence + 1)
    row.company = False
    row.worker, row.boot, row.deadline = want.worker, memory.boot, memory.clock.steady() + want.lease
    memory.count(job, "started")
    memory.record_happy("job.started", job, worker=want.worker)
    return job

"""What each settlement does to the rows in memory."""

from functools import singledispatch
from typing import Literal

import msgspec

from redrive.job import State
from redrive.letter import Failure, LetterState
from redrive.store import (
    AnySettlement,
    Buried,
    Discarded,
    Done,
    Finished,
    Released,
    Retried,
    Settlement,
    Snoozed,
    lasted,
)
from redrive.stores.memory.disposing import end_letter
from redrive.stores.memory.letters import put_letter
from redrive.stores.memory.redriven import tell_redrive
from redrive.stores.memory.rows import Memory, Row


def settle_one(memory: Memory, settlement: AnySettlement) -> bool:
    """End one lease; False, and nothing changed, when it is no longer held."""
    row = memory.held(settlement.job.id, settlement.job.fence)
    if row is None:
        return False
    if not (isinstance(settlement, Released) and settlement.unknown_task):
        row.unknown_since = None
    if settlement.ran:
        memory.count(row.job, lasted(settlement.duration))
    _apply(settlement, memory, row)
    return True


@singledispatch
def _apply(settlement: Settlement, memory: Memory, row: Row) -> None:
    raise TypeError(f"{type(settlement).__name__} is not a settlement this store knows")


@_apply.register
def _done(settlement: Done, memory: Memory, row: Row) -> None:
    job, worker = row.job, row.worker
    memory.sample(job, worker)
    row.finished = Finished(
        id=job.id,
        task=job.task,
        queue=job.queue,
        ended_at=memory.clock.now(),
        attempts=job.attempts + 1,
        epoch=job.epoch,
        key=job.key,
        result=settlement.result,
        duration=settlement.duration,
    )
    job = memory.rows.change(row, state=State.DONE, attempts=job.attempts + 1, payload=b"")
    row.ended_at = row.finished.ended_at
    end_letter(memory, job.id, LetterState.CLOSED)
    tell_redrive(memory, job, "succeeded")
    memory.count(job, "done", *(["done_on_retry"] if job.attempts > 1 else []))
    memory.record_happy("job.succeeded", job, worker=worker)


@_apply.register
def _retried(settlement: Retried, memory: Memory, row: Row) -> None:
    worker = row.worker
    _fail(memory, row, settlement, settlement.failure)
    job = memory.wait_for_turn(row, settlement.at, suspect=settlement.suspect)
    memory.count(job, "retried", f"retried_{job.attempts}")
    _record_failure(memory, "job.retried", row, settlement.failure, worker)


@_apply.register
def _buried(settlement: Buried, memory: Memory, row: Row) -> None:
    worker = row.worker
    _fail(memory, row, settlement, settlement.failure)
    job = memory.rows.change(row, state=State.DEAD, suspect=0)
    row.ended_at, row.end_reason = memory.clock.now(), settlement.failure.reason
    put_letter(memory, row)
    memory.count(job, "buried")
    _record_failure(memory, "job.buried", row, settlement.failure, worker)


@_apply.register
def _snoozed(settlement: Snoozed, memory: Memory, row: Row) -> None:
    worker = row.worker
    job = memory.wait_for_turn(row, settlement.until, suspect=0)
    memory.count(job, "snoozed")
    memory.record("job.snoozed", job, worker=worker, text=settlement.why)


@_apply.register
def _discarded(settlement: Discarded, memory: Memory, row: Row) -> None:
    memory.discard(row, settlement.reason, text=settlement.why)
    end_letter(memory, row.job.id, LetterState.DISCARDED)
    tell_redrive(memory, row.job, "discarded", settlement.reason)


@_apply.register
def _released(settlement: Released, memory: Memory, row: Row) -> None:
    worker = row.worker
    if settlement.unknown_task and row.unknown_since is None:
        row.unknown_since = memory.clock.now()
    job = memory.wait_for_turn(row, settlement.at, suspect=settlement.suspect)
    memory.count(job, "released")
    memory.record("job.released", job, worker=worker, text=settlement.why)


def _fail(memory: Memory, row: Row, ending: Retried | Buried, failure: Failure) -> None:
    job = row.job
    row.failures.append(failure)
    row.job = msgspec.structs.replace(
        job,
        attempts=job.attempts + ending.spend,
        crashes=job.crashes + ending.crashed,
        losses=job.losses + ending.lost,
    )
    how: Literal["buried", "retried"] = "buried" if isinstance(ending, Buried) else "retried"
    tell_redrive(memory, job, how, failure.fingerprint, failure.plain)
    memory.count(job, "failed", *(["crashed"] if ending.crashed else []), *(["lost"] if ending.lost else []))


def _record_failure(memory: Memory, event: str, row: Row, failure: Failure, worker: str | None) -> None:
    memory.record(event, row.job, reason=failure.reason, worker=worker, text=failure.message)

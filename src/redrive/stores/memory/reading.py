"""What people read of a job in memory."""

from redrive.job import Job
from redrive.store import JobQuery, Listed, Record
from redrive.stores.memory.rows import Memory, Row


def record_of(row: Row, memory: Memory) -> Record:
    """Everything the store knows of one job."""
    return Record(
        job=None if row.finished else row.job,
        finished=row.finished,
        failures=tuple(row.failures),
        worker=row.worker,
        lease_left=row.deadline - memory.clock.steady() if row.worker else None,
        unknown_since=row.unknown_since,
        ended_at=row.ended_at,
        end_reason=row.end_reason,
    )


def listed(row: Row) -> Listed:
    """One line of a listing."""
    job = row.job
    return Listed(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        priority=job.priority,
        attempts=job.attempts,
        epoch=job.epoch,
        at=row.ended_at or job.due_at,
        error=row.failures[-1].message if row.failures else None,
    )


def matches(job: Job, query: JobQuery) -> bool:
    """Whether a listing shows this job."""
    return (
        (not query.states or job.state in query.states)
        and query.queue in (None, job.queue)
        and query.task in (None, job.task)
        and (query.before is None or job.id < query.before)
    )

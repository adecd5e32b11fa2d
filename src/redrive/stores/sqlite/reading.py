"""What people read: one job, a page of them, how deep the queues are."""

from collections import defaultdict
from collections.abc import Sequence
from heapq import nlargest
from operator import itemgetter

from redrive.job import State
from redrive.store import Depth, Finished, Gate, JobQuery, Listed, Record
from redrive.stores.sqlite.transaction import Snapshot
from redrive.stores.sqlite.values import Row, failure_of, ids_of, job_of, packed, spelled, unpacked_or_none

LAST_ID = b"\xff" * 16
RARE = 20
_HEX = frozenset("0123456789abcdef")


def record(snapshot: Snapshot, id: str) -> Record | None:
    """Everything about one job."""
    blob = unpacked_or_none(id)
    if blob is None:
        return None
    row = snapshot.first("job", blob)
    finished = None if row else _finished(snapshot, blob)
    if row is None and finished is None:
        return None
    failures = tuple(failure_of(each) for each in snapshot.all("failures_of", blob))
    if row is None:
        return Record(finished=finished, failures=failures)
    worker, until, boot, unknown_since, ended_at, end_reason = row[31:]
    return Record(
        job=job_of(row),
        failures=failures,
        worker=worker,
        lease_left=(until - snapshot.steady if boot == snapshot.boot else 0) if worker else None,
        unknown_since=unknown_since,
        ended_at=ended_at,
        end_reason=end_reason,
    )


def _finished(snapshot: Snapshot, id: bytes) -> Finished | None:
    row = snapshot.first("done", id)
    if row is None:
        return None
    task, queue, ended_at, attempts, epoch, key, result, duration = row
    return Finished(
        id=spelled(id),
        task=task,
        queue=queue,
        ended_at=ended_at,
        attempts=attempts,
        epoch=epoch,
        key=key,
        result=result,
        duration=duration,
    )


def resolve(snapshot: Snapshot, suffix: str, limit: int) -> list[str]:
    """The ids that end like this, at most `limit`."""
    digits = suffix.replace("-", "").lower()
    if not set(digits) <= _HEX:
        return []
    if len(digits) == 32:
        return [spelled(row[0]) for row in snapshot.all("known_ids", ids_of([digits])) if row[1] != "purged"]
    return [spelled(row[0]) for row in snapshot.all("resolve", f"%{digits.upper()}", limit)]


def find(snapshot: Snapshot, query: JobQuery) -> list[Listed]:
    """A page of jobs, newest first."""
    before = packed(query.before) if query.before else LAST_ID
    asked = (before, query.queue, query.task, query.limit)
    states = dict.fromkeys(query.states or State)
    rows = [row for state in states for row in snapshot.all(_finding(snapshot, state), *asked)]
    return [_line(row) for row in nlargest(query.limit, rows, key=itemgetter(0))]


def _finding(snapshot: Snapshot, state: State) -> str:
    """The statement that finds a page; where few of many jobs are ready, those are gone through instead of all."""
    if state is not State.READY:
        return f"find_{state}"
    [(ready, jobs)] = snapshot.all("share_of_ready")
    return "find_rare_ready" if ready < jobs // RARE else "find_ready"


def _line(row: Row) -> Listed:
    id, task, queue, state, priority, attempts, epoch, at, error = row
    return Listed(
        id=spelled(id),
        task=task,
        queue=queue,
        state=State(state),
        priority=priority,
        attempts=attempts,
        epoch=epoch,
        at=at,
        error=error,
    )


def depth(snapshot: Snapshot, queues: Sequence[str] | None) -> list[Depth]:
    """How deep the queues are; all of them for None."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for queue, state, n in snapshot.all("depths"):
        found[queue][state] = n
    return [_depth(snapshot, queue, found.get(queue, {})) for queue in (found if queues is None else queues)]


def _depth(snapshot: Snapshot, queue: str, counts: dict[str, int]) -> Depth:
    oldest = snapshot.first("oldest_ready", queue)
    return Depth(
        queue=queue,
        scheduled=counts.get(State.SCHEDULED, 0),
        ready=counts.get(State.READY, 0),
        leased=counts.get(State.LEASED, 0),
        dead=counts.get(State.DEAD, 0),
        oldest_ready=oldest[0] if oldest else None,
    )


def gates(snapshot: Snapshot) -> list[Gate]:
    """Every gate that was ever set."""
    return [
        Gate(kind=row[0], key=row[1], state=row[2], reason=row[3], until=row[4], depth_limit=row[5], changed_at=row[6],
             actor=row[7])
        for row in snapshot.all("gates")
    ]  # fmt: skip

"""Adding: each id and each key once, and nothing beyond a queue's depth limit."""

from collections import Counter
from collections.abc import Sequence

from redrive.clock import SECOND
from redrive.job import Job, State
from redrive.store import Accepted, Added, Existing, Refused
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import Row, blobs_of, job_row, packed, spelled

SOON = 2 * SECOND
"""Who rests is told of jobs that become due before it would look by itself."""


def add(tx: Transaction, jobs: Sequence[Job]) -> list[Added]:
    """Make these jobs durable, each once; answers in order."""
    ids = [packed(job.id) for job in jobs]
    batch = _Batch(tx, {row[0]: row[1] for row in tx.all("known_ids", blobs_of(ids))})
    answers = [batch.add(job, id) for job, id in zip(jobs, ids, strict=True)]
    tx.many("add_job", batch.rows)
    tx.points.add("enqueue.committed")
    return answers


class _Batch:
    """What a batch has come to so far: later jobs in it see the earlier ones."""

    def __init__(self, tx: Transaction, known: dict[bytes, str]) -> None:
        self.rows: list[Row] = []
        self._tx = tx
        self._known = known
        self._keys: dict[str, Existing] = {}
        self._limits: dict[str, int] = dict(tx.all("depth_limits"))
        self._waiting: Counter[str] = Counter()
        for queue in self._limits:
            [self._waiting[queue]] = tx.first("waiting_of", queue) or (0,)

    def add(self, job: Job, id: bytes) -> Added:
        before = self._holder(job, id)
        if before is not None:
            return before
        limit = self._limits.get(job.queue)
        if limit is not None and self._waiting[job.queue] >= limit:
            self._tx.count(job.queue, job.task, job.priority, None, "refused")
            return Refused(f"queue {job.queue} is at its depth limit of {limit:,}")
        return self._accepted(job, id)

    def _holder(self, job: Job, id: bytes) -> Existing | None:
        """The job that has this id, or whose idempotency key still counts."""
        state = self._known.get(id)
        if state is not None:
            return _existing(id, state)
        if job.key is None:
            return None
        if job.key in self._keys:
            return self._keys[job.key]
        row = self._tx.first("key_holder", job.key, self._tx.now - self._tx.settings.key_lifetime)
        return _existing(*row) if row else None

    def _accepted(self, job: Job, id: bytes) -> Accepted:
        tx = self._tx
        due_at = job.due_at or tx.now
        state = State.SCHEDULED if due_at > tx.now else State.READY
        self.rows.append(job_row(job, state, due_at, tx.now, id))
        self._known[id] = state
        self._waiting[job.queue] += 1
        if job.key is not None:
            self._keys[job.key] = Existing(job.id, state)
        tx.count(job.queue, job.task, job.priority, None, "enqueued")
        tx.shift(job.queue, None, state)
        tx.wakes |= due_at - tx.now < SOON
        if tx.all_events:
            tx.journal("job.enqueued", (id, job.task, job.queue, job.epoch, job.attempts))
        return Accepted(job.id)


def _existing(id: bytes, state: str) -> Existing:
    return Existing(spelled(id), "purged" if state == "purged" else State(state))

"""The successes that are kept for comparison with failures."""

from redrive.job import Job
from redrive.sampling import PAYLOAD_LIMIT
from redrive.store import Success
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row


def keep(tx: Transaction, job: Job, worker: str) -> None:
    """Keep a success that chance has chosen; nearly all pass."""
    place, seen = tx.sampler.place(job.task, lambda: tx.all("successes_seen", job.task)[0][0])
    payload = job.payload if len(job.payload) <= PAYLOAD_LIMIT else None
    tx.run("put_success", job.task, place, seen, tx.now, worker, len(job.payload), payload)


def successes(snapshot: Snapshot, task: str) -> list[Success]:
    """Those that are kept of a task."""
    return [_success(row) for row in snapshot.all("successes_of", task)]


def _success(row: Row) -> Success:
    at, host, release, size, payload = row
    return Success(at=at, host=host, release=release, size=size, payload=payload)

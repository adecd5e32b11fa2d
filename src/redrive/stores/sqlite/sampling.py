"""The successes that are kept for comparison with failures.

They are written together, once a second at the most: one that a killed process takes along is missed by nobody.
"""

from redrive.clock import SECOND
from redrive.job import Job
from redrive.sampling import PAYLOAD_LIMIT
from redrive.store import Success
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row

REST = SECOND


def keep(tx: Transaction, job: Job, worker: str) -> None:
    """Keep a success that chance has chosen; nearly all pass."""
    place, seen = tx.sampler.place(job.task, lambda: tx.all("successes_seen", job.task)[0][0])
    payload = job.payload if len(job.payload) <= PAYLOAD_LIMIT else None
    tx.sampler.unwritten[job.task, place] = (job.task, place, seen, tx.now, worker, len(job.payload), payload)
    if tx.steady - tx.sampler.written_at >= REST:
        write(tx)


def write(tx: Transaction) -> None:
    """Write what is kept and not written yet, also when a worker leaves and when somebody asks."""
    kept, tx.sampler.unwritten = tx.sampler.unwritten, {}
    tx.many("put_success", list(kept.values()))
    tx.sampler.written_at = tx.steady


def successes(snapshot: Snapshot, task: str) -> list[Success]:
    """Those that are kept of a task."""
    return [_success(row) for row in snapshot.all("successes_of", task)]


def _success(row: Row) -> Success:
    at, host, release, size, payload = row
    return Success(at=at, host=host, release=release, size=size, payload=payload)

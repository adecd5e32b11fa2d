"""Claiming, leases and taking them over."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from redrive.job import Job, State
from redrive.store import Lease, Orphan, Want
from redrive.stores.sqlite.ending import discard
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, ids_of, job_of, names_in, numbers_of, packed, unpacked_or_none

PROMOTED = 2_000
EXPIRED_ROUNDS = 10

Why = Literal["worker gone", "lease ended", "other boot"]


def claim(tx: Transaction, want: Want) -> list[Job]:
    """Lease the first in line: priority descending, due_at, id."""
    if want.limit <= 0:
        return []
    gates = _Gates(tx, want)
    queues = _open_queues(tx, want, gates)
    for _ in range(EXPIRED_ROUNDS):
        line = _line(tx, want, gates, queues)
        expired = [row for row in line if row[5] is not None and row[5] <= tx.now]
        if not expired:
            break
        _expire(tx, expired)
    return _lease(tx, want, [row for row in line if row not in expired]) if line else []


class _Gates:
    """What holds claims back now."""

    def __init__(self, tx: Transaction, want: Want) -> None:
        closed = tx.all("closed_gates", tx.now)
        self.queues = {key for kind, key, _ in closed if kind == "queue"}
        self._tasks = {*want.without, *(key for kind, key, _ in closed if kind == "task")}
        self._needs = {key for kind, key, _ in closed if kind == "dependency"}
        self._suspects = want.suspects

    def first(self, tx: Transaction, queue: str, limit: int) -> list[Row]:
        """The first of a queue that nothing holds back; those held back are passed by, not walked through."""
        if not self._tasks and not self._needs:
            return tx.all("line", queue, limit, self._suspects)
        lanes = [lane for lane in tx.all("lanes", queue) if self._lets_pass(*lane)]
        rows = [row for lane in lanes for row in tx.all("line_of_lane", queue, limit, self._suspects, *lane)]
        return sorted(rows, key=_place)[:limit]

    def _lets_pass(self, task: str, needs: str) -> bool:
        return task not in self._tasks and self._needs.isdisjoint(names_in(needs))


def _place(row: Row) -> tuple[int, int, bytes]:
    """Where a row stands in line."""
    return (-row[0], row[1], row[2])


def _open_queues(tx: Transaction, want: Want, gates: _Gates) -> dict[str, int]:
    """The queues to look into, with how many each may give; what has become due in them is ready now."""
    queues: dict[str, int] = {}
    for queue, states in tx.waiting().items():
        slots = want.limit if want.queues is None else want.queues.get(queue, 0)
        if slots > 0 and queue not in gates.queues:
            queues[queue] = min(slots, want.limit)
            if State.SCHEDULED in states:
                _promote(tx, queue)
    return queues


def _promote(tx: Transaction, queue: str) -> None:
    tx.run("promote", queue, tx.now, PROMOTED)
    tx.shift(queue, State.SCHEDULED, State.READY, tx.db.changes())


def _line(tx: Transaction, want: Want, gates: _Gates, queues: Mapping[str, int]) -> list[Row]:
    rows = [row for queue, slots in queues.items() for row in gates.first(tx, queue, slots)]
    if len(queues) > 1:
        rows.sort(key=_place)
    return rows[: want.limit]


def _expire(tx: Transaction, rows: Sequence[Row]) -> None:
    for about in tx.all("abouts", numbers_of(row[3] for row in rows)):
        discard(tx, about, "expired")


def _lease(tx: Transaction, want: Want, line: Sequence[Row]) -> list[Job]:
    seqs = numbers_of(row[3] for row in line)
    tx.run("lease", seqs, want.worker, tx.steady + want.lease, tx.boot)
    leased = {row[0]: row for row in tx.all("leased", seqs)}
    jobs = [job_of(leased[row[3]]) for row in line]
    for (queue, task, priority), n in Counter((job.queue, job.task, job.priority) for job in jobs).items():
        tx.count(queue, task, priority, want.worker, "started", n)
        tx.shift(queue, State.READY, State.LEASED, n)
    if tx.all_events:
        for job in jobs:
            tx.journal(
                "job.started", (packed(job.id), job.task, job.queue, job.epoch, job.attempts), worker=want.worker
            )
    if jobs:
        tx.points.add("claim.committed")
    return jobs


def next_due(tx: Transaction, queues: Mapping[str, int] | None) -> int | None:
    """When the next job of these queues becomes due, if one waits for its time."""
    waiting = (queue for queue, states in tx.waiting().items() if State.SCHEDULED in states)
    dues = [tx.first("next_due", queue) for queue in waiting if queues is None or queue in queues]
    return min((row[0] for row in dues if row is not None and row[0] is not None), default=None)


# leases -------------------------------------------------------------------------------------------------------------


def extend(tx: Transaction, leases: Sequence[Lease], lease: int) -> frozenset[str]:
    """Keep these leases for `lease` microseconds from now; the ids no longer held come back."""
    held = {row[0]: row for row in tx.all("held", ids_of(each.id for each in leases))}
    kept = {
        each.id: row[2]
        for each in leases
        if (row := held.get(unpacked_or_none(each.id) or b"")) is not None and row[1] == each.fence
    }
    tx.run("extend", numbers_of(kept.values()), tx.steady + lease, tx.boot)
    return frozenset(each.id for each in leases) - kept.keys()


def lease_ends(snapshot: Snapshot) -> int | None:
    """In how many microseconds the first lease ends; none is left where it has."""
    [(first,)] = snapshot.all("first_lease_end", snapshot.boot)
    return None if first is None else max(0, first - snapshot.steady)


def reap(tx: Transaction, reaper: str, gone: Sequence[str], limit: int, lease: int) -> list[Orphan]:
    """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
    rows = tx.all("leases")
    held = Counter(worker for _, worker, _, _ in rows)
    over: dict[int, tuple[Why, str]] = {}
    for seq, worker, until, boot in rows:
        why = _why(tx, worker, until, boot, frozenset(gone))
        if why is not None:
            over[seq] = (why, worker)
    if not over:
        return []
    tx.run("mark_company", numbers_of(seq for seq, (_, worker) in over.items() if held[worker] > 1))
    return _take(tx, {seq: over[seq] for seq in sorted(over)[:limit]}, reaper, lease)


def _why(tx: Transaction, worker: str, until: int, boot: str, gone: frozenset[str]) -> Why | None:
    if worker in gone:
        return "worker gone"
    if boot != tx.boot:
        return "other boot"
    return "lease ended" if until <= tx.steady else None


def _take(tx: Transaction, over: Mapping[int, tuple[Why, str]], reaper: str, lease: int) -> list[Orphan]:
    companions = {row[0] for row in tx.all("companions", numbers_of(over))}
    orphans = []
    for row in tx.all("take_over", numbers_of(over), reaper, tx.steady + lease, tx.boot):
        job, (why, holder) = job_of(row), over[row[0]]
        about = (row[1], job.task, job.queue, job.epoch, job.attempts)
        tx.journal("job.orphaned", about, worker=holder, text=why)
        orphans.append(Orphan(job, holder, why, alone=row[0] not in companions))
    tx.points.add("reap.committed")
    return sorted(orphans, key=lambda orphan: orphan.job.id)

"""Taking over leases in memory."""

from collections import Counter
from typing import Literal

from redrive.store import Orphan
from redrive.stores.memory.rows import Memory, Row


def lease_ends(memory: Memory) -> int | None:
    """In how many microseconds the first lease ends; a lease of another boot has."""
    rows = [memory.rows.jobs[each] for each in memory.rows.leased]
    now = memory.clock.steady()
    return min((max(0, row.deadline - now) if row.boot == memory.boot else 0 for row in rows), default=None)


def reap(memory: Memory, reaper: str, gone: frozenset[str], limit: int, lease: int) -> list[Orphan]:
    """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
    rows = [memory.rows.jobs[each] for each in sorted(memory.rows.leased)]
    held = Counter(row.worker for row in rows)
    over = [(row, why) for row in rows if (why := _why(memory, row, gone)) is not None]
    for row, _ in over:
        row.company = row.company or held[row.worker] > 1
    return [_take(memory, row, why, reaper, lease) for row, why in over[:limit]]


def _why(memory: Memory, row: Row, gone: frozenset[str]) -> Literal["worker gone", "lease ended", "other boot"] | None:
    if row.worker in gone:
        return "worker gone"
    if row.boot != memory.boot:
        return "other boot"
    return "lease ended" if row.deadline <= memory.clock.steady() else None


def _take(
    memory: Memory, row: Row, why: Literal["worker gone", "lease ended", "other boot"], reaper: str, lease: int
) -> Orphan:
    holder, alone = row.worker or "", not row.company
    job = memory.rows.change(row, fence=row.job.fence + 1)
    row.worker, row.boot, row.deadline = reaper, memory.boot, memory.clock.steady() + lease
    row.company = False
    memory.record("job.orphaned", job, worker=holder, text=why)
    return Orphan(job, holder, why, alone)

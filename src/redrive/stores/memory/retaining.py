"""What is forgotten in memory when its time is over, and what is announced before it goes."""

from collections.abc import Sequence

from redrive.ledger import seqs_in
from redrive.retention import FOR_EVER, Notice
from redrive.stores.memory.rows import Memory


def forget_redrives(memory: Memory, limit: int) -> int:
    """Redrives that ended long ago, with their letters; answers how many of those, about `limit` at the most."""
    before, gone = memory.clock.now() - memory.settings.redrive_retention, 0
    for id, driven in list(memory.rows.redrives.items()):
        if gone < limit and driven.row.ended_at is not None and driven.row.ended_at <= before:
            gone += len(driven.items)
            del memory.rows.redrives[id]
    return gone


def forget_entries(memory: Memory, limit: int) -> int:
    """Entries that are older than the journal is to be, each act with all under its seal; answers how many."""
    rows, keep = memory.rows, memory.settings.journal_retention
    if keep == FOR_EVER:
        return 0
    before = memory.clock.now() - keep
    for place, kept in enumerate(rows.seals):
        if kept.at <= before:
            rows.seals[place] = kept._replace(forgotten=True)
    gone = {seq for kept in rows.seals if kept.forgotten for seq in seqs_in(kept.lines)}
    over = [e for e in rows.entries if e.at <= before and (e.actor is None or e.seq in gone)][:limit]
    rows.entries = [entry for entry in rows.entries if entry not in over]
    return len(over)


class MemoryNotices:
    """The removals of open letters that were announced."""

    _memory: Memory

    async def notices(self) -> list[Notice]:
        """All of them, by queue."""
        with self._memory.rows.lock:
            return list(self._memory.rows.notices)

    async def announce(self, notices: Sequence[Notice], actor: str) -> None:
        """Let these be all that is announced."""
        memory = self._memory
        with memory.rows.lock:
            before = memory.rows.notices
            memory.rows.notices = sorted(notices, key=lambda notice: notice.removal.queue or "")
            changes = [("withdrawn", notice) for notice in before if notice not in notices]
            changes += [("announced", notice) for notice in notices if notice not in before]
            for event, notice in changes:
                memory.note(f"retention.{event}", queue=notice.removal.queue, actor=actor, text=notice.said)

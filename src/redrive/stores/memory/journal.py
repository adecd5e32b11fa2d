"""The journal in memory."""

from collections import Counter
from itertools import islice

from redrive.job import State
from redrive.store import Count, Entry
from redrive.stores.memory.rows import MINUTE, Memory

SAMPLED = {
    State.SCHEDULED: "depth_scheduled",
    State.READY: "depth_ready",
    State.LEASED: "depth_leased",
    State.DEAD: "letters_open",
}
"""What is sampled of a queue: how many of its jobs are in each of these states; the dead have an open letter."""


class MemoryJournal:
    """What happened."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def events(self, after: int = 0, limit: int = 100, job: str | None = None) -> list[Entry]:
        """Entries after a sequence number, oldest first; of one job if named."""
        with self._rows.lock:
            later = islice(self._rows.entries, max(after, 0), None)  # entry n has sequence number n + 1
            return list(islice((entry for entry in later if job is None or entry.job == job), limit))

    async def latest(self, limit: int) -> list[Entry]:
        """The last entries, oldest first."""
        with self._rows.lock:
            return self._rows.entries[max(len(self._rows.entries) - limit, 0) :]

    async def counters(self, since: int = 0) -> list[Count]:
        """Counts per minute, queue, task and name."""
        with self._rows.lock:
            counters = Counter(self._rows.counters)
        return [
            Count(minute=minute, queue=queue, task=task, name=name, n=n)
            for (minute, queue, task, name), n in sorted(counters.items())
            if minute >= since
        ]

    async def note(
        self, event: str, *, actor: str | None = None, worker: str | None = None, text: str | None = None
    ) -> None:
        """Write an entry that belongs to no job."""
        with self._rows.lock:
            self._memory.note(event, actor=actor, worker=worker, text=text)

    async def sample(self) -> None:
        """Write down how deep each queue is in this minute, and how many letters it has; the last word counts."""
        minute = self._memory.clock.now() // MINUTE * MINUTE
        with self._rows.lock:
            for (queue, state), n in self._rows.depths.items():
                place = (minute, queue, "", SAMPLED.get(state, ""))
                if place[-1] and (n or place in self._rows.counters):
                    self._rows.counters[place] = n

    async def merge(self, limit: int) -> int:
        """Nothing to fold: counts are kept without worker and priority here."""
        return 0

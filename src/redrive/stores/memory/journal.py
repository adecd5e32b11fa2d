"""The journal in memory."""

from bisect import bisect_right
from collections import Counter
from itertools import islice

from redrive.job import State
from redrive.ledger import Noted, Proof, Tell, unheard
from redrive.store import Count, Entry
from redrive.stores.memory.proving import prove, seal
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
            first = bisect_right(self._rows.entries, after, key=lambda entry: entry.seq)
            later = islice(self._rows.entries, first, None)
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

    async def prove(self, named: int = 20, noted: Noted | None = None, tell: Tell = unheard) -> Proof:
        """Add everything up at one moment."""
        with self._rows.lock:
            return prove(self._memory, named, noted, tell)

    async def seal(self, limit: int) -> int:
        """Put up to `limit` entries that have an actor under a seal; answers how many."""
        with self._rows.lock:
            return seal(self._memory, limit)

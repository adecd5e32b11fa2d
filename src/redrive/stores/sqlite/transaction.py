"""One operation inside a transaction: what it may run, and what it owes the counters, the depths and the journal."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw

from redrive.clock import SECOND, Clock
from redrive.job import State
from redrive.sampling import Sampler
from redrive.store import Settings
from redrive.stores.sqlite.statements import statements
from redrive.stores.sqlite.values import Row, writable_or_none

MINUTE = 60 * SECOND
About = tuple[bytes | None, str, str | None, int | None, int | None]
"""A job as the journal knows it: id, task, queue, epoch, attempt."""


class Snapshot:
    """Statements by name on one connection, at one moment."""

    def __init__(self, db: apsw.Connection, clock: Clock, boot: str, settings: Settings) -> None:
        self.db = db
        self.boot = boot
        self.settings = settings
        self.now = clock.now()
        self.steady = clock.steady()
        self.is_unwanted: Callable[[], bool] = lambda: False

    def heed(self) -> None:
        """Go no further when nobody waits for the answer; for work of ours between rows, which SQLite cannot see."""
        if self.is_unwanted():
            raise apsw.InterruptError("nobody waits for the answer")

    def all(self, name: str, *values: Any) -> list[Row]:
        """Every row that a statement answers."""
        return self.db.execute(statements()[name], values).fetchall()

    def each(self, name: str, *values: Any) -> Iterator[Row]:
        """The rows that a statement answers, one after the other: memory does not grow with them."""
        yield from self.db.execute(statements()[name], values)

    def first(self, name: str, *values: Any) -> Row | None:
        """The first row that a statement answers."""
        rows = self.all(name, *values)
        return rows[0] if rows else None


class Transaction(Snapshot):
    """A snapshot that may write; what is counted and noted is written once, at its end."""

    def __init__(self, db: apsw.Connection, clock: Clock, boot: str, settings: Settings, sampler: Sampler) -> None:
        super().__init__(db, clock, boot, settings)
        self.sampler = sampler
        self.points: set[str] = set()
        self.wakes = False
        self._counts: Counter[tuple[str, str, int, str, str]] = Counter()
        self._depths: Counter[tuple[str, str]] = Counter()
        self._entries: list[Row] = []

    def run(self, name: str, *values: Any) -> None:
        """Run a statement that answers nothing."""
        self.db.execute(statements()[name], values)

    def many(self, name: str, rows: Sequence[Row]) -> None:
        """Run a statement for each of these rows."""
        if rows:
            self.db.executemany(statements()[name], rows)

    def count(self, queue: str, task: str, priority: int, worker: str | None, name: str, n: int = 1) -> None:
        """Something happened in this minute."""
        self._counts[queue, task, priority, worker or "", name] += n

    def shift(self, queue: str, before: str | None, after: str | None, n: int = 1) -> None:
        """Jobs of a queue went from one state to another."""
        if before:
            self._depths[queue, before] -= n
        if after:
            self._depths[queue, after] += n
        if after == State.READY and n:
            self.wakes = True

    def waiting(self) -> dict[str, set[str]]:
        """The queues that may have something to claim, with the states it is in; what is owed is looked at too."""
        found: dict[str, set[str]] = {}
        for queue, state in (*self.all("waiting_queues"), *(place for place, n in self._depths.items() if n > 0)):
            if state in (State.READY, State.SCHEDULED):
                found.setdefault(queue, set()).add(state)
        return found

    def journal(
        self,
        event: str,
        about: About | None = None,
        *,
        queue: str | None = None,
        reason: str | None = None,
        worker: str | None = None,
        actor: str | None = None,
        text: str | None = None,
    ) -> None:
        """Write what happened."""
        job, task, of_queue, epoch, attempt = about or (None, None, queue, None, None)
        self._entries.append(
            (self.now, event, job, task, of_queue, epoch, attempt, writable_or_none(reason), worker,
             writable_or_none(actor), writable_or_none(text))
        )  # fmt: skip  # the order of `add_entry`

    def finish(self) -> None:
        """Write what is owed."""
        self.many("add_count", [(self.minute, *key, n) for key, n in self._counts.items()])
        self.many("add_depth", [(*key, n) for key, n in self._depths.items() if n])
        self.many("add_entry", self._entries)

    @property
    def minute(self) -> int:
        """The one that runs now, by its beginning."""
        return self.now // MINUTE * MINUTE

    @property
    def all_events(self) -> bool:
        """Whether the happy path is written to the journal too."""
        return self.settings.journal == "all"


def unique(values: Iterable[str]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(values))

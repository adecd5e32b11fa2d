"""What a store says of itself, read from its file without any of the code under test.

Read in a process that has not the store open, and with apsw: another SQLite library in a process that has it open would
drop its locks.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw


@dataclass(frozen=True, slots=True)
class Row:
    """A job that is not done."""

    id: str
    task: str
    state: str
    queue: str
    epoch: int
    starts: int
    attempts: int
    crashes: int
    losses: int
    suspect: int
    fence: int


@dataclass(frozen=True, slots=True)
class DoneRow:
    """The narrow row that a finished job leaves."""

    id: str
    task: str
    epoch: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the journal about a job."""

    event: str
    job: str
    epoch: int
    reason: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter."""

    id: str
    state: str
    group: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt failed, and how its process died if it did."""

    job: str
    reason: str
    cause: str


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that the invariants speak of."""

    jobs: tuple[Row, ...] = ()
    done: tuple[DoneRow, ...] = ()
    purged: tuple[str, ...] = ()
    journal: tuple[Line, ...] = ()
    letters: tuple[LetterRow, ...] = ()
    groups: dict[str, int] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    depths: dict[tuple[str, str], int] = field(default_factory=dict)
    failures: tuple[Cause, ...] = ()
    integrity: tuple[str, ...] = ()

    def rows(self) -> tuple[Row | DoneRow, ...]:
        """Every job that has a row of its own."""
        return (*self.jobs, *self.done)

    def present(self) -> list[str]:
        """The id of every row that stands for a job."""
        return [*(row.id for row in self.rows()), *self.purged]

    def told(self, *events: str) -> Counter[tuple[str, int]]:
        """How often the journal tells one of these of a job in an epoch."""
        return Counter((line.job, line.epoch) for line in self.journal if line.event in events)


_JOBS = "SELECT id, task, state, queue, epoch, starts, attempts, crashes, losses, suspect, fence FROM job ORDER BY id"
_DONE = "SELECT id, task, epoch, attempts FROM done ORDER BY id"
_JOURNAL = "SELECT event, job, epoch, coalesce(reason, ''), coalesce(text, ''), at FROM journal WHERE job IS NOT NULL"


def read_books(path: Path) -> Books:
    """Everything a store's file says, at one moment."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(10_000)
        db.execute("PRAGMA query_only = ON")
        db.execute("BEGIN")
        return _read(db)
    finally:
        db.close()


def _read(db: apsw.Connection) -> Books:
    def rows(statement: str) -> list[Any]:
        return db.execute(statement).fetchall()

    return Books(
        jobs=tuple(Row(_spelled(id), *rest) for id, *rest in rows(_JOBS)),
        done=tuple(DoneRow(_spelled(id), *rest) for id, *rest in rows(_DONE)),
        purged=tuple(_spelled(id) for (id,) in rows("SELECT id FROM tombstone")),
        journal=tuple(Line(event, _spelled(job), *rest) for event, job, *rest in rows(f"{_JOURNAL} ORDER BY seq")),
        letters=tuple(
            LetterRow(_spelled(id), *rest)
            for id, *rest in rows("SELECT id, state, fingerprint FROM letter ORDER BY id")
        ),
        groups=dict(rows("SELECT fingerprint, count FROM letter_group")),
        counters=Counter(dict(rows("SELECT name, sum(n) FROM counter GROUP BY name"))),
        depths={(queue, state): n for queue, state, n in rows("SELECT queue, state, n FROM depth")},
        failures=tuple(
            Cause(_spelled(job), reason, cause or "")
            for job, reason, cause in rows("SELECT job, reason, cause FROM failure ORDER BY seq")
        ),
        integrity=tuple(text for (text,) in rows("PRAGMA integrity_check")),
    )


def _spelled(blob: bytes) -> str:
    return str(UUID(bytes=blob))

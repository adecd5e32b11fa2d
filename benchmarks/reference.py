"""The smallest honest program on the same driver: what it does per job is the least that a durable queue has to do.

One asyncio loop takes a batch of jobs, runs a coroutine for each, and ends the batch in the same transaction in which
it takes the next one: one fsync a batch (WAL, synchronous=FULL). It writes on its loop: a thread for that was no faster
(see docs/benchmarks.md). Several processes wait in line at a `flock`, as Redrive's do, because SQLite's own waiting
starves.
"""

import asyncio
import fcntl
import os
import sys
import time
import traceback
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from benchmarks.children import heard, say

FILE = "reference.db"
ATTEMPTS = 3

_SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4000", "cache_size = -32768")
_SCHEMA = """
CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, attempts INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX ready ON job (id) WHERE state = 0;
CREATE TABLE failure (job INTEGER NOT NULL, attempt INTEGER NOT NULL, at INTEGER NOT NULL, type TEXT NOT NULL,
  message TEXT NOT NULL, traceback TEXT NOT NULL);
CREATE INDEX failure_job ON failure (job);
CREATE TABLE letter (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, type TEXT NOT NULL, message TEXT NOT NULL);
CREATE TABLE letter_group (type TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE journal (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, event TEXT NOT NULL, job INTEGER, text TEXT);
"""
_CLAIM = """UPDATE job SET state = 1 WHERE id IN (SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT ?)
RETURNING id, attempts, payload"""
_END = "DELETE FROM job WHERE id IN (SELECT value FROM carray(?))"
_FAILURE = "INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)"
_BACK = "UPDATE job SET state = ?, attempts = ? WHERE id = ?"
_LETTER = "INSERT INTO letter VALUES (?, ?, ?, ?)"
_GROUP = "INSERT INTO letter_group VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"
_JOURNAL = "INSERT INTO journal (at, event, job, text) VALUES (?, ?, ?, ?)"

Taken = list[tuple[Any, ...]]
"""Id, attempts so far, payload."""


def connect(path: Path) -> apsw.Connection:
    """As durable as Redrive."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(30_000)
    for setting in _SETTINGS:
        db.execute(f"PRAGMA {setting}").fetchall()
    return db


def fill(folder: Path, jobs: int) -> None:
    """A new file with so many jobs."""
    db = connect(folder / FILE)
    db.execute(_SCHEMA)
    with db:
        db.executemany("INSERT INTO job VALUES (?, 0, 0, ?)", ((id, b"{}") for id in range(1, jobs + 1)))
    db.close()


class Queue:
    """The file, as this one process sees it."""

    def __init__(self, folder: Path) -> None:
        self.db = connect(folder / FILE)
        self._line = os.open(folder / "reference.lock", os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        fcntl.flock(self._line, fcntl.LOCK_EX)
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            self.db.execute("COMMIT")
        finally:
            fcntl.flock(self._line, fcntl.LOCK_UN)

    def turn(self, ended: Taken, batch: int) -> Taken:
        """End these and take the next."""
        with self.transaction():
            if ended:
                self.db.execute(_END, (apsw.carray(array("q", [id for id, _, _ in ended])),))
            return self.db.execute(_CLAIM, (batch,)).fetchall()

    def turn_of_failures(self, failed: Sequence[tuple[int, int, Exception]], batch: int) -> Taken:
        """Write everything about these failures, and take the next."""
        with self.transaction():
            if failed:
                self._write(failed, time.time_ns() // 1_000)
            return self.db.execute(_CLAIM, (batch,)).fetchall()

    def _write(self, failed: Sequence[tuple[int, int, Exception]], now: int) -> None:
        many = self.db.executemany
        rows = [(id, attempt, type(error).__name__, str(error), error) for id, attempt, error in failed]
        dead = [row for row in rows if row[1] == ATTEMPTS]
        traces = ["".join(traceback.format_exception(error)) for *_, error in rows]
        many(_FAILURE, [(*row[:2], now, *row[2:4], trace) for row, trace in zip(rows, traces, strict=True)])
        many(_BACK, [(2 if attempt == ATTEMPTS else 0, attempt, id) for id, attempt, *_ in rows])
        many(_JOURNAL, [(now, "buried" if row[1] == ATTEMPTS else "retried", row[0], row[3]) for row in rows])
        many(_LETTER, [(id, now, kind, message) for id, _, kind, message, _ in dead])
        many(_GROUP, Counter(kind for _, _, kind, _, _ in dead).items())


async def nothing(**arguments: Any) -> None:
    """The handler of a drain."""


async def fail(number: int) -> None:
    """The handler of the dying."""
    raise ConnectionError(f"host {number} refused the connection")


class Drain:
    """Runs jobs that do nothing until there are no more."""

    def __init__(self, queue: Queue, batch: int) -> None:
        self._queue = queue
        self._batch = batch

    async def run(self) -> None:
        first, jobs, taken = time.monotonic(), 0, self._queue.turn([], self._batch)
        while taken:
            await asyncio.gather(*(nothing(**msgspec.json.decode(payload)) for _, _, payload in taken))
            jobs += len(taken)
            taken = self._queue.turn(taken, self._batch)
        say(first=first, last=time.monotonic(), jobs=jobs)


class Dying:
    """Runs jobs that fail until all are dead."""

    def __init__(self, queue: Queue, batch: int) -> None:
        self._queue = queue
        self._batch = batch

    async def run(self) -> None:
        first, jobs, taken = time.monotonic(), 0, self._queue.turn([], self._batch)
        while taken:
            ends = await asyncio.gather(*(fail(id) for id, _, _ in taken), return_exceptions=True)
            failed = [
                (id, attempts + 1, end)
                for (id, attempts, _), end in zip(taken, ends, strict=True)
                if isinstance(end, Exception)
            ]
            jobs += sum(attempt == ATTEMPTS for _, attempt, _ in failed)
            taken = self._queue.turn_of_failures(failed, self._batch)
        say(first=first, last=time.monotonic(), jobs=jobs)


async def main(case: type[Drain] | type[Dying], batch: int) -> None:
    """Wait for the word, run, wait for the end."""
    work = case(Queue(Path.cwd()), batch)
    say(ready=True)
    while await heard():
        await work.run()


if __name__ == "__main__":
    asyncio.run(main(Drain if sys.argv[1] == "drain" else Dying, int(sys.argv[2])))

"""What is remembered: the rows of a store in memory, and the one place that changes a job's state."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from redrive.clock import SECOND, Clock
from redrive.job import Job, State
from redrive.letter import Failure, Group, Letter, Note, Replaced
from redrive.ramp import Verdict
from redrive.sampling import PAYLOAD_LIMIT, Sampler
from redrive.store import Entry, Finished, Gate, Item, Operation, Redrive, Settings, Stage, Success, Tally, Worker

if TYPE_CHECKING:
    from redrive.ledger import Kept
    from redrive.retention import Notice

MINUTE = 60 * SECOND
WAITING = (State.SCHEDULED, State.READY)


@dataclass(slots=True)
class Row:
    """A job with what belongs to it."""

    job: Job
    failures: list[Failure] = field(default_factory=list)
    worker: str | None = None
    boot: str = ""
    deadline: int = 0  # of the lease, on the steady clock
    company: bool = False  # its holder had other jobs when it was found to be gone
    unknown_since: int | None = None
    ended_at: int | None = None
    end_reason: str | None = None
    finished: Finished | None = None


@dataclass(slots=True)
class Present:
    """A worker, and until when its last beat counts."""

    worker: Worker
    until: int
    boot: str


@dataclass(slots=True)
class Duty:
    """Who does it, and until when."""

    holder: str
    until: int
    boot: str


@dataclass(slots=True)
class Held:
    """A letter in a redrive, with the epoch in which it died, then the one that it was given."""

    item: Item
    epoch: int
    turn: int
    verdict: Verdict | None = None


@dataclass(slots=True)
class Redriving:
    """A redrive with what belongs to it."""

    row: Redrive
    cut: int  # the last thing that happened before it was opened
    mark: tuple[int, str] | None = None
    paced_at: int = 0
    items: dict[str, Held] = field(default_factory=dict)
    causes: dict[str, Tally] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)


@dataclass(slots=True)
class Given:
    """A payload that an edit has given: which one it replaced, in which epoch."""

    replaced: Replaced
    epoch: int


@dataclass(slots=True)
class Operating:
    """An operation with what belongs to it."""

    row: Operation
    cut: int
    parts: Counter[tuple[str, str]] = field(default_factory=Counter)
    given: dict[str, Given] = field(default_factory=dict)


@dataclass(slots=True)
class Hint:
    """A wake-up left for a listener, whichever loop it waits on."""

    given: bool = False
    waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = field(default_factory=list)


class Rows:
    """Everything that a store holds; every use is under the lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a step of an operation does what the verbs of letters do
        self.jobs: dict[str, Row] = {}
        self.keys: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.leased: set[str] = set()
        self.depths: Counter[tuple[str, State]] = Counter()
        self.gates: dict[tuple[str, str], Gate] = {}
        self.letters: dict[str, Letter] = {}
        self.ended_letters: dict[str, int] = {}  # when each that is closed or discarded became so
        self.groups: dict[str, Group] = {}
        self.deaths: dict[str, int] = {}  # when the jobs of discarded letters had died
        self.replaced: dict[str, list[Replaced]] = {}  # the payloads of letters before they were edited
        self.tombstones: set[str] = set()
        self.notices: list[Notice] = []
        self.notes: list[tuple[str, Note]] = []  # each with the group or letter that it is about
        self.died: dict[str, int] = {}  # how much had happened when each letter died last
        self.redrives: dict[str, Redriving] = {}
        self.operations: dict[str, Operating] = {}
        self.workers: dict[str, Present] = {}
        self.duties: dict[str, Duty] = {}
        self.entries: list[Entry] = []
        self.written = 0  # entries ever; the first ones may be forgotten
        self.seals: list[Kept] = []
        self.sealed_upto = 0  # the number of the last entry under a seal
        self.counters: Counter[tuple[int, str, str, str]] = Counter()
        self.sampler = Sampler(random.Random())
        self.successes: dict[str, dict[int, Success]] = {}
        self.hints: dict[str, Hint] = {}

    def insert(self, job: Job) -> None:
        """A row for a new job."""
        self.jobs[job.id] = Row(job)
        if job.key is not None:
            self.keys[job.key] = job.id
        self._enter(job)

    def change(self, row: Row, **changes: object) -> Job:
        """Give a job other values; the only place where a state changes."""
        self._exit(row.job)
        row.job = msgspec.structs.replace(row.job, **changes)
        self._enter(row.job)
        if row.job.state is not State.LEASED:
            row.worker, row.deadline, row.boot = None, 0, ""
        return row.job

    def forget(self, id: str) -> None:
        """Drop a row that has ended."""
        row = self.jobs.pop(id)
        self._exit(row.job)
        self.free_key(row.job)

    def free_key(self, job: Job) -> None:
        """Let the next job have the key, if this one still has it."""
        if job.key is not None and self.keys.get(job.key) == job.id:
            del self.keys[job.key]

    def wake(self) -> None:
        """Tell every listener that jobs may be ready."""
        for hint in self.hints.values():
            hint.given = True
            waiters, hint.waiters = hint.waiters, []
            for loop, event in waiters:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    def _enter(self, job: Job) -> None:
        self.depths[job.queue, job.state] += 1
        if job.state in WAITING:
            self.waiting.add(job.id)
        elif job.state is State.LEASED:
            self.leased.add(job.id)

    def _exit(self, job: Job) -> None:
        self.depths[job.queue, job.state] -= 1
        self.waiting.discard(job.id)
        self.leased.discard(job.id)


@dataclass(slots=True)
class Memory:
    """The rows as one opener sees them: with its clock, its settings and its boot."""

    rows: Rows
    clock: Clock
    settings: Settings
    boot: str

    def count(self, job: Job, *names: str) -> None:
        """Add one to these counters of the job's queue and task."""
        for name in names:
            self.count_of(job.queue, job.task, name)

    def count_of(self, queue: str, task: str, name: str) -> None:
        """Add one to a counter where there may be no job any more."""
        self.rows.counters[self.clock.now() // MINUTE * MINUTE, queue, task, name] += 1

    def note(self, event: str, **fields: str | int | None) -> None:
        """Write an entry that belongs to no job."""
        self.rows.written += 1
        entry = Entry(seq=self.rows.written, at=self.clock.now(), event=event)
        self.rows.entries.append(msgspec.structs.replace(entry, **fields))

    def record(self, event: str, job: Job, **fields: str | int | None) -> None:
        """Write an entry about a job."""
        about: dict[str, str | int | None] = {"job": job.id, "task": job.task, "queue": job.queue}
        about |= {"epoch": job.epoch, "attempt": job.attempts}
        self.note(event, **{**about, **fields})

    def record_happy(self, event: str, job: Job, **fields: str | int | None) -> None:
        """Write an entry about the happy path, if the settings ask for it."""
        if self.settings.journal == "all":
            self.record(event, job, **fields)

    def held(self, id: str, fence: int) -> Row | None:
        """The row of a lease that is still held."""
        row = self.rows.jobs.get(id)
        return row if row is not None and row.job.state is State.LEASED and row.job.fence == fence else None

    def wait_for_turn(self, row: Row, at: int, **changes: object) -> Job:
        """Put a job back in line, or aside until its time."""
        now = self.clock.now()
        state = State.SCHEDULED if at > now else State.READY
        job = self.rows.change(row, state=state, due_at=max(at, now), **changes)
        if state is State.READY:
            self.rows.wake()
        return job

    def discard(self, row: Row, reason: str, **fields: str | None) -> None:
        """End a job on purpose; its key is free, its letter is discarded with it."""
        worker = row.worker
        job = self.rows.change(row, state=State.DISCARDED)
        row.ended_at, row.end_reason = self.clock.now(), reason
        self.rows.free_key(job)
        self.count(job, "discarded")
        self.record("job.discarded", job, reason=reason, **{"worker": worker, **fields})

    def key_holder(self, job: Job) -> Row | None:
        """The job whose idempotency key this is, as long as it counts."""
        row = self.rows.jobs.get(self.rows.keys.get(job.key or "", ""))
        over = row is not None and row.finished is not None and self.past(row, self.settings.key_lifetime)
        return None if over else row

    def past(self, row: Row, retention: int) -> bool:
        """Whether it ended so long ago."""
        return (row.ended_at or 0) + retention <= self.clock.now()

    def sample(self, job: Job, worker: str | None) -> None:
        """Keep this success if chance has chosen it; nearly all pass."""
        rows = self.rows
        if rows.sampler.passes(job.task):
            return
        place, _ = rows.sampler.place(job.task, lambda: 0)
        present = rows.workers.get(worker or "")
        rows.successes.setdefault(job.task, {})[place] = Success(
            at=self.clock.now(),
            size=len(job.payload),
            host=present.worker.host if present else "",
            release=present.worker.release if present else None,
            payload=job.payload if len(job.payload) <= PAYLOAD_LIMIT else None,
        )

    def forget_successes(self) -> None:
        """Those that are kept for longer than history is."""
        before = self.clock.now() - self.settings.closed_retention
        for task, kept in self.rows.successes.items():
            self.rows.successes[task] = {place: one for place, one in kept.items() if one.at > before}

    def known(self, ids: Iterable[str]) -> list[Row]:
        """The rows of these ids, each once, in order."""
        return [row for row in map(self.rows.jobs.get, dict.fromkeys(ids)) if row is not None]

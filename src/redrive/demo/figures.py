"""What the store says of a run: no figure of the demo comes from anywhere else."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redrive.letter import Failure, Group
from redrive.query.tree import of_group
from redrive.store import Entry, Store

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The jobs of one task, or of all: where they are, and what happened to them on the way."""

    accepted: int = 0
    started: int = 0
    done: int = 0
    done_on_retry: int = 0
    retried: int = 0
    crashed: int = 0
    buried: int = 0
    redriven: int = 0
    dead: int = 0
    discarded: int = 0
    running: int = 0
    waiting: int = 0

    @property
    def left(self) -> int:
        """How many have not ended."""
        return self.running + self.waiting

    @property
    def lost(self) -> int:
        """Accepted, and neither ended nor anywhere in the store: what must never be."""
        return self.accepted - self.done - self.dead - self.discarded - self.left


def total(tallies: Iterable[Tally]) -> Tally:
    """Several tallies as one."""
    listed = list(tallies)
    return Tally(**{name: sum(getattr(tally, name) for tally in listed) for name in Tally.__dataclass_fields__})


async def tallies(store: Store, queues: dict[str, str]) -> dict[str, Tally]:
    """The tally of each task; `queues` names the queue of each, which is its alone."""
    depths = {depth.queue: depth for depth in await store.jobs.depth()}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for count in await store.journal.counters():
        counts[count.task][count.name] += count.n
    found = {}
    for task, queue in queues.items():
        depth, of_task = depths.get(queue), counts[task]
        found[task] = Tally(
            accepted=of_task["enqueued"],
            running=depth.leased if depth else 0,
            waiting=depth.ready + depth.scheduled if depth else 0,
            dead=depth.dead if depth else 0,
            **{name: of_task[name] for name in _COUNTED},
        )
    return found


_COUNTED = ("started", "done", "done_on_retry", "retried", "crashed", "buried", "redriven", "discarded")


async def entries(store: Store, after: int = 0) -> list[Entry]:
    """What happened off the happy path since an entry, oldest first."""
    found: list[Entry] = []
    while page := await store.journal.events(after, PAGE):
        found += page
        after = page[-1].seq
    return found


# what was retried -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of one task for one reason, and how many of those jobs are done by now."""

    task: str
    reason: str
    retries: int
    jobs: int
    healed: int


async def retries(store: Store, story: Sequence[Entry]) -> list[Retries]:
    """Retries by task and reason."""
    jobs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in story:
        if entry.event == "job.retried" and entry.job and entry.task:
            jobs[entry.task, entry.reason or "unknown"].append(entry.job)
    found = []
    for (task, reason), ids in sorted(jobs.items()):
        healed = [id for id in set(ids) if await _is_done(store, id)]
        found.append(Retries(task, reason, len(ids), len(set(ids)), len(healed)))
    return found


async def _is_done(store: Store, id: str) -> bool:
    record = await store.jobs.get(id)
    return record is not None and record.finished is not None


# what died ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    """A group of dead letters, and how it went for one of its jobs that is still dead."""

    group: Group
    job: str
    attempts: int
    crashes: int
    last: Failure

    @property
    def last_words(self) -> str | None:
        """The first line that the process said when it died."""
        words = (self.last.cause or "").partition("\n")[2].strip()
        return words.partition("\n")[0] or None


async def causes(store: Store) -> list[Cause]:
    """The groups that have open letters, the largest first."""
    found = []
    for group in await store.letters.groups():
        for letter in (await store.letters.find(of_group(group.fingerprint), None, 1)).letters:
            record = await store.jobs.get(letter.id)
            if record is not None and record.job is not None and record.failures:
                found.append(Cause(group, letter.id, record.job.attempts, record.job.crashes, record.failures[-1]))
    return found


def hurt(story: Sequence[Entry]) -> int:
    """How many jobs lost an attempt although it was another one that took its process along."""
    guilty = {entry.job for entry in story if entry.event == "job.buried" and entry.reason == "crashed"}
    struck = {entry.job for entry in story if entry.reason in ("lost", "crashed")}
    return len(struck - guilty)

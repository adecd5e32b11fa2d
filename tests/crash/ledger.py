"""The checker: what a tape and a store's books must agree on, whatever was killed whenever.

Each rule is a function that yields the faults it finds, each with the ids it is about. `test_ledger.py` plants a fault
for every rule, because a checker that cannot fail is none. The store has to be run with `journal = "all"`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.crash import tape as tapes
from tests.crash.books import Books, Line, read_books
from tests.crash.tape import Reading, What

UNENDED = ("scheduled", "ready", "leased")
ENDS = ("job.succeeded", "job.buried", "job.discarded")
DEATHS = ("job.buried", "job.imported", "job.restored")
LASTING = (*ENDS, "job.restored", "job.redriven", "job.purged")
SUSPECT_RUNS = 3
_LOST = re.compile(r"died|lease ended|other boot|worker gone|killed from outside|ended each time")
"""What the journal says when a job is given back because its process ended, and not because its worker stopped."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task's policy allows in one epoch."""

    attempts: int = 3
    crashes: int = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """A promise that was not kept, and the jobs it was made to."""

    rule: str
    ids: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text} [{', '.join(self.ids) or 'no job'}]"


@dataclass(frozen=True)
class Ledger:
    """The two accounts that are compared, and what is known of how they came about."""

    tape: Reading
    books: Books
    drained: bool = True
    kills: int = 0  # so many processes died: no more records can be torn
    limits: Mapping[str, Limits] = field(default_factory=dict)  # by task; the defaults for others

    def limits_of(self, id: str) -> Limits:
        return self.limits.get(self._tasks.get(id, ""), Limits())

    @cached_property
    def _tasks(self) -> dict[str, str]:
        return {row.id: row.task for row in self.books.rows()}

    def answers(self) -> dict[str, What]:
        """What the client last learned of each job that it wanted to add."""
        return {record.job: record.what for record in self.tape.of(What.UNKNOWN, What.ACCEPTED, What.REFUSED)}

    def accepted(self) -> set[str]:
        return {record.job for record in self.tape.of(What.ACCEPTED)}


Rule = Callable[[Ledger], Iterator[Fault]]


def _each(rule: str, text: str, ids: Iterable[str]) -> Iterator[Fault]:
    found = tuple(sorted(set(ids)))
    if found:
        yield Fault(rule, found, text)


# where jobs are -------------------------------------------------------------------------------------------------------


def nothing_is_lost(ledger: Ledger) -> Iterator[Fault]:
    """G1: what was accepted is there."""
    yield from _each("lost", "accepted, and nowhere to be found", ledger.accepted() - set(ledger.books.present()))


def one_state(ledger: Ledger) -> Iterator[Fault]:
    """G3: a job is in one place."""
    places = Counter(ledger.books.present())
    yield from _each("one state", "in two places at once", (id for id, n in places.items() if n > 1))


def everything_ends(ledger: Ledger) -> Iterator[Fault]:
    """G2: after a drain no job waits or runs."""
    left = (row.id for row in ledger.books.jobs if row.state in UNENDED)
    yield from _each("ended", "neither done, dead nor discarded after the drain", left if ledger.drained else ())


def nobody_comes_uninvited(ledger: Ledger) -> Iterator[Fault]:
    """What was refused, or never arrived, is not there and never ran; nothing is there that nobody added."""
    answers, present = ledger.answers(), set(ledger.books.present())
    started = {record.job for record in ledger.tape.of(What.STARTED)}
    refused = {id for id, what in answers.items() if what is What.REFUSED} - ledger.accepted()
    yield from _each("uninvited", "refused, and there all the same", refused & present)
    yield from _each("uninvited", "refused, and run all the same", refused & started)
    yield from _each("uninvited", "run, though never added", started - present - ledger.accepted() - refused)
    yield from _each("uninvited", "there, though no client speaks of it", present - answers.keys())


# epochs, starts and fences --------------------------------------------------------------------------------------------


def epochs_are_earned(ledger: Ledger) -> Iterator[Fault]:
    """G6: one more epoch for each accepted redrive, and none otherwise."""
    revivals = Counter(line.job for line in ledger.books.journal if line.event == "job.redriven")
    wrong = (row.id for row in ledger.books.rows() if row.epoch != 1 + revivals[row.id])
    yield from _each("epoch", "its epoch is not one more than its redrives", wrong)


def starts_are_bounded(ledger: Ledger) -> Iterator[Fault]:
    """G7: starts per epoch ≤ max attempts + crash limit + journalled snoozes and releases, suspect runs ≤ 3."""
    spared = ledger.books.told("job.snoozed", "job.released")
    for (id, epoch), starts in _starts(ledger).items():
        limits = ledger.limits_of(id)
        most = limits.attempts + limits.crashes + spared[id, epoch]
        if starts > most:
            yield Fault("starts", (id,), f"{starts} starts in epoch {epoch}, at most {most} are allowed")
    free = Counter((line.job, line.epoch) for line in ledger.books.journal if _is_suspect_run(line))
    for (id, epoch), n in free.items():
        if n > SUSPECT_RUNS:
            yield Fault("starts", (id,), f"given back {n} times in epoch {epoch} because its process ended")


def _starts(ledger: Ledger) -> dict[tuple[str, int], int]:
    """Claims per epoch, as the journal, the row of a job that is not done, and the tape know them: the largest."""
    counted: defaultdict[tuple[str, int], int] = defaultdict(int, ledger.books.told("job.started"))
    ran = Counter((record.job, record.epoch) for record in ledger.tape.of(What.STARTED))
    rows = {(row.id, row.epoch): row.starts for row in ledger.books.jobs}
    for place, starts in (*ran.items(), *rows.items()):
        counted[place] = max(counted[place], starts)
    return counted


def _is_suspect_run(line: Line) -> bool:
    return line.event == "job.released" and _LOST.search(line.text) is not None


def starts_are_told(ledger: Ledger) -> Iterator[Fault]:
    """Each start of a handler, and each that a row has counted, is a claim that the journal knows."""
    claims = ledger.books.told("job.started")
    ran = Counter((record.job, record.epoch) for record in ledger.tape.of(What.STARTED))
    yield from _each(
        "told", "run more often than claimed", (id for (id, epoch), n in ran.items() if n > claims[id, epoch])
    )
    miscounted = (row.id for row in ledger.books.jobs if row.starts != claims[row.id, row.epoch])
    yield from _each("told", "its starts are not its claims", miscounted)


def fences_are_used_once(ledger: Ledger) -> Iterator[Fault]:
    """No (job, fence) is started twice, and later epochs have higher fences."""
    fences = Counter((record.job, record.fence) for record in ledger.tape.of(What.STARTED))
    yield from _each("fence", "started twice under one fence", (id for (id, _), n in fences.items() if n > 1))
    highest: dict[str, tuple[int, int]] = {}
    for id, epoch, fence in sorted((r.job, r.epoch, r.fence) for r in ledger.tape.of(What.STARTED)):
        before = highest.get(id, (epoch, 0))
        if epoch > before[0] and fence <= before[1]:
            yield Fault("fence", (id,), f"fence {fence} of epoch {epoch} is not above {before[1]} of epoch {before[0]}")
        highest[id] = (epoch, max(fence, before[1]))


# ends -----------------------------------------------------------------------------------------------------------------


def one_completion(ledger: Ledger) -> Iterator[Fault]:
    """G4: a job ends once per epoch, by the holder of the last fence that was granted."""
    settled = ledger.tape.of(What.SETTLED)
    ends = _ends(ledger.books)
    twice = Counter((record.job, record.epoch) for record in settled)
    for (id, _), n in (*ends.items(), *twice.items()):
        if n > 1:
            yield Fault("one completion", (id,), f"ended {n} times in one epoch")
    granted: dict[tuple[str, int], int] = {}
    for record in ledger.tape.of(What.STARTED):
        place = record.job, record.epoch
        granted[place] = max(granted.get(place, 0), record.fence)
    for record in settled:
        last = granted.get((record.job, record.epoch), 0)
        if record.fence < last:
            yield Fault("one completion", (record.job,), f"ended by fence {record.fence}, though {last} was granted")


def _ends(books: Books) -> Counter[tuple[str, int]]:
    """How often a job has ended in an epoch; a letter that is discarded, or restored, is no end of its job."""
    ends: Counter[tuple[str, int]] = Counter()
    dead: set[tuple[str, int]] = set()
    for line in books.journal:
        place = line.job, line.epoch
        if line.event == "job.discarded" and place in dead:
            dead.remove(place)
        elif line.event in ENDS:
            ends[place] += 1
        if line.event in DEATHS:
            dead.add(place)
    return ends


def ends_are_told(ledger: Ledger) -> Iterator[Fault]:
    """What is dead or discarded was made so in its epoch, and what a worker was told is done stays done."""
    ends = ledger.books.told(*DEATHS, "job.discarded")
    silent = (r.id for r in ledger.books.jobs if r.state in ("dead", "discarded") and not ends[r.id, r.epoch])
    yield from _each("told", "ended without a word in the journal", silent)
    settled = {(record.job, record.epoch) for record in ledger.tape.of(What.SETTLED)}
    undone = {id for id, _ in settled - {(row.id, row.epoch) for row in ledger.books.done}}
    yield from _each("told", "a worker was told that it is done, and it is not", undone - set(ledger.books.purged))


def done_means_run(ledger: Ledger) -> Iterator[Fault]:
    """G2: a job is done because its handler did what it is for and returned."""
    effects = {(record.job, record.epoch) for record in ledger.tape.of(What.EFFECT)}
    ran = effects & {(record.job, record.epoch) for record in ledger.tape.of(What.RETURNED)}
    missing = (row.id for row in ledger.books.done if (row.id, row.epoch) not in ran)
    yield from _each("done", "done, and its handler never came to its end", missing)
    returns = {(record.job, record.epoch, record.fence) for record in ledger.tape.of(What.RETURNED)}
    early = (r.job for r in ledger.tape.of(What.SETTLED) if (r.job, r.epoch, r.fence) not in returns)
    yield from _each("done", "ended by a worker whose handler did not return", early)


# sums -----------------------------------------------------------------------------------------------------------------


def sums_add_up(ledger: Ledger) -> Iterator[Fault]:
    """enqueued + imported = done + live + dead + discarded + purged, and each of these is what its counter says."""
    books = ledger.books
    came = {line.job for line in books.journal if line.event in ("job.enqueued", "job.imported")}
    yield from _sum(books, ("enqueued", "imported"), len(books.present()), came ^ set(books.present()))
    yield from _sum(books, ("done",), sum(books.told("job.succeeded").values()))
    yield from _sum(books, ("discarded",), sum(books.told("job.discarded").values()))
    done = _told(books, "job.succeeded") ^ {row.id for row in books.done}
    yield from _each("sums", "done, or told so, but not both", done)
    discarded = _told(books, "job.discarded") ^ set(_in(books, "discarded"))
    yield from _each("sums", "discarded, or told so, but not both", discarded)
    for name in ("started", "buried", "redriven"):
        yield from _sum(books, (name,), sum(books.told(f"job.{name}").values()))
    counted = Counter((row.queue, row.state) for row in books.jobs)
    for place in sorted({*counted, *books.depths}):
        if counted[place] != books.depths.get(place, 0):
            ids = tuple(row.id for row in books.jobs if (row.queue, row.state) == place)
            yield Fault("sums", ids, f"{counted[place]} in {place}, its depth says {books.depths.get(place, 0)}")


def _sum(books: Books, names: tuple[str, ...], found: int, odd: Iterable[str] = ()) -> Iterator[Fault]:
    counted = sum(books.counters[name] for name in names)
    if counted != found:
        text = f"{' and '.join(names)} was counted {counted} times, found are {found}"
        yield Fault("sums", tuple(sorted(odd)), text)


def _told(books: Books, event: str) -> set[str]:
    """The jobs that have come to this in the end."""
    last = {line.job: line.event for line in books.journal if line.event in LASTING}
    return {job for job, found in last.items() if found == event}


def _in(books: Books, state: str) -> list[str]:
    return [row.id for row in books.jobs if row.state == state]


def letters_are_of_the_dead(ledger: Ledger) -> Iterator[Fault]:
    """G5: each dead job has one open letter, nobody else has, and each group counts its own."""
    books = ledger.books
    open_letters = {letter.id for letter in books.letters if letter.state == "open"}
    dead = set(_in(books, "dead"))
    yield from _each("letters", "dead without an open letter", dead - open_letters)
    yield from _each("letters", "an open letter, and not dead", open_letters - dead)
    members = Counter(letter.group for letter in books.letters if letter.state == "open")
    for group in sorted({*members, *books.groups}):
        if members[group] != books.groups.get(group, 0):
            ids = tuple(letter.id for letter in books.letters if letter.group == group)
            yield Fault("letters", ids, f"group {group} counts {books.groups.get(group, 0)}, it has {members[group]}")


def file_is_whole(ledger: Ledger) -> Iterator[Fault]:
    """The database passes SQLite's own check."""
    if ledger.books.integrity != ("ok",):
        yield Fault("integrity", (), "; ".join(ledger.books.integrity[:5]))


def tape_is_whole(ledger: Ledger) -> Iterator[Fault]:
    """Each process that died can have torn one record."""
    if len(ledger.tape.torn) > ledger.kills:
        yield Fault("tape", (), f"{len(ledger.tape.torn)} records are torn, and {ledger.kills} processes died")


RULES: tuple[Rule, ...] = (
    nothing_is_lost,
    one_state,
    everything_ends,
    nobody_comes_uninvited,
    epochs_are_earned,
    starts_are_bounded,
    starts_are_told,
    fences_are_used_once,
    one_completion,
    ends_are_told,
    done_means_run,
    sums_add_up,
    letters_are_of_the_dead,
    file_is_whole,
    tape_is_whole,
)


def audit(ledger: Ledger) -> list[Fault]:
    """Every promise that was not kept."""
    return [fault for rule in RULES for fault in rule(ledger)]


def ledger_of(
    store: Path, tape: Path, *, drained: bool = True, kills: int = 0, limits: Mapping[str, Limits] | None = None
) -> Ledger:
    """The accounts in these two files."""
    return Ledger(tapes.read(tape), read_books(store), drained, kills, limits or {})

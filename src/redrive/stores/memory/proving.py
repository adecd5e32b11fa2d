"""Adding everything up in memory, and the seals on the trail."""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from redrive.job import State
from redrive.ledger import (
    COUNTED,
    FIRST,
    FLAWS,
    Kept,
    Noted,
    Proof,
    Tell,
    Trail,
    accounts,
    examined,
    flaw,
    line_of,
    link,
    seqs_in,
)
from redrive.letter import Letter, LetterState
from redrive.store import Entry
from redrive.stores.memory.rows import WAITING, Memory, Redriving, Row

_ALIVE = (*WAITING, State.LEASED)
_RELEASED = ("released", "succeeded", "recurred", "otherwise", "discarded")


def prove(memory: Memory, named: int, noted: Noted | None, tell: Tell) -> Proof:
    """Everything at one moment, under the lock."""
    rows = memory.rows
    counts: Counter[tuple[str, str]] = Counter()
    for (_, queue, _, name), n in rows.counters.items():
        if name in COUNTED:
            counts[queue, name] += n
    there = Counter((row.job.queue, row.job.state.value) for row in rows.jobs.values())
    found: dict[str, list[str]] = {kind: [] for kind in FLAWS}
    for looks in (_of_jobs, _of_letters, _of_counts, _of_redrives):
        tell(looks.__name__.removeprefix("_of_"))
        for kind, name in looks(memory):
            found[kind].append(name)
    flaws = [flaw(kind, names, named) for kind, names in found.items()]
    return Proof(
        accounts=accounts(counts, there, {}),
        flaws=[each for each in flaws if each is not None],
        trail=_trail(memory, noted),
    )


def _of_jobs(memory: Memory) -> Iterator[tuple[str, str]]:
    rows = memory.rows
    for id, row in rows.jobs.items():
        letter, state = rows.letters.get(id), row.job.state
        if state is State.DEAD and not _is(letter, LetterState.OPEN):
            yield "dead without letter", id
        if state in _ALIVE and row.job.epoch > 1 and not _is(letter, LetterState.REDRIVEN):
            yield "alive without letter", id
        if id in rows.tombstones:
            yield "in two states", id


def _of_letters(memory: Memory) -> Iterator[tuple[str, str]]:
    rows = memory.rows
    for id, letter in rows.letters.items():
        row = rows.jobs.get(id)
        if letter.state is LetterState.OPEN and not _in(row, State.DEAD):
            yield "letter without dead", id
        if letter.state is LetterState.REDRIVEN and not _in(row, *_ALIVE):
            yield "redriven without job", id
        if id in rows.tombstones:
            yield "letter of purged", id
        if not letter.failures:
            yield "letter without failure", id
    yield from (("payload without letter", id) for id in rows.replaced if id not in rows.letters)


def _of_counts(memory: Memory) -> Iterator[tuple[str, str]]:
    rows = memory.rows
    there = Counter((row.job.queue, row.job.state) for row in rows.jobs.values())
    for queue, state in sorted(there.keys() | rows.depths.keys()):
        if there[queue, state] != rows.depths[queue, state]:
            yield "depth", f"{queue} {state.value}"
    groups = Counter(letter.group for letter in rows.letters.values() if letter.state is LetterState.OPEN)
    for name in sorted(groups.keys() | rows.groups.keys()):
        group = rows.groups.get(name)
        if groups[name] != (group.count if group else 0):
            yield "group count", name


def _of_redrives(memory: Memory) -> Iterator[tuple[str, str]]:
    for id, driven in memory.rows.redrives.items():
        for letter, held in driven.items.items():
            row = memory.rows.jobs.get(letter)
            if held.item.state == "released" and not (row and row.job.epoch == held.epoch and _in(row, *_ALIVE)):
                yield "item without job", letter
        if driven.row.total != len(driven.items):
            yield "redrive total", id
        if _tallies(driven) != _tallies_of_items(driven):
            yield "redrive tally", id


def _tallies(driven: Redriving) -> dict[str, tuple[int, ...]]:
    return {t.cause: (t.total, t.skipped, t.released, t.succeeded, t.recurred, t.otherwise, t.discarded)
            for t in driven.causes.values()}  # fmt: skip


def _tallies_of_items(driven: Redriving) -> dict[str, tuple[int, ...]]:
    states: dict[str, Counter[str]] = {}
    for held in driven.items.values():
        states.setdefault(held.item.cause, Counter())[held.item.state] += 1
    names = ("succeeded", "recurred", "otherwise", "discarded")
    return {
        cause: (n.total(), n["skipped"], sum(n[name] for name in _RELEASED), *(n[name] for name in names))
        for cause, n in states.items()
    }


def _is(letter: Letter | None, state: LetterState) -> bool:
    return letter is not None and letter.state is state


def _in(row: Row | None, *states: State) -> bool:
    return row is not None and row.job.state in states


# the trail ------------------------------------------------------------------------------------------------------------


def seal(memory: Memory, limit: int) -> int:
    """Put up to `limit` entries under a seal."""
    rows = memory.rows
    later = (entry for entry in rows.entries if entry.seq > rows.sealed_upto and entry.actor is not None)
    chosen = [entry for entry, _ in zip(later, range(limit), strict=False)]
    if chosen:
        number, at, lines = len(rows.seals) + 1, memory.clock.now(), b"".join(map(_line, chosen))
        before = rows.seals[-1].hash if rows.seals else FIRST
        rows.seals.append(Kept(number, at, len(chosen), link(before, number, at, lines), lines))
        rows.sealed_upto = chosen[-1].seq
    return len(chosen)


def _trail(memory: Memory, noted: Noted | None) -> Trail:
    rows = memory.rows
    entries = {entry.seq: entry for entry in rows.entries}
    found = examined(rows.seals, lambda number: _under(rows.seals[number - 1], entries), noted)
    unsealed = sum(entry.seq > rows.sealed_upto and entry.actor is not None for entry in rows.entries)
    return msgspec.structs.replace(found, unsealed=unsealed)


def _under(kept: Kept, entries: Mapping[int, Entry]) -> list[bytes]:
    return [_line(entries[seq]) for seq in seqs_in(kept.lines) if seq in entries]


def _line(entry: Entry) -> bytes:
    return line_of(entry.seq, msgspec.structs.astuple(entry)[1:])

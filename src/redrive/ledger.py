"""The ledger: what came into each queue, what went and what is there; what does not fit, and the seals on the trail."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from redrive.errors import NotFound, UsageError

CAME = ("enqueued", "imported", "restored", "moved_in")
"""Counts of jobs that a queue gained; a restored one had been counted as discarded."""

WENT = ("done", "discarded", "dead_purged", "moved_out")
"""Counts of jobs that it lost; of purged letters only those whose job was dead, the others had gone before."""

HERE = ("scheduled", "ready", "leased", "dead")
"""States in which a job is there."""

COUNTED = CAME + WENT

Tell = Callable[[str], None]
"""Hears what is looked at now; any thread may call it."""


def unheard(step: str) -> None:
    """Nobody wants to know how far it is."""


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the jobs of a queue came and went as they were counted, and where they are as rows."""

    queue: str
    enqueued: int = 0
    imported: int = 0
    restored: int = 0
    moved_in: int = 0
    done: int = 0
    discarded: int = 0
    dead_purged: int = 0
    moved_out: int = 0
    scheduled: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0
    carried: int = 0  # what was there beyond what had been counted, when the books were opened

    @property
    def came(self) -> int:
        """All that it gained."""
        return self.carried + self.enqueued + self.imported + self.restored + self.moved_in

    @property
    def went(self) -> int:
        """All that it lost."""
        return self.done + self.discarded + self.dead_purged + self.moved_out

    @property
    def live(self) -> int:
        """All that waits or runs."""
        return self.scheduled + self.ready + self.leased

    @property
    def here(self) -> int:
        """All that is there."""
        return self.live + self.dead

    @property
    def missing(self) -> int:
        """How many came and neither went nor are there; below zero: so many are there that never came."""
        return self.came - self.went - self.here


def accounts(
    counts: Mapping[tuple[str, str], int], rows: Mapping[tuple[str, str], int], carried: Mapping[str, int]
) -> list[Account]:
    """An account for each queue that has counts or rows, from both by queue and name."""
    queues = sorted({queue for queue, _ in (*counts, *rows)} | carried.keys())
    return [
        Account(
            queue=queue,
            carried=carried.get(queue, 0),
            **{name: counts.get((queue, name), 0) for name in COUNTED},
            **{state: rows.get((queue, state), 0) for state in HERE},
        )
        for queue in queues
    ]


FLAWS = {
    "dead without letter": "dead jobs have no open letter: it was deleted or changed behind the store's back",
    "letter without dead": "open letters have no dead job: it was deleted or changed behind the store's back",
    "redriven without job": "letters are brought back, but their job neither waits nor runs",
    "alive without letter": "jobs in a later epoch wait or run, but no letter says that it was brought back",
    "in two states": "jobs are there and finished, or purged, at once",
    "letter of purged": "letters are there although they were purged",
    "letter without failure": "letters have no failure: the record of why they died is gone",
    "failure without job": "failures belong to no job and no letter: a row was deleted behind the store's back",
    "payload without letter": "kept payloads belong to no letter",
    "item without job": "letters were released by a redrive, but their job does not wait or run in that epoch",
    "redrive total": "redrives have another number of letters than they say",
    "redrive tally": "causes in a redrive have other numbers than their letters say",
    "depth": "queues have other numbers of jobs in a state than are counted as depth",
    "group count": "groups have another number of open letters than they say, or are gone",
    "letter totals": "queues have other numbers of open letters, or of held ones, than are counted for `dlq stats`",
}
"""What can be wrong among the rows that are kept, by kind; the reference lists them from here."""


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of which one says something else than another."""

    kind: str
    n: int
    names: tuple[str, ...]  # the first of them: ids, or queues and groups

    @property
    def what(self) -> str:
        """What is wrong with them, as a phrase."""
        return FLAWS[self.kind]


def flaw(kind: str, names: Iterable[str], limit: int) -> Flaw | None:
    """All of a kind counted, the first of them named; None when there is none."""
    first: list[str] = []
    n = 0
    for name in names:
        n += 1
        if len(first) < limit:
            first.append(name)
    return Flaw(kind=kind, n=n, names=tuple(first)) if n else None


# --- the trail --------------------------------------------------------------------------------------------------------


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A mark under entries of the journal that nobody can change any more without its being seen."""

    number: int
    at: int
    n: int
    hash: str

    @property
    def name(self) -> str:
        """As a person notes it elsewhere."""
        return f"{self.number}:{self.hash[:NOTED]}"


NOTED = 16
"""So many digits of a hash are noted."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The first entry that does not fit its seal."""

    seal: int
    why: str
    entry: int | None = None  # its sequence number


class Trail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people did, as the journal has it, and whether the seals on it hold."""

    sealed: int = 0
    forgotten: int = 0  # of these, by retention: their seals are kept
    unsealed: int = 0
    last: Seal | None = None
    broken: Broken | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What adding everything up has come to."""

    accounts: list[Account]
    flaws: list[Flaw]
    trail: Trail
    since: int | None = None  # when the books were opened, if there were jobs before

    @property
    def off(self) -> list[Account]:
        """The queues that do not add up."""
        return [account for account in self.accounts if account.missing]

    @property
    def adds_up(self) -> bool:
        """Whether nothing is missing, nothing is too much, no row contradicts another, and every seal holds."""
        return not self.off and not self.flaws and self.trail.broken is None


def narrowed(proof: Proof, queues: Sequence[str]) -> Proof:
    """The accounts of these queues, if any are named; what rows and seals say is of the whole store."""
    known = {account.queue: account for account in proof.accounts}
    for queue in queues:
        if queue not in known:
            raise NotFound(f"queue {queue} has no jobs and never had; there are {', '.join(known) or 'none'}")
    if not queues:
        return proof
    return msgspec.structs.replace(proof, accounts=[known[queue] for queue in dict.fromkeys(queues)])


DIGEST = 32
_LINE = 8 + DIGEST
FIRST = bytes(DIGEST)
"""What comes before the first seal."""


def line_of(seq: int, fields: Sequence[object]) -> bytes:
    """An entry as it stands under a seal: its number, and a digest of all that it says."""
    text = json.dumps([seq, *fields], ensure_ascii=True, separators=(",", ":"))
    return seq.to_bytes(8, "big") + hashlib.sha256(text.encode()).digest()


def seqs_in(lines: bytes) -> list[int]:
    """The numbers of the entries that stand under a seal."""
    return [int.from_bytes(lines[at : at + 8], "big") for at in range(0, len(lines), _LINE)]


def link(before: bytes, number: int, at: int, lines: bytes) -> bytes:
    """The hash of a seal: over the one before it, and what is under it."""
    return hashlib.sha256(before + number.to_bytes(8, "big") + at.to_bytes(8, "big") + lines).digest()


class Kept(NamedTuple):
    """A seal as a store keeps it."""

    number: int
    at: int
    n: int
    hash: bytes
    lines: bytes
    forgotten: bool = False  # its entries were, by retention; what stands here for them is still linked


Noted = tuple[int, str]
"""A seal that somebody has noted elsewhere: its number, and how its hash begins."""


def noted_seal(text: str) -> Noted:
    """What a person noted, such as `12:3f2a9c04d1b7e855`."""
    number, _, digits = text.strip().partition(":")
    if not number.isdecimal() or not re.fullmatch(r"[0-9a-f]{8,64}", digits.lower()):
        raise UsageError(f"{text!r} is no seal; write it as `redrive prove` shows it, such as 12:3f2a9c04d1b7e855")
    return int(number), digits.lower()


def examined(seals: Iterable[Kept], under: Callable[[int], Sequence[bytes]], noted: Noted | None) -> Trail:
    """Whether the seals hold: each by what is under it and by the one before; `under` answers entries as lines."""
    before, last = FIRST, Seal(number=0, at=0, n=0, hash="")
    sealed, forgotten, broken = 0, 0, None
    for kept in seals:
        broken = broken or _unfit(kept, before, last.number + 1, under)
        last = Seal(number=kept.number, at=kept.at, n=kept.n, hash=kept.hash.hex())
        if noted is not None and noted[0] == last.number and not last.hash.startswith(noted[1]):
            broken = broken or Broken(seal=last.number, why="is not the one that was noted elsewhere")
        before, sealed, forgotten = kept.hash, sealed + kept.n, forgotten + kept.n * kept.forgotten
    if noted is not None and noted[0] > last.number:
        broken = broken or Broken(seal=noted[0], why="was noted elsewhere and is not there: the trail was cut")
    return Trail(sealed=sealed, forgotten=forgotten, last=last if last.number else None, broken=broken)


def _unfit(kept: Kept, before: bytes, number: int, under: Callable[[int], Sequence[bytes]]) -> Broken | None:
    if kept.number != number:
        return Broken(seal=number, why="is missing")
    broken = _first_unfit(kept, under(number))
    if broken is None and link(before, number, kept.at, kept.lines) != kept.hash:
        return Broken(seal=number, why="was changed itself, or one before it was")
    return broken


def _first_unfit(kept: Kept, found: Sequence[bytes]) -> Broken | None:
    """The first entry that is missing, was changed or was put in; one that is forgotten is not missing."""
    wanted = {kept.lines[at : at + 8]: kept.lines[at : at + _LINE] for at in range(0, len(kept.lines), _LINE)}
    there = {line[:8]: line for line in found}
    for seq in sorted(there.keys() if kept.forgotten else wanted.keys() | there.keys()):
        if wanted.get(seq) != there.get(seq):
            why = "was changed" if seq in wanted and seq in there else "is missing" if seq in wanted else "was put in"
            return Broken(seal=kept.number, why=why, entry=int.from_bytes(seq, "big"))
    return None

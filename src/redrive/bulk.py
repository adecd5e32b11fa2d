"""Many letters at once: which are meant, and discarding, restoring or purging them a chunk at a time.

What a filter means is the business of operations.py; here are the few that somebody names. Each chunk is one
transaction. Letters that fail after the cut-off are not touched.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from redrive.disposal import NEVER
from redrive.errors import UsageError
from redrive.letter import LetterState
from redrive.query.parsing import parse
from redrive.query.tree import OPEN, Among, Both, Compare, Either, Not, Tree, fields_in
from redrive.store import Disposed, Store
from redrive.targets import Targets

CHUNK = 2_000
NAMED_LIMIT = 500
"""So many letters and groups are named at once; more are a filter's business."""

Verb = Literal["discard", "restore", "purge"]
Wanted = Literal["discard", "restore", "purge", "edit"]
_DISCARDED = Compare("state", "=", LetterState.DISCARDED.value)
_NOT_REDRIVEN = Not(Compare("state", "=", LetterState.REDRIVEN.value))


@dataclass(slots=True)
class Tally:
    """How many letters were dealt with, and why others were left."""

    done: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def add(self, chunk: Disposed) -> None:
        """One chunk more."""
        self.done += len(chunk.ids)
        self.left.update(chunk.left.values())


def chosen(verb: Wanted, filter: str, named: Targets | None, now: int, *, all: bool) -> Tree:
    """The letters that a verb is to be done to: those named, those of a filter, or all that it can be done to."""
    one_answer(verb, all=all, some=named is not None or bool(filter.strip()))
    terms = [parse(filter, now), _able(verb, filter, now, named), Compare("failed_at", "<=", now)]
    return Both(tuple(terms if named is None else [*terms, named_in(named)]))


def one_answer(verb: str, *, all: bool, some: bool) -> None:
    """Refuse to act on everything unless that is asked for, and on some when everything is."""
    if not some and not all:
        raise UsageError(f"nothing says which letters to {verb}; name some, give a filter, or say all=True (--all)")
    if some and all:
        raise UsageError(f"there are two answers to which letters to {verb}: some, and all; leave one out")


def _able(verb: Wanted, filter: str, now: int, named: Targets | None) -> Tree:
    """In which states a verb finds letters; purging takes other than open ones only when asked for."""
    if verb == "restore":
        return _DISCARDED
    asked = bool(named and named.letters) or "state" in fields_in(parse(filter, now))
    return _NOT_REDRIVEN if verb == "purge" and asked else OPEN


def named_in(named: Targets) -> Tree:
    """The letters that are named, and those of the groups that are."""
    if len(named.groups) + len(named.letters) > NAMED_LIMIT:
        raise UsageError(f"these are more than {NAMED_LIMIT} names; say what they have in common as a filter")
    ids = tuple(id.replace("-", "") for id in named.letters)
    return Either((Among("group", named.groups), Among("id", ids)))


async def disposed(
    store: Store, verb: Verb, tree: Tree, actor: str, reason: str, upto: int = NEVER
) -> AsyncIterator[Disposed]:
    """Do it to all that are meant, a chunk at a time."""
    deal = _deal(store, verb, actor, reason, upto)
    after, more = None, True
    while more:
        page = await store.letters.find(tree, after, CHUNK)
        after, more = page.after, page.after is not None
        if page.letters:
            yield await deal([letter.id for letter in page.letters])


async def disposed_by_id(
    store: Store, verb: Verb, ids: Iterable[str], actor: str, reason: str
) -> AsyncIterator[Disposed]:
    """Do it to these letters, a chunk at a time."""
    deal = _deal(store, verb, actor, reason, NEVER)
    every = list(dict.fromkeys(ids))
    for begin in range(0, len(every), CHUNK):
        yield await deal(every[begin : begin + CHUNK])


def _deal(store: Store, verb: Verb, actor: str, reason: str, upto: int) -> Callable[[list[str]], Awaitable[Disposed]]:
    match verb:
        case "discard":
            return lambda ids: store.letters.discard(ids, actor, reason, upto)
        case "restore":
            return lambda ids: store.letters.restore(ids, actor, reason)
        case "purge":
            return lambda ids: store.letters.purge(ids, actor, reason, upto)

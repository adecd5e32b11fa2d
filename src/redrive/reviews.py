"""Holding letters for a person, and saying that one has looked: some, or thousands, a chunk at a time."""

from collections.abc import AsyncIterator

from redrive.bulk import CHUNK, named_in
from redrive.errors import UsageError
from redrive.query.parsing import parse
from redrive.query.tree import OPEN, Both, Missing, Not, Tree
from redrive.store import Disposed, Store
from redrive.targets import Targets

WHY_LIMIT = 1_000
HELD: Tree = Both((OPEN, Not(Missing("review"))))
"""The open letters that need a person."""


def to_review(filter: str, named: Targets | None, now: int, *, held: bool, all: bool) -> Tree:
    """The open letters that are meant; `held`: only those that need a person."""
    if named is None and not filter.strip() and not all:
        raise UsageError("nothing says which letters are meant; name some, give a filter, or say all=True (--all)")
    terms: list[Tree] = [HELD if held else OPEN, parse(filter, now)]
    return Both(tuple(terms if named is None else [*terms, named_in(named)]))


async def reviewed(store: Store, tree: Tree, why: str | None, actor: str) -> AsyncIterator[Disposed]:
    """Say why all that are meant need a person, or with None that they need none any more."""
    after, more = None, True
    while more:
        page = await store.letters.find(tree, after, CHUNK)
        after, more = page.after, page.after is not None
        if page.letters:
            yield await store.letters.review([letter.id for letter in page.letters], why, actor)


def why_of(text: str) -> str:
    """A reason as every store can keep it."""
    text = " ".join(text.split())
    if not 1 <= len(text) <= WHY_LIMIT or not text.isprintable():
        raise UsageError(f"say in 1 to {WHY_LIMIT:,} characters what a person has to look at")
    return text

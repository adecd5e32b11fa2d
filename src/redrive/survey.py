"""What a filter means, seen from afar before anything is done: how many letters, of which groups, from when to when."""

from collections import Counter
from dataclasses import dataclass

import msgspec

from redrive.letter import Group, Letter
from redrive.query.tree import EVERYTHING, Both, Tree, looks_inside
from redrive.store import Store
from redrive.triage import MOST_GROUPS, Look, pages, unseen

PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Survey:
    """What a filter means."""

    letters: int
    groups: list[Group]
    """Most letters first, each counted among those that are meant."""
    oldest: int | None
    newest: int | None


def outer(query: Tree) -> Tree:
    """What can be known of a filter without a look inside: the letters that have to be looked at for it."""
    match query:
        case Both(terms):
            return Both(tuple(map(outer, terms)))
        case _:
            return EVERYTHING if looks_inside(query) else query


async def surveyed(store: Store, query: Tree, look: Look = unseen) -> Survey:
    """How many letters are meant, of which groups; where that takes a look at each of them, page by page."""
    if looks_inside(query):
        return await _walked(store, query, look)
    outline = await store.letters.outline(query)
    groups = await store.letters.groups(query, MOST_GROUPS) if outline.n else []
    return Survey(outline.n, groups, outline.oldest, outline.newest)


async def _walked(store: Store, query: Tree, look: Look) -> Survey:
    counts: Counter[str] = Counter()
    times: list[int] = []
    async for letters in pages(store, query, size=PAGE, look=look):
        counts.update(letter.group for letter in letters)
        times = _ends(times, letters)
    groups = await _of(store, counts)
    return Survey(counts.total(), groups, min(times, default=None), max(times, default=None))


def _ends(times: list[int], letters: list[Letter]) -> list[int]:
    """The first and the last time so far."""
    times = [*times, *(letter.failed_at for letter in letters)]
    return [min(times), max(times)] if times else []


async def _of(store: Store, counts: Counter[str]) -> list[Group]:
    """The groups that were met, with what was counted in each."""
    known = {group.fingerprint: group for group in await store.letters.groups(None, MOST_GROUPS)} if counts else {}
    found = [msgspec.structs.replace(known[name], count=n) for name, n in counts.items() if name in known]
    return sorted(found, key=lambda group: (-group.count, group.fingerprint))

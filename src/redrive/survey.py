"""What a filter means, seen from afar before anything is done: how many letters, of which groups, from when to when."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from redrive.letter import Group, Letter
from redrive.query.tree import Tree, looks_inside
from redrive.store import Mark, Store

PAGE = 1_000
MOST_GROUPS = 1_000_000

Look = Callable[[int], None]
"""Is told now and then how many letters have been looked at."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a filter means."""

    letters: int
    groups: list[Group]
    """Most letters first, each counted among those that are meant."""
    oldest: int | None
    newest: int | None


async def surveyed(store: Store, query: Tree, look: Look = lambda _: None) -> Survey:
    """How many letters are meant, of which groups; where that takes a look at each of them, page by page."""
    if looks_inside(query):
        return await _walked(store, query, look)
    outline = await store.letters.outline(query)
    groups = await store.letters.groups(query, MOST_GROUPS) if outline.n else []
    return Survey(outline.n, groups, outline.oldest, outline.newest)


async def _walked(store: Store, query: Tree, look: Look) -> Survey:
    counts: Counter[str] = Counter()
    times: list[int] = []
    after: Mark | None = None
    looked = 0
    while True:
        page = await store.letters.find(query, after, PAGE)
        counts.update(letter.group for letter in page.letters)
        times = _ends(times, page.letters)
        looked += len(page.letters) + page.passed
        look(looked)
        after = page.after
        if after is None:
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

"""Letters that are looked at one by one: how far that is, told on a terminal while it takes its time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redrive.cli.line import PATIENCE, Line
from redrive.cli.output import counted, say
from redrive.letter import Group, Letter
from redrive.query.tree import Tree, looks_inside
from redrive.store import Store
from redrive.survey import Survey, outer, surveyed
from redrive.triage import causes, meant, pages, whole


@dataclass(frozen=True, slots=True)
class Looking:
    """Is told how many have been looked at, and tells of it."""

    line: Line
    total: int

    def __call__(self, n: int) -> None:
        if self.line.is_due:
            self.line.write(f"looked at {n:,} of {counted(max(n, self.total), 'letter')}")


@asynccontextmanager
async def looking(store: Store, tree: Tree) -> AsyncIterator[Looking]:
    """While letters of a filter are looked at one by one."""
    with Line(PATIENCE) as line:
        try:
            yield Looking(line, await store.letters.count(outer(tree)) if line.shows else 0)
        except asyncio.CancelledError:
            line.clear()
            say("interrupted while it looked at letters; nothing was changed")
            raise


async def looked_over(store: Store, tree: Tree) -> Survey:
    """How many letters are meant, of which groups, from when to when."""
    if not looks_inside(tree):
        return await surveyed(store, tree)
    async with looking(store, tree) as look:
        return await surveyed(store, tree, look)


async def causes_of(store: Store, filter: str, now: int, limit: int) -> list[Group]:
    """The groups of the letters that a filter means, most letters first."""
    tree = meant(filter, now)
    if not looks_inside(tree):
        return await causes(store, filter, now, limit)
    return (await looked_over(store, tree)).groups[:limit]


async def sought(store: Store, tree: Tree, limit: int) -> AsyncIterator[Letter]:
    """The letters that are meant, the last failure first; the line makes way for each that is printed."""
    if not looks_inside(tree):
        async for page in pages(store, tree, limit):
            for letter in page:
                yield letter
        return
    async with looking(store, tree) as look:
        async for page in pages(store, tree, limit, look=look):
            if page:
                look.line.clear()
            for letter in page:
                yield letter


async def read(store: Store, tree: Tree) -> AsyncIterator[Letter]:
    """The letters that are meant, with payload and every failure."""
    async with looking(store, tree) as look:
        async for letter in whole(store, tree, look=look):
            yield letter

"""Looking through dead letters: find, count, group and see them, by filters."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from redrive.letter import Group, Letter, LetterState
from redrive.portal import portal
from redrive.query.parsing import parse
from redrive.query.tree import Both, Compare, Tree, fields_in
from redrive.store import Mark, Page, Store

if TYPE_CHECKING:
    from redrive.app import Redrive

PAGE = 200

_OPEN = Compare("state", "=", LetterState.OPEN.value)


def meant(filter: str, now: int) -> Tree:
    """What a filter means; one that does not speak of the state means open letters."""
    tree = parse(filter, now)
    return tree if "state" in fields_in(tree) else Both((_OPEN, tree))


async def pages(store: Store, tree: Tree, limit: int | None = None, size: int = PAGE) -> AsyncIterator[list[Letter]]:
    """The letters that are meant, the last failure first, a page at a time, so that memory does not grow with them."""
    after: Mark | None = None
    left = limit
    while left is None or left > 0:
        page: Page = await store.letters.find(tree, after, size if left is None else min(size, left))
        yield page.letters
        if page.after is None:
            return
        after = page.after
        left = None if left is None else left - len(page.letters)


async def causes(store: Store, filter: str, now: int, limit: int) -> list[Group]:
    """The groups of the letters that a filter means; without one the store knows them without counting."""
    if filter.strip():
        return await store.letters.groups(meant(filter, now), limit)
    return [group for group in await store.letters.groups(None, limit) if group.count]


class Letters:
    """The dead letters of an app: `app.letters`. A filter that does not speak of the state means open letters."""

    def __init__(self, app: "Redrive") -> None:
        self._app = app

    async def afind(self, filter: str = "", limit: int | None = None) -> AsyncIterator[Letter]:
        """Letters with payload and every failure, the last failure first, streamed in bounded memory."""
        tree, store = self._meant(filter), await self._app.opened()
        async for page in pages(store, tree, limit):
            for letter in await store.letters.whole([each.id for each in page]):
                yield letter

    def find(self, filter: str = "", limit: int | None = None) -> Iterator[Letter]:
        """Letters with payload and every failure, the last failure first, streamed in bounded memory."""
        portal.refuse_inside_a_loop("find")
        return self._pulled(self.afind(filter, limit))

    def _pulled(self, letters: AsyncIterator[Letter]) -> Iterator[Letter]:
        while (letter := portal.run(lambda: _next(letters), "find")) is not None:
            yield letter

    async def acount(self, filter: str = "") -> int:
        """How many there are."""
        tree = self._meant(filter)
        return await (await self._app.opened()).letters.count(tree)

    def count(self, filter: str = "") -> int:
        """How many there are."""
        return portal.run(lambda: self.acount(filter), "count")

    async def aget(self, id: str) -> Letter | None:
        """The letter of a job, with payload and every failure; None when it has none."""
        return await (await self._app.opened()).letters.get(id)

    def get(self, id: str) -> Letter | None:
        """The letter of a job, with payload and every failure; None when it has none."""
        return portal.run(lambda: self.aget(id), "get")

    async def agroups(self, filter: str = "", limit: int = 100) -> list[Group]:
        """The groups that the letters are in, counted among them, most letters first."""
        return await causes(await self._app.opened(), filter, self._app.clock.now(), limit)

    def groups(self, filter: str = "", limit: int = 100) -> list[Group]:
        """The groups that the letters are in, counted among them, most letters first."""
        return portal.run(lambda: self.agroups(filter, limit), "groups")

    def _meant(self, filter: str) -> Tree:
        return meant(filter, self._app.clock.now())


async def _next(letters: AsyncIterator[Letter]) -> Letter | None:
    return await anext(letters, None)

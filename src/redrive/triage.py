"""Looking through dead letters: find, count, group and see them, by filters."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from redrive.actor import actor
from redrive.bulk import Tally, Verb, chosen, disposed_by_id
from redrive.clock import Duration, micros
from redrive.errors import NotFound, Outdated, UsageError
from redrive.grouping import grouping_from
from redrive.job import encode
from redrive.letter import Group, GroupState, Letter
from redrive.operations import carried_on, to_regroup, to_undo, workshop_of
from redrive.portal import portal
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.query.tree import EVERYTHING, OPEN, Both, Tree, fields_in
from redrive.repair import change_from
from redrive.reviews import reviewed, to_review, why_of
from redrive.store import Change, Edit, Mark, Operation, OperationVerb, Page, Store
from redrive.targets import kept, note_of, targets

if TYPE_CHECKING:
    from redrive.app import Redrive

PAGE = 200
AT_ONCE = 20
"""So many letters are whole in memory at a time: each may be as large as a payload may be."""
MOST_GROUPS = 1_000_000


def meant(filter: str, now: int) -> Tree:
    """What a filter means; one that does not speak of the state means open letters."""
    tree = parse(filter, now)
    return tree if "state" in fields_in(tree) else Both((OPEN, tree))


Look = Callable[[int], None]
"""Is told now and then how many letters have been looked at."""


def unseen(n: int) -> None:
    """For when nobody wants to know."""


async def pages(
    store: Store, tree: Tree, limit: int | None = None, size: int = PAGE, look: Look = unseen
) -> AsyncIterator[list[Letter]]:
    """The letters that are meant, the last failure first, a page at a time, so that memory does not grow with them."""
    after: Mark | None = None
    left, looked = limit, 0
    while left is None or left > 0:
        page: Page = await store.letters.find(tree, after, size if left is None else min(size, left))
        yield page.letters
        looked += len(page.letters) + page.passed
        look(looked)
        if page.after is None:
            return
        after = page.after
        left = None if left is None else left - len(page.letters)


async def whole(store: Store, tree: Tree, limit: int | None = None, look: Look = unseen) -> AsyncIterator[Letter]:
    """The same with payload and every failure; one that is no longer meant when it is read is left out."""
    fits = matcher(tree)
    async for page in pages(store, tree, limit, look=look):
        async for letter in _read(store, [each.id for each in page]):
            if fits(Subject.of(letter)):
                yield letter


async def _read(store: Store, ids: list[str]) -> AsyncIterator[Letter]:
    for begin in range(0, len(ids), AT_ONCE):
        for letter in await store.letters.whole(ids[begin : begin + AT_ONCE]):
            yield letter


async def causes(store: Store, filter: str, now: int, limit: int) -> list[Group]:
    """The groups of the letters that a filter means; without one the store knows them without counting."""
    limit = min(limit, MOST_GROUPS)
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
        async for letter in whole(store, tree, limit):
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

    # their end ------------------------------------------------------------------------------------------------------

    async def adiscard(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """End open letters and their jobs, by filter or ids, or all of them; answers how many."""
        return await self._dispose("discard", filter, ids, reason, all)

    def discard(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """End open letters and their jobs, by filter or ids, or all of them; answers how many."""
        return portal.run(lambda: self._dispose("discard", filter, ids, reason, all), "discard")

    async def arestore(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """Undo discards: dead again, with an open letter; answers how many."""
        return await self._dispose("restore", filter, ids, reason, all)

    def restore(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """Undo discards: dead again, with an open letter; answers how many."""
        return portal.run(lambda: self._dispose("restore", filter, ids, reason, all), "restore")

    async def apurge(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """Remove letters with their failures and jobs, so that the same ids are never added again; answers how many."""
        return await self._dispose("purge", filter, ids, reason, all)

    def purge(
        self, filter: str = "", *, ids: Iterable[str] | str | None = None, reason: str = "", all: bool = False
    ) -> int:
        """Remove letters with their failures and jobs, so that the same ids are never added again; answers how many."""
        return portal.run(lambda: self._dispose("purge", filter, ids, reason, all), "purge")

    async def _dispose(self, verb: Verb, filter: str, ids: Iterable[str] | str | None, reason: str, every: bool) -> int:
        now, tally = self._app.clock.now(), Tally()
        if ids is not None and (filter.strip() or every):
            raise UsageError(f"say which letters to {verb} by their ids, by a filter or with all=True, not by several")
        tree = chosen(verb, filter, None, now, all=every) if ids is None else None
        store = await self._app.opened()
        if tree is not None:
            return (await self._carried(verb, tree, reason, filter, Change())).done
        async for chunk in disposed_by_id(store, verb, [ids] if isinstance(ids, str) else ids or (), actor(), reason):
            tally.add(chunk)
        return tally.done

    # what their jobs are given --------------------------------------------------------------------------------------

    async def aedit(self, id: str, payload: Any, *, version: int | None = None, reason: str = "") -> Letter:
        """Give the job of an open letter another payload; Outdated when the letter is not at `version` any more."""
        store = await self._app.opened()
        letter = await store.letters.get(id)
        if letter is None:
            raise NotFound(f"there is no letter {id}; app.letters.find() shows those there are")
        text = encode(payload, limit=self._app.config.payload_limit)
        task = self._app.registry.get(letter.task)
        if task is not None:
            task.bind(text)
        edit = Edit(letter.id, letter.version if version is None else version, text)
        answer = await store.letters.edit([edit], actor(), reason)
        if answer.left:
            raise Outdated(f"letter {id[-8:]} was not edited: {answer.left[letter.id]}; look at it again")
        edited = msgspec.structs.replace(
            letter, version=edit.version + 1, payload=text, payload_version=letter.payload_version + 1
        )
        return await store.letters.get(letter.id) or edited  # somebody may have purged it meanwhile

    def edit(self, id: str, payload: Any, *, version: int | None = None, reason: str = "") -> Letter:
        """Give the job of an open letter another payload; Outdated when the letter is not at `version` any more."""
        return portal.run(lambda: self.aedit(id, payload, version=version, reason=reason), "edit")

    async def aedit_all(
        self,
        filter: str = "",
        *,
        set: Mapping[str, Any] | None = None,
        patch: list[dict[str, Any]] | None = None,
        reason: str = "",
        all: bool = False,
        force: bool = False,
    ) -> Operation:
        """The same change to the payloads of all open letters that a filter means; answers what was done and left.

        `set={"payload.user.tier": "gold"}` or a JSON Patch. What does not fit its task is left, unless `force`.
        """
        settings = [f"{place}={encode(value).decode()}" for place, value in (set or {}).items()]
        change = change_from(settings, patch, force=force)
        change = msgspec.structs.replace(change, checked=tuple(self._app.tasks))
        tree = chosen("edit", filter, None, self._app.clock.now(), all=all)
        return await self._carried("edit", tree, reason, filter, change)

    def edit_all(
        self,
        filter: str = "",
        *,
        set: Mapping[str, Any] | None = None,
        patch: list[dict[str, Any]] | None = None,
        reason: str = "",
        all: bool = False,
        force: bool = False,
    ) -> Operation:
        """The same change to the payloads of all open letters that a filter means; answers what was done and left.

        `set={"payload.user.tier": "gold"}` or a JSON Patch. What does not fit its task is left, unless `force`.
        """
        return portal.run(
            lambda: self.aedit_all(filter, set=set, patch=patch, reason=reason, all=all, force=force), "edit_all"
        )

    async def aundo(self, operation: str, reason: str = "") -> Operation:
        """Take an edit of many letters back, by its id; a letter that something has happened to since is left."""
        edit = await to_undo(await self._app.opened(), operation)
        return await self._carried(
            "undo", EVERYTHING, reason, f"those that edit {edit.id[-8:]} has changed", Change(undo=edit.id)
        )

    def undo(self, operation: str, reason: str = "") -> Operation:
        """Take an edit of many letters back, by its id; a letter that something has happened to since is left."""
        return portal.run(lambda: self.aundo(operation, reason), "undo")

    async def aregroup(self, filter: str = "", *, reason: str = "", all: bool = False) -> Operation:
        """Put letters into the groups that the rules of the configuration give them now; answers how many moved."""
        change = Change(rules=self._app.config.fingerprints)
        grouping_from(change.rules)
        return await self._carried(
            "regroup", to_regroup(filter, self._app.clock.now(), all=all), reason, filter, change
        )

    def regroup(self, filter: str = "", *, reason: str = "", all: bool = False) -> Operation:
        """Put letters into the groups that the rules of the configuration give them now; answers how many moved."""
        return portal.run(lambda: self.aregroup(filter, reason=reason, all=all), "regroup")

    async def _carried(self, verb: OperationVerb, tree: Tree, reason: str, filter: str, change: Change) -> Operation:
        store = await self._app.opened()
        operation = await store.operations.open(verb, tree, actor(), reason, filter=filter, change=change)
        return await carried_on(store, operation, workshop_of(self._app))

    # what is said of them -------------------------------------------------------------------------------------------

    async def aassign(self, what: Iterable[str] | str, owner: str | None) -> int:
        """Say who looks after groups (`"group:3f2a"`) and letters (by their ids), None for nobody."""
        store = await self._app.opened()
        found = await targets(store, what)
        return await store.letters.assign(owner and kept(owner), actor(), found.groups, found.letters)

    def assign(self, what: Iterable[str] | str, owner: str | None) -> int:
        """Say who looks after groups (`"group:3f2a"`) and letters (by their ids), None for nobody."""
        return portal.run(lambda: self.aassign(what, owner), "assign")

    async def anote(self, what: Iterable[str] | str, text: str) -> int:
        """Write a note on groups and letters; it outlives their retries."""
        store = await self._app.opened()
        found = await targets(store, what)
        return await store.letters.note(note_of(text), actor(), found.groups, found.letters)

    def note(self, what: Iterable[str] | str, text: str) -> int:
        """Write a note on groups and letters; it outlives their retries."""
        return portal.run(lambda: self.anote(what, text), "note")

    async def areview(
        self, what: Iterable[str] | str = (), reason: str | None = None, *, filter: str = "", all: bool = False
    ) -> int:
        """Hold open letters until a person has looked; without a reason let those go that are held: how many."""
        named = what if isinstance(what, str) else tuple(what)
        store, tally = await self._app.opened(), Tally()
        found = await targets(store, named) if named else None
        tree = to_review(filter, found, self._app.clock.now(), held=reason is None, all=all)
        async for chunk in reviewed(store, tree, None if reason is None else why_of(reason), actor()):
            tally.add(chunk)
        return tally.done

    def review(
        self, what: Iterable[str] | str = (), reason: str | None = None, *, filter: str = "", all: bool = False
    ) -> int:
        """Hold open letters until a person has looked; without a reason let those go that are held: how many."""
        return portal.run(lambda: self.areview(what, reason, filter=filter, all=all), "review")

    async def amute(self, groups: Iterable[str] | str, duration: Duration | None = None, reason: str = "") -> int:
        """Leave groups out of `dlq groups` for this long, or until they are opened; answers how many."""
        until = None if duration is None else self._app.clock.now() + micros(duration)
        return await self._set(groups, GroupState.MUTED, reason, until=until)

    def mute(self, groups: Iterable[str] | str, duration: Duration | None = None, reason: str = "") -> int:
        """Leave groups out of `dlq groups` for this long, or until they are opened; answers how many."""
        return portal.run(lambda: self.amute(groups, duration, reason), "mute")

    async def aclose(self, groups: Iterable[str] | str, release: str | None = None, reason: str = "") -> int:
        """Say that the cause of groups is fixed, in a release; a new letter opens them again."""
        return await self._set(groups, GroupState.CLOSED, reason, release=release and kept(release, "release"))

    def close(self, groups: Iterable[str] | str, release: str | None = None, reason: str = "") -> int:
        """Say that the cause of groups is fixed, in a release; a new letter opens them again."""
        return portal.run(lambda: self.aclose(groups, release, reason), "close")

    async def areopen(self, groups: Iterable[str] | str, reason: str = "") -> int:
        """Open groups that were muted or closed; answers how many."""
        return await self._set(groups, GroupState.OPEN, reason)

    def reopen(self, groups: Iterable[str] | str, reason: str = "") -> int:
        """Open groups that were muted or closed; answers how many."""
        return portal.run(lambda: self.areopen(groups, reason), "reopen")

    async def _set(
        self,
        words: Iterable[str] | str,
        state: GroupState,
        reason: str,
        *,
        until: int | None = None,
        release: str | None = None,
    ) -> int:
        store = await self._app.opened()
        found = (await targets(store, words, letters=False)).groups
        return len(await store.letters.set_groups(found, state, actor(), reason=reason, until=until, release=release))

    def _meant(self, filter: str) -> Tree:
        return meant(filter, self._app.clock.now())


async def _next(letters: AsyncIterator[Letter]) -> Letter | None:
    return await anext(letters, None)

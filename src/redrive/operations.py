"""Bulk operations, carried on by whoever is there: the process that began one, another one, or a worker.

All that is known of one stands in the store. What the next chunk is to be is worked out here, payloads and groups
included, and handed over with the place up to which it goes; several may do so at once, and each chunk is done once.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from redrive.bulk import one_answer
from redrive.errors import NotFound, UsageError
from redrive.grouping import Grouping, grouping_from
from redrive.letter import Letter
from redrive.query.parsing import parse
from redrive.query.tree import Both, Compare, Not, Tree, fields_in
from redrive.repair import SAME, Preview, Workshop, edit_of
from redrive.store import Change, Edit, Mark, Move, Operation, Page, Share, Store

if TYPE_CHECKING:
    from redrive.app import Redrive

CHUNK = 2_000
WHOLE = 200
"""So many letters are read with their payloads for one chunk."""

AT_ONCE = 20
MOST_BYTES = 8 * 1024 * 1024
"""A chunk ends early when the payloads of its edits are larger than this together."""

STILL = 3_000_000
"""Workers leave an operation alone that has come further within so many microseconds: somebody is at it."""

Look = Callable[[Operation], Any]


async def advance(store: Store, operation: Operation, workshop: Workshop) -> Operation:
    """One chunk of an operation; answers how it stands then, whoever has brought it there."""
    share = await _share(store, operation, workshop)
    answer = await store.operations.step(operation.id, operation.mark, share)
    if answer is None:
        raise NotFound(f"there is no operation {operation.id} in {store.url}")
    return answer


async def carried_on(
    store: Store, operation: Operation, workshop: Workshop, look: Look = lambda operation: None
) -> Operation:
    """Bring an operation to its end, beside whoever else does; `look` is called after each chunk."""
    while operation.state == "running":
        operation = await advance(store, operation, workshop)
        look(operation)
    return operation


def workshop_of(app: "Redrive") -> Workshop:
    """Payloads are checked against the tasks of an app, where it knows them."""

    def fits(task: str, payload: bytes) -> None:
        known = app.registry.get(task)
        if known is not None:
            known.bind(payload)

    return Workshop(fits, app.config.payload_limit, lambda task: app.registry.get(task) is not None)


async def _share(store: Store, operation: Operation, workshop: Workshop) -> Share:
    match operation.verb:
        case "undo":
            return await _undone(store, operation)
        case "edit":
            return await _edited(store, operation, workshop)
        case "regroup":
            return await _moved(store, operation)
    page = await store.letters.find(operation.query, operation.mark, CHUNK)
    return Share(mark=page.after, ids=tuple(letter.id for letter in page.letters))


async def _undone(store: Store, operation: Operation) -> Share:
    ids = await store.operations.members(operation.change.undo, operation.mark, CHUNK)
    return Share(mark=(0, ids[-1]) if len(ids) == CHUNK else None, ids=tuple(ids))


async def _edited(store: Store, operation: Operation, workshop: Workshop) -> Share:
    page = await store.letters.find(operation.query, operation.mark, WHOLE)
    edits, left, size, mark = list[Edit](), dict[str, str](), 0, page.after
    async for letter in _whole(store, page):
        edit = edit_of(letter, operation.change, workshop)
        if isinstance(edit, str):
            left[letter.id] = edit
            continue
        edits.append(edit)
        size += len(edit.payload)
        if size > MOST_BYTES and letter.id != page.letters[-1].id:
            mark = (letter.failed_at, letter.id)
            break
    return Share(mark=mark, edits=tuple(edits), left=left)


async def _moved(store: Store, operation: Operation) -> Share:
    grouping = grouping_from(operation.change.rules)
    page = await store.letters.find(operation.query, operation.mark, WHOLE)
    found = [move_of(letter, grouping) async for letter in _whole(store, page)]
    return Share(mark=page.after, moves=tuple(move for move in found if move is not None))


async def _whole(store: Store, page: Page) -> AsyncIterator[Letter]:
    """The letters of a page with their payloads; one that has failed again since is not at its place any more."""
    places: dict[str, Mark] = {letter.id: (letter.failed_at, letter.id) for letter in page.letters}
    ids = list(places)
    for begin in range(0, len(ids), AT_ONCE):
        for letter in await store.letters.whole(ids[begin : begin + AT_ONCE]):
            if (letter.failed_at, letter.id) == places[letter.id]:
                yield letter


def move_of(letter: Letter, grouping: Grouping) -> Move | None:
    """Where a letter belongs by the rules; None when it is there already."""
    if not letter.failures:
        return None
    last = grouping.again(letter)
    if last.fingerprint == letter.group:
        return None
    return Move(
        id=letter.id,
        failed_at=letter.failed_at,
        before=letter.group,
        group=last.fingerprint,
        title=last.title,
        plain=last.plain,
        plain_title=last.plain_title,
    )


# which letters --------------------------------------------------------------------------------------------------------


def to_regroup(filter: str, now: int, *, all: bool) -> Tree:
    """The letters that are regrouped: all but those that are closed, unless the filter speaks of the state."""
    one_answer("regroup", all=all, some=bool(filter.strip()))
    tree = parse(filter, now)
    known = Compare("failed_at", "<=", now)
    return Both((tree, known) if "state" in fields_in(tree) else (tree, known, Not(Compare("state", "=", "closed"))))


async def to_undo(store: Store, id: str) -> Operation:
    """The edit that is to be taken back, or why it cannot be."""
    operation = await store.operations.get(id)
    if operation is None:
        raise NotFound(f"there is no operation {id}; `redrive operations list` shows those there are")
    if operation.verb != "edit":
        raise UsageError(f"operation {id[-8:]} is no edit ({operation.verb}); only an edit can be taken back like this")
    if operation.state == "running":
        raise UsageError(f"operation {id[-8:]} is still running; cancel it first, or wait for its end")
    return operation


# before it is done ----------------------------------------------------------------------------------------------------


async def preview(letters: AsyncIterator[Letter], change: Change, workshop: Workshop) -> Preview:
    """What a change would do to these letters."""
    found = Preview()
    async for letter in letters:
        found.add(letter, edit_of(letter, change, workshop))
    return found


async def moves(letters: AsyncIterator[Letter], grouping: Grouping) -> dict[tuple[str, str], tuple[int, str]]:
    """Which letters would go from which group to which: how many, and the title of the group they go to."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    async for letter in letters:
        move = move_of(letter, grouping)
        if move is not None:
            n, _ = found.get((move.before, move.group), (0, ""))
            found[move.before, move.group] = n + 1, move.title
    return found


def partly(whys: Iterable[str]) -> bool:
    """Whether letters were left that somebody may have wanted to change."""
    return any(why != SAME for why in whys)

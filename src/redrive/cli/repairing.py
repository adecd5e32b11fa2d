"""The same change to many payloads: what it would do, done as an operation, taken back, and remembered by groups."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from redrive import repair
from redrive.actor import actor
from redrive.bulk import chosen
from redrive.cli.asking import confirm
from redrive.cli.cause import SHORT, of_causes
from redrive.cli.disposing import asked, spoken
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.looking import looked_over, read
from redrive.cli.operating import concluded, find_operation, workshop
from redrive.cli.output import clean, counted, emit, paint, say, show
from redrive.cli.page import field
from redrive.cli.session import Session
from redrive.cli.times import at_and_beside
from redrive.clock import iso
from redrive.errors import BadPayload, UsageError
from redrive.job import decode
from redrive.letter import Group
from redrive.operations import partly, preview, to_undo
from redrive.query.tree import EVERYTHING
from redrive.repair import SAME, Preview, change_from
from redrive.store import Change, Recipe, Store
from redrive.survey import Survey
from redrive.targets import targets

SHOWN = 10
"""So many kinds of difference are shown, those of most letters; --json shows all."""

LINES = 40
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed."""

    what: tuple[str, ...]
    filter: str
    every: bool
    settings: tuple[str, ...]
    patch: str | None
    recipe: str | None
    undo: str | None
    force: bool
    reason: str
    dry_run: bool
    detach: bool
    yes: bool
    as_json: bool

    @property
    def is_bulk(self) -> bool:
        """Whether many letters may be meant, so that they are asked about."""
        one = len(self.what) == 1 and not self.what[0].startswith("group:")
        return not one or bool(self.filter.strip() or self.every or self.recipe or self.detach)


def refuse_contradictions(asked: Asked) -> None:
    """What cannot be meant together."""
    if asked.patch is not None and asked.settings:
        raise UsageError("--set and --patch exclude each other; give one of them")
    changes = bool(asked.settings) or asked.patch is not None
    if asked.recipe is not None and changes:
        raise UsageError("--recipe names a change already; leave out --set and --patch")
    if asked.undo is not None and (changes or asked.what or asked.filter or asked.every or asked.recipe):
        raise UsageError("--undo takes a whole edit back; leave out everything that chooses letters or changes them")
    if asked.undo is None and asked.is_bulk and not (changes or asked.recipe is not None):
        raise UsageError("many letters are changed with --set, --patch or --recipe; your editor is for a single one")


def read_patch(file: str) -> Any:
    """A JSON document from a file or stdin."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; name another file") from None
    try:
        return decode(text)
    except BadPayload:
        raise UsageError(f"{file} holds no JSON; write a JSON Patch into it") from None


def show_difference(lines: Sequence[str]) -> None:
    """Lines of a difference, in colours where they are seen."""
    for line in lines:
        show(paint(clean(line), colour=_COLOURS.get(line[:1])))


# an edit of many ------------------------------------------------------------------------------------------------------


async def repaired(session: Session, given: Asked) -> int:
    """Show what the change would do to each kind of payload, ask, and do it."""
    now = session.clock.now()
    if not given.what:
        chosen("edit", given.filter, None, now, all=given.every)
    async with session.opened() as store:
        change = await _change(store, given)
        found = await targets(store, given.what) if given.what else None
        tree = chosen("edit", given.filter, found, now, all=given.every)
        survey = await looked_over(store, tree)
        seen = await preview(read(store, tree), change, workshop(session))
        if given.dry_run and given.as_json:
            emit(of_preview(survey, seen))
            return 0
        if not given.as_json:
            _show_preview(seen, checked=session.named_app is not None)
        sentence = f"{spoken(survey, now)} of {store.url}, and {counted(seen.edits, 'edit')} to make"
        if given.dry_run or not seen.edits:
            say(f"{sentence}; nothing was changed")
            return EXIT_FAULT if partly(seen.left) and not given.dry_run else 0
        if not confirm(sentence, f"Edit {counted(seen.edits, 'letter')}?", yes=given.yes):
            say("nothing was changed")
            return EXIT_FAULT
        words = asked(given.what, given.filter)
        change = msgspec.structs.replace(change, checked=tuple(sorted(filter(workshop(session).knows, seen.tasks))))
        operation = await store.operations.open("edit", tree, actor(), given.reason, filter=words, change=change)
        code = await concluded(session, store, operation, survey.letters, detach=given.detach, as_json=given.as_json)
        if not given.as_json:
            say(f"`redrive dlq edit --undo {operation.id[-8:]}` takes it back from letters that nothing happened to")
        return code


async def _change(store: Store, given: Asked) -> Change:
    if given.recipe is None:
        patch = None if given.patch is None else read_patch(given.patch)
        return change_from(given.settings, patch, force=given.force)
    operation = await find_operation(store, given.recipe)
    if operation.verb != "edit":
        raise UsageError(f"operation {operation.id[-8:]} is no edit, and so no recipe; name another")
    return change_from(operation.change.settings, operation.change.patch, force=given.force)


def _show_preview(seen: Preview, *, checked: bool) -> None:
    """The difference once for each kind of it, with how many letters that is."""
    shapes = sorted(seen.shapes.values(), key=lambda shape: (-shape.n, shape.places))
    for shape in shapes[:SHOWN]:
        show(f"{counted(shape.n, 'letter')}, such as {shape.sample[-8:]}: {clean(', '.join(shape.places))}", bold=True)
        show_difference(shape.lines[:LINES])
        if len(shape.lines) > LINES:
            show(f"… and {len(shape.lines) - LINES:,} more lines")
    others = seen.others + sum(shape.n for shape in shapes[SHOWN:])
    if others:
        show(f"{counted(others, 'letter')} of other kinds; --json --dry-run shows more", bold=True)
    for why, n in Counter(seen.left).most_common():
        say(f"{counted(n, 'letter')} to leave: {why}")
    if seen.edits and not checked:
        say("not checked against signatures: no app is named here (--app)")


def of_preview(survey: Survey, seen: Preview) -> dict[str, Any]:
    """What an edit would do, as JSON."""
    shapes = sorted(seen.shapes.values(), key=lambda shape: (-shape.n, shape.places))
    return {
        "letters": survey.letters,
        "groups": of_causes(survey.groups),
        "edits": seen.edits,
        "same": seen.left.get(SAME, 0),
        "shapes": [
            {"letters": each.n, "places": each.places, "sample": each.sample, "difference": each.lines}
            for each in shapes
        ],
        "left": seen.left,
    }


# taking it back -------------------------------------------------------------------------------------------------------


async def taken_back(session: Session, given: Asked) -> int:
    """Give letters the payloads that an edit has replaced, where nothing has happened to them since."""
    async with session.opened() as store:
        named = await find_operation(store, given.undo or "")
        edit = await to_undo(store, named.id)
        sentence = f"the edit {edit.id[-8:]} of {counted(edit.done, 'letter')} in {store.url} to take back"
        if given.dry_run:
            say(f"{sentence}; nothing was changed")
            return 0
        if not confirm(sentence, f"Take it back from up to {counted(edit.done, 'letter')}?", yes=given.yes):
            say("nothing was changed")
            return EXIT_FAULT
        change = Change(undo=edit.id)
        words = f"those that edit {edit.id[-8:]} has changed"
        operation = await store.operations.open("undo", EVERYTHING, actor(), given.reason, filter=words, change=change)
        return await concluded(session, store, operation, edit.done, detach=given.detach, as_json=given.as_json)


# what groups remember -------------------------------------------------------------------------------------------------


def show_recipes(group: Group, recipes: Sequence[Recipe], now: int) -> None:
    """What was changed in the payloads of a group, how that went, and how to do the last one again."""
    for recipe in recipes:
        operation = recipe.operation
        field("recipe", f"{operation.id[-8:]} by {operation.actor}, {at_and_beside(operation.opened_at, now)}")
        for line in repair.spoken(operation.change):
            field("", line)
        field("", f"{counted(recipe.edited, 'letter')}: {_went(recipe)}")
    if recipes:
        field("again", f"redrive dlq edit group:{group.fingerprint[:SHORT]} --recipe {recipes[0].operation.id[-8:]}")


def _went(recipe: Recipe) -> str:
    numbers = {
        "not brought back": recipe.untouched,
        "running": recipe.running,
        "succeeded": recipe.succeeded,
        "failed again": recipe.again,
        "discarded": recipe.discarded,
    }
    told = [f"{n:,} {name}" for name, n in numbers.items() if n]
    return ", ".join(told) or "none of them has that payload any more"


def of_recipe(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON."""
    operation = recipe.operation
    return {
        "operation": operation.id,
        "actor": operation.actor,
        "at": iso(operation.opened_at),
        "reason": operation.reason,
        **repair.shown(operation.change),
        "edited": recipe.edited,
        "untouched": recipe.untouched,
        "running": recipe.running,
        "succeeded": recipe.succeeded,
        "again": recipe.again,
        "discarded": recipe.discarded,
    }

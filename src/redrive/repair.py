"""The same change to many payloads: what comes of each, and what kinds of difference that makes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from redrive.edits import check_patch, check_settings, difference, patched, place_of, with_values
from redrive.errors import RedriveError, UsageError
from redrive.job import PAYLOAD_LIMIT, decode, encode
from redrive.leftovers import with_more
from redrive.letter import Letter
from redrive.redact import redact
from redrive.store import Change, Edit

SAME = "the change makes no difference to it"
NO_PAYLOAD = "its job is gone"
SHAPES = 200
"""So many kinds of difference are told apart."""

PLACES = 50
"""So many places make a shape; one that changes more is known by the first of them."""

Fits = Callable[[str, bytes], None]
"""Raises when a payload does not fit the task of this name; says nothing when that is not known."""


def anything(task: str, payload: bytes) -> None:
    """For when no app is known."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Who works on payloads: what fits its tasks, and how large they may be."""

    fits: Fits = anything
    limit: int = PAYLOAD_LIMIT
    knows: Callable[[str], bool] = lambda task: False  # whether it can say what fits a task

    def lacks(self, change: Change) -> list[str]:
        """The tasks that payloads have to be checked against, and that are not known here."""
        return [] if change.force else [task for task in change.checked if not self.knows(task)]


def change_from(settings: Sequence[str], patch: Any, *, force: bool = False) -> Change:
    """What is to be done to payloads, or one sentence about what is wrong with it."""
    if bool(settings) == (patch is not None):
        raise UsageError("say how payloads are to change: values at places, or a JSON Patch, and not both")
    checked = None if patch is None else check_patch(patch)
    return Change(settings=check_settings(settings), patch=checked, force=force)


def changed(change: Change, payload: Any) -> Any:
    """The payload after the change, or one sentence about why it cannot be made."""
    return patched(payload, change.patch) if change.patch is not None else with_values(payload, change.settings)


def remade(payload: bytes, change: Change, limit: int) -> bytes | None:
    """The payload after the change, None when that makes no difference, or one sentence about why it cannot be made."""
    before = decode(payload)
    after = encode(changed(change, before), limit=limit)
    return None if _sorted(before) == _sorted(decode(after)) else after


def edit_of(letter: Letter, change: Change, workshop: Workshop) -> Edit | str:
    """The edit of a letter, or why there is none."""
    if letter.payload is None:
        return NO_PAYLOAD
    try:
        payload = remade(letter.payload, change, workshop.limit)
        if payload is None:
            return SAME
        if not change.force:
            workshop.fits(letter.task, payload)
    except RedriveError as error:
        return str(error)
    return Edit(letter.id, letter.version, payload)


def shown(change: Change) -> dict[str, Any]:
    """A change as people may see it: secrets are masked by the names of their places."""
    settings = {each.partition("=")[0]: place_of(each)[1] for each in change.settings}
    return {"set": redact(settings), "patch": [_masked(step) for step in change.patch or ()]}


def _masked(step: dict[str, Any]) -> dict[str, Any]:
    """A step of a patch; its value has no other name than the end of its path."""
    if "value" not in step:
        return step
    name = str(step.get("path")).rpartition("/")[2]
    return step | {"value": redact({name: step["value"]})[name]}


def spoken(change: Change) -> list[str]:
    """The same in the words of the command and of a patch, a line each."""
    told = shown(change)
    lines = [f"--set {place}={msgspec.json.encode(value).decode()}" for place, value in told["set"].items()]
    for step in told["patch"]:
        value = f" {msgspec.json.encode(step['value']).decode()}" if "value" in step else ""
        lines.append(f"{step.get('op')} {step.get('path')}{value}")
    return lines


def _sorted(payload: Any) -> bytes:
    return msgspec.json.encode(payload, order="sorted")


# what it comes to -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Shape:
    """Payloads that change at the same places in the same way, with the first of them."""

    places: tuple[str, ...]
    sample: str
    lines: list[str]
    n: int = 0


@dataclass(slots=True)
class Preview:
    """What a change would do."""

    shapes: dict[tuple[str, ...], Shape] = field(default_factory=dict)
    others: int = 0  # of more kinds than are told apart
    left: dict[str, int] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)

    @property
    def edits(self) -> int:
        """How many letters would be edited."""
        return self.others + sum(shape.n for shape in self.shapes.values())

    def add(self, letter: Letter, edit: Edit | str) -> None:
        """One letter more."""
        self.tasks.add(letter.task)
        if isinstance(edit, str) or letter.payload is None:
            self.left = with_more(self.left, [str(edit)])
            return
        before, after = decode(letter.payload), decode(edit.payload)
        places = shape(before, after)
        if places not in self.shapes:
            if len(self.shapes) >= SHAPES:
                self.others += 1
                return
            self.shapes[places] = Shape(places, letter.id, difference(before, after))
        self.shapes[places].n += 1


def shape(before: Any, after: Any) -> tuple[str, ...]:
    """Where two payloads differ and in what kind of way, not by which values: `to: text, another`."""
    found: dict[str, None] = {}
    for place in _differences("", before, after):
        found[place] = None
        if len(found) == PLACES:
            break
    return tuple(sorted(found))


def _differences(place: str, before: Any, after: Any) -> Iterator[str]:
    """Each place that differs; the numbers of list entries do not matter."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inner = f"{place}.{name}" if place else name
            if name not in after:
                yield f"{inner}: {_kind(before[name])} removed"
            elif name not in before:
                yield f"{inner}: {_kind(after[name])} added"
            else:
                yield from _differences(inner, before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=False):
            yield from _differences(f"{place}[]", old, new)
        if len(before) != len(after):
            yield f"{place}: {'longer' if len(after) > len(before) else 'shorter'}"
    elif _sorted(before) != _sorted(after):
        old, new = _kind(before), _kind(after)
        yield f"{place or 'payload'}: {f'another {new}' if old == new else f'{old} to {new}'}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "object"

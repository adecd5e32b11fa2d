"""Changing a payload: values set at places, a JSON Patch, and what the difference is; nothing here touches a store."""

from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from redrive.errors import UsageError
from redrive.query.fields import field_named
from redrive.query.tree import Step
from redrive.query.words import BadFilter, words
from redrive.redact import redact

FORM = "payload.user.email=a@b.c"


def with_values(payload: Any, settings: Sequence[str]) -> Any:
    """The payload with a value at each of these places: `payload.user.email=a@b.c`, `payload.items[0].n=5`."""
    for setting in settings:
        steps, value = place_of(setting)
        payload = _set(payload, steps, value, setting)
    return payload


def place_of(setting: str) -> tuple[tuple[Step, ...], Any]:
    """The place and the value; a value is JSON where it can be read so, else a text."""
    for at, sign in enumerate(setting):
        if sign == "=" and (steps := _steps(setting[:at])) is not None:
            return steps, _value(setting[at + 1 :])
    raise UsageError(f"--set {setting!r} names no place in the payload; write {FORM}")


def _steps(place: str) -> tuple[Step, ...] | None:
    """What the place is made of; None when it is none, as when it ends within a quoted name."""
    try:
        found = words(place)
    except BadFilter:
        return None
    if len(found) != 2 or found[0].sort != "word" or "" in found[0].steps:
        return None
    name = found[0].text.partition(".")[0].partition("[")[0]
    field = field_named(name)
    return found[0].steps if field is not None and field.name == "payload" else None


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text


def _set(payload: Any, steps: tuple[Step, ...], value: Any, setting: str) -> Any:
    """A copy as far as it changes."""
    if not steps:
        return value
    step, *rest = steps
    if isinstance(payload, dict) and (str(step) in payload or not rest):
        return payload | {str(step): _set(payload.get(str(step)), tuple(rest), value, setting)}
    if isinstance(payload, list) and (index := _index(payload, step)) is not None:
        return [*payload[:index], _set(payload[index], tuple(rest), value, setting), *payload[index + 1 :]]
    raise _nowhere(setting, step)


def _index(row: list[Any], step: Step) -> int | None:
    try:
        index = int(step)
    except ValueError:
        return None
    return index % len(row) if -len(row) <= index < len(row) else None


def _nowhere(setting: str, step: Step) -> UsageError:
    place = setting.partition("=")[0]  # not the value, which may be a secret
    return UsageError(
        f"--set {place!r}: there is nothing at {str(step)!r} in this payload; set what is around it first"
    )


def patched(payload: Any, patch: Any) -> Any:
    """The payload after a JSON Patch (RFC 6902); all of its steps, or one sentence about the first that cannot be."""
    from jsonpath import JSONPatch  # lazily, with the next: its library takes as long to import as the command line
    from jsonpath.exceptions import JSONPatchError, JSONPointerError

    check_patch(patch)
    payload = msgspec.json.decode(msgspec.json.encode(payload))  # its steps change what they are given
    number = 0
    try:
        for number, operation in enumerate(JSONPatch(patch, unicode_escape=False).ops, 1):  # noqa: B007
            payload = operation.apply(payload)
    except (JSONPatchError, JSONPointerError, TypeError, ValueError, LookupError, RecursionError) as error:
        why = error or type(error).__name__
        raise UsageError(f"step {number} of the patch cannot be done to this payload: {why}") from None
    return payload


def difference(before: Any, after: Any) -> list[str]:
    """The lines that differ, secrets masked; nothing when they are the same."""
    if msgspec.json.encode(before, order="sorted") == msgspec.json.encode(after, order="sorted"):
        return []
    old, new = (pretty(redact(value)).splitlines() for value in (before, after))
    lines = [line for line in unified_diff(old, new, n=2, lineterm="") if not line.startswith(("---", "+++"))]
    return lines or ["only what is masked here differs"]


def pretty(payload: Any) -> str:
    """JSON as people edit it."""
    return msgspec.json.format(msgspec.json.encode(payload), indent=2).decode() + "\n"


def check_settings(settings: Sequence[str]) -> tuple[str, ...]:
    """The settings, once each is known to name a place; what a payload makes of them is seen with the payload."""
    for setting in settings:
        place_of(setting)
    return tuple(settings)


def check_patch(patch: Any) -> list[Any]:
    """A JSON Patch whose steps can be read; what a payload makes of them is seen with the payload."""
    from jsonpath import JSONPatch  # lazily, as above
    from jsonpath.exceptions import JSONPatchError, JSONPointerError

    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise UsageError('a JSON Patch is a list of objects: [{"op": "replace", "path": "/to", "value": "a@b.c"}]')
    try:
        JSONPatch(patch, unicode_escape=False)
    except (JSONPatchError, JSONPointerError, TypeError, ValueError, LookupError, RecursionError) as error:
        raise UsageError(f"the patch is no JSON Patch: {error or type(error).__name__}") from None
    return patch

"""What stands in a record: ids, kinds of errors, causes and durations, however they are written."""

from typing import Any
from uuid import UUID

import msgspec

from redrive.adopt.keys import Keys
from redrive.clock import SECOND
from redrive.redact import shortened, wellformed


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def uuid_in(id: str) -> str:
    if not is_uuid(id):
        raise ValueError(f"its id {shortened(id, 60)!r} is no UUID")
    return str(UUID(id))


def kind_of(error: Any) -> tuple[str | None, Any]:
    """The type of an error, and its details: a text, or an object with one key."""
    match error:
        case None:
            return None, None
        case str():
            return (error.strip() or None), None
        case dict() if len(error) == 1:
            [(name, detail)] = error.items()
            return str(name), detail
        case _:
            return None, error


def cause_of(keys: Keys, detail: Any) -> str | None:
    """The exit code, what else the type said, the steps before it, and where its log is."""
    told = []
    if isinstance(detail, dict) and isinstance(detail.get("exit_code"), int):
        told.append(f"exit code {detail['exit_code']}")
        detail = {name: value for name, value in detail.items() if name != "exit_code"}
    if detail:
        told.append(spelled(detail))
    told += [text] if (text := keys.text("cause")) else []
    context = keys.get("context")
    told += map(spelled, context if isinstance(context, list) else [context] if context else [])
    if log := keys.text("log"):
        told.append(f"log: {log}")
    return "\n".join(told) or None


def told_by_trace(trace: str | None) -> tuple[str | None, str]:
    """The type and the message of a traceback: in its last line if it is one of Python, else in its first."""
    lines = [line.strip() for line in (trace or "").splitlines() if line.strip()]
    line = "" if not lines else lines[-1] if "Traceback (most recent call last)" in (trace or "") else lines[0]
    name, separator, message = line.partition(": ")
    if name.replace(".", "").replace("_", "").isalnum() and name[:1].isalpha() and (separator or name.isidentifier()):
        return name, message
    return None, line


def duration_in(keys: Keys) -> int:
    """How long it ran, from milliseconds or seconds."""
    for field, unit in (("milliseconds", 1_000), ("duration", SECOND)):
        value = keys.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11:
            return round(value * unit)
    return 0


def spelled(value: Any) -> str:
    return wellformed(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def decoded_or(text: str) -> Any:
    """The JSON value of a text, or the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text

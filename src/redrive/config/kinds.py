"""Kinds of settings: how a value is read from a file, the environment or a flag, and how it is shown."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from redrive.clock import micros, spoken

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|KiB|MB|MiB|GB|GiB)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "kb": 1000, "kib": 1024, "mb": 1000**2, "mib": 1024**2, "gb": 1000**3, "gib": 1024**3}


@dataclass(frozen=True, slots=True)
class Kind:
    """One setting's meaning and how its values are read; `read` raises ValueError with what it wanted."""

    name: str
    meaning: str
    read: Callable[[object], object]
    show: Callable[[Any], str] = str


def text(meaning: str) -> Kind:
    """Any text that is not empty."""
    return Kind("text", meaning, _read_text)


def count(meaning: str, least: int = 1) -> Kind:
    """A whole number, `least` or more."""
    return Kind("whole number", meaning, lambda value: _read_count(value, least))


def duration(meaning: str) -> Kind:
    """A time as people write it, kept in microseconds."""
    return Kind("duration", meaning, _read_duration, _show_duration)


def lasting(meaning: str) -> Kind:
    """A time as people write it, or `never`, which is kept as zero."""
    return Kind("duration or never", meaning, _read_lasting, _show_lasting)


def keeps(meaning: str) -> Kind:
    """How long queues keep things: a table for each."""
    return Kind("tables", meaning, _read_keeps, _show_keeps)


def size(meaning: str) -> Kind:
    """Bytes, as a number or with a unit."""
    return Kind("size", meaning, read_size, show_size)


def choice(meaning: str, *options: str, also: Mapping[str, str] | None = None) -> Kind:
    """One of a few words, in any case; `also` holds words that other tools use for them."""

    def read(value: object) -> object:
        word = str(value).strip().lower()
        word = (also or {}).get(word, word)
        if word not in options:
            raise ValueError(f"write one of {', '.join(options)}")
        return word

    return Kind(" or ".join(options), meaning, read)


def slots(meaning: str) -> Kind:
    """Queues with the slots each may fill: a table, a list of names, or `email=8,default=2`."""
    return Kind("queues", meaning, _read_slots, show_slots)


def tables(meaning: str) -> Kind:
    """A list of tables, as `[[name]]` in a file."""
    return Kind("list of tables", meaning, _read_tables, lambda value: f"{len(value)} rules" if value else "none")


def _read_text(value: object) -> object:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value.strip()
    raise ValueError("write a text")


def _read_count(value: object, least: int) -> object:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"write a whole number of at least {least}")
    return number


def _read_duration(value: object) -> object:
    try:
        length = micros(value) if isinstance(value, int | float | str | timedelta) else 0
    except ValueError:
        length = 0
    if length <= 0:
        raise ValueError("write seconds (30) or a text such as '30s', '10m', '6h', longer than zero")
    return length


def _show_duration(value: int) -> str:
    return spoken(value).replace(".0s", "s")


def _read_lasting(value: object) -> int:
    if isinstance(value, str) and value.strip().lower() == "never":
        return 0
    try:
        return int(str(_read_duration(value)))
    except ValueError:
        raise ValueError("write a text such as '90d' or '12h', longer than zero, or 'never'") from None


def _show_lasting(value: int) -> str:
    return _show_duration(value) if value else "never"


def _read_keeps(value: object) -> object:
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise ValueError("write a table for each queue in a configuration file, such as [retention.queues.email]")
    return {
        queue: {name: _read_kept(queue, name, time) for name, time in table.items()} for queue, table in value.items()
    }


def _read_kept(queue: str, name: str, time: object) -> object:
    if name not in ("done", "closed", "open"):
        raise ValueError(f"queue {queue} has no {name!r} to keep; there are done, closed and open")
    try:
        return _read_lasting(time) if name == "open" else _read_duration(time)
    except ValueError as error:
        raise ValueError(f"{name} of queue {queue}: {error}") from None


def _show_keeps(value: Mapping[str, Mapping[str, int]]) -> str:
    queues = (f"{queue} ({', '.join(f'{n} {_show_lasting(t)}' for n, t in of.items())})" for queue, of in value.items())
    return ", ".join(queues) or "none"


def read_size(value: object) -> int:
    """Bytes from `1048576`, `"512 KiB"` or `"1MiB"`."""
    match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("write bytes (1048576) or a text such as '512 KiB' or '1 MiB'")
    number, unit = match.groups()
    return round(float(number) * _UNITS[(unit or "").lower()])


def show_size(value: int) -> str:
    """Bytes as people write them: `1 MiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _UNITS[unit.lower()] == 0:
            return f"{value // _UNITS[unit.lower()]} {unit}"
    return f"{value} bytes"


def _read_slots(value: object) -> object:
    """Names without a number get None: no limit but the worker's own."""
    if isinstance(value, str):
        value = [piece for piece in value.split(",") if piece.strip()]
    pairs = [*value.items()] if isinstance(value, Mapping) else [_name_and_slots(piece) for piece in _listed(value)]
    names = [str(name) for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"queue {twice[0]} is named twice; keep one of them")
    return {str(name): None if number is None else _read_count(number, 1) for name, number in pairs}


def _listed(value: object) -> list[str]:
    if isinstance(value, list | tuple) and value and all(isinstance(piece, str) for piece in value):
        return list(value)
    raise ValueError("write queues with their slots, such as {email = 8, default = 2}, or a list of names")


def _name_and_slots(piece: str) -> tuple[str, str | None]:
    name, equals, number = piece.strip().partition("=")
    if not name or (equals and not number.strip().isdecimal()):
        raise ValueError(f"{piece!r} is not a queue: write its name, or name=slots such as email=8")
    return name.strip(), number.strip() if equals else None


def show_slots(value: Mapping[str, int | None]) -> str:
    """Queues as a flag spells them: `email=8, default`."""
    return ", ".join(name if number is None else f"{name}={number}" for name, number in value.items())


def _read_tables(value: object) -> object:
    if isinstance(value, list) and all(isinstance(table, dict) for table in value):
        return tuple(value)
    raise ValueError("write tables, each under a heading such as [[reasons]], in a configuration file")

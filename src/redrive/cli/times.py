"""Points in time as people type and read them."""

from collections.abc import Callable
from datetime import datetime

from redrive.clock import SECOND, Duration, iso, micros, moment, spoken
from redrive.errors import UsageError

_DAY = 86_400 * SECOND
_UNITS = (("s", SECOND, 60), ("m", 60 * SECOND, 60), ("h", 3_600 * SECOND, 48))
"""Each unit with how many of it are said before the next one is."""


def read_moment(text: str, option: str) -> datetime:
    """`2026-01-31`, `2026-01-31T14:30` or ISO 8601 with a zone; without a zone it is local time."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a time; write 2026-01-31T14:30 (local) or 2026-01-31T14:30:00Z"
        ) from None


def read_duration(text: Duration, option: str) -> int:
    """`30`, `10m`, `6h`, in microseconds."""
    try:
        return micros(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_end(until: str | None, length: str | None, now: int) -> int | None:
    """When `--until` or `--for` ends; it must be to come."""
    if until is not None and length is not None:
        raise UsageError("--until and --for exclude each other; give one of them")
    end = None
    if until is not None:
        end = moment(read_moment(until, "--until"))
    elif length is not None:
        end = now + read_duration(length, "--for")
    if end is not None and end <= now:
        raise UsageError(f"{iso(end)} has passed; give a time to come")
    return end


def span(length: int) -> str:
    """A duration in one or two units, without fractions of what nobody counts: `45s`, `3m`, `2h5m`."""
    return spoken(length).replace(".0s", "s")


def beside(at: int, now: int) -> str:
    """A time as it lies from now: `in 5m`, `3m ago`."""
    return _beside(at - now, span)


def roughly(length: int) -> str:
    """A duration in its greatest unit, to the nearest: `45s`, `3m`, `2h`."""
    for unit, size, most in _UNITS:
        if (number := round(length / size)) < most:
            return span(length) if unit == "s" else f"{number}{unit}"
    return f"{round(length / _DAY)}d"


def roughly_beside(at: int, now: int) -> str:
    """A time as it lies from now, for tables."""
    return _beside(at - now, roughly)


def _beside(away: int, said: Callable[[int], str]) -> str:
    if abs(away) < SECOND:
        return "now"
    return f"in {said(away)}" if away > 0 else f"{said(-away)} ago"


def at_and_beside(at: int, now: int) -> str:
    """Both, for pages with room."""
    return f"{iso(at)} ({beside(at, now)})"

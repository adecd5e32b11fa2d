"""Points in time as other systems write them."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from redrive.clock import SECOND, moment

_UNITS = ((10**11, SECOND), (10**14, 1_000), (10**17, 1))
"""Below which size a number counts seconds, milliseconds or microseconds; above, nanoseconds."""

_FORMS = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y", "%d/%b/%Y:%H:%M:%S %z")
_GO_ZONE = re.compile(r" ([+-]\d{4}|Z|UTC|GMT)(?: [A-Z]{2,5})?$")
_NUMBER = re.compile(r"[+-]?\d{9,19}(?:\.\d+)?")
_NESTED = ("$date", "$numberLong", "seconds", "secs", "secs_since_epoch", "_seconds")


def read_time(value: Any) -> int:
    """Microseconds of UTC: ISO 8601 (UTC without a zone), a mail's date, or a count since 1970 in any unit."""
    match value:
        case bool():
            raise _unreadable(value)
        case int() | float():
            return _counted(value)
        case str():
            return _written(value.strip())
        case dict():
            inner = next((value[name] for name in _NESTED if name in value), None)
            if inner is not None:
                return read_time(inner)
    raise _unreadable(value)


def _counted(number: float) -> int:
    unit = next((unit for limit, unit in _UNITS if abs(number) < limit), None)
    try:
        return moment(round(number * unit) if unit is not None else round(number / 1_000))
    except (ValueError, OverflowError):
        raise _unreadable(number) from None


def _written(text: str) -> int:
    if _NUMBER.fullmatch(text):
        return _counted(float(text) if "." in text else int(text))
    when = _iso(text) or _formed(text) or _mailed(text)
    if when is None:
        raise _unreadable(text)
    try:
        return moment(when if when.tzinfo else when.replace(tzinfo=UTC))
    except ValueError:
        raise _unreadable(text) from None


def _iso(text: str) -> datetime | None:
    text = _GO_ZONE.sub(lambda zone: zone[1].replace("UTC", "Z").replace("GMT", "Z"), text).replace(",", ".")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _formed(text: str) -> datetime | None:
    for form in _FORMS:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - UTC is assumed by whoever asked
        except ValueError:
            continue
    return None


def _mailed(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None


def _unreadable(value: object) -> ValueError:
    shown = repr(value)
    return ValueError(f"{shown if len(shown) <= 60 else shown[:60] + '…'} is no time")

"""Values as they are typed, read by the kind of the field that they are compared with."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from difflib import get_close_matches

from redrive.clock import SECOND, micros, moment
from redrive.job import PRIORITIES
from redrive.letter import LetterState
from redrive.query.fields import Field
from redrive.query.words import BadFilter, Word
from redrive.reasons import reason_named

_HEX = re.compile(r"[0-9a-f]+")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DIGITS = 40
"""More digits than these make a number that is too large no larger."""
_AGO = re.compile(r"([+-])(\d.*)")
_LARGEST = 2**63 - 1
_FIRST_YEAR = 2000
_DAYS_AGO = {"today": 0, "yesterday": 1}
_DASHES = str.maketrans({"\u2212": "-", "\u2013": "-"})
"""What a text that was copied from a page has in place of a minus."""
_STATES = [state.value for state in LetterState]

Value = str | int


def value_of(field: Field, word: Word) -> Value:
    """What stands in the column of such a field."""
    return _READERS[field.kind](field, word)


def _text(field: Field, word: Word) -> Value:
    return word.text


def _digits(field: Field, word: Word) -> Value:
    """The hex digits of an id, of the end of one, or of the beginning of a group's name."""
    digits = word.text.replace("-", "").lower()
    limit = 32 if field.kind == "id" else 16
    if not _HEX.fullmatch(digits) or len(digits) > limit:
        part = "the last digits of it" if field.kind == "id" else "the first digits of it"
        raise BadFilter(f"{word.text!r} is no {field.name}: write its hex digits, or {part}", word.column)
    return digits


def _reason(field: Field, word: Word) -> Value:
    return reason_named(word.text)


def _state(field: Field, word: Word) -> Value:
    state = word.text.lower()
    if state in _STATES:
        return state
    near = get_close_matches(state, _STATES, 1)
    hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(_STATES)}"
    raise BadFilter(f"a letter has no state {word.text!r}; {hint}", word.column)


def _priority(field: Field, word: Word) -> Value:
    named = PRIORITIES.get(word.text.lower())
    if named is None and not _WHOLE.fullmatch(word.text):
        words = ", ".join(PRIORITIES)
        raise BadFilter(f"priority is a number or one of {words}, and {word.text!r} is neither", word.column)
    return _number(field, word) if named is None else named


def _number(field: Field, word: Word) -> Value:
    if not _WHOLE.fullmatch(word.text):
        raise BadFilter(f"{field.name} is a whole number, and {word.text!r} is none", word.column)
    return max(-_LARGEST, min(int(word.text[:_DIGITS]), _LARGEST))


def _age(field: Field, word: Word) -> Value:
    try:
        return micros(word.text)
    except ValueError as error:
        raise BadFilter(f"{field.name}: {error}", word.column) from None


_READERS: dict[str, Callable[[Field, Word], Value]] = {
    "text": _text,
    "error": _text,
    "part": _digits,
    "id": _digits,
    "reason": _reason,
    "state": _state,
    "priority": _priority,
    "number": _number,
    "age": _age,
}


def span_of(field: Field, word: Word, now: int) -> tuple[int, int]:
    """A time as it is typed, as the first moment that belongs to it and the first that no longer does."""
    try:
        return _span(word.text.strip().lower().translate(_DASHES), now)
    except (ValueError, OverflowError):
        form = "2026-01-31, 2026-01-31T08:00, today, yesterday or -24h"
        raise BadFilter(f"{field.name} is a time, and {word.text!r} is none; write {form}", word.column) from None


def _span(text: str, now: int) -> tuple[int, int]:
    if text == "now":
        return now, now + 1
    if text in _DAYS_AGO:
        return _day((datetime.fromtimestamp(now / SECOND) - timedelta(days=_DAYS_AGO[text])).date())  # noqa: DTZ006
    if relative := _AGO.fullmatch(text):
        length = micros(relative[2])
        return _moment(now - length if relative[1] == "-" else now + length)
    if ":" not in text and "t" not in text:
        return _day(date.fromisoformat(text))
    return _moment(_point(datetime.fromisoformat(text.upper())))


def _moment(when: int) -> tuple[int, int]:
    when = max(0, min(when, _LARGEST - 1))
    return when, when + 1


def _day(day: date) -> tuple[int, int]:
    """A day of the place where it is typed, from midnight to midnight."""
    first = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - local, as people mean it
    return _point(first), _LARGEST if day == date.max else _point(first + timedelta(days=1))


def _point(when: datetime) -> int:
    """In microseconds; one that no letter can be of is before or after all of them."""
    try:
        return moment(when)
    except ValueError:
        return 0 if when.year < _FIRST_YEAR else _LARGEST - 1

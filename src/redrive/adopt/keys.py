"""The words that other systems have for what a letter holds, and the values behind them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redrive.adopt.times import read_time
from redrive.query.fields import FIELDS

_NOT_LETTER = re.compile(r"[\s_.-]+")
_WORDS = {
    "id": "uuid message_id",
    "item": "item_id",
    "task": "task_name job_class job_name",
    "queue": "queue_name",
    "attempts": "attempt_count attempts_made",
    "max_attempts": "max_attempts",
    "message": "error_message error exception_message last_error_message",
    "traceback": "stack_trace backtrace exception stack",
    "payload": "data body input args",
    "status": "status state",
    "created_at": "created_at enqueued_at created",
    "first_failed_at": "first_failure_at",
    "failed_at": "last_failed_at died_at timestamp at time finished_at updated_at",
    "error": "error_type error_class exception_class exception_type",
    "host": "hostname host_name",
    "worker": "worker_id agent_id",
    "workflow": "workflow_id batch_id",
    "headers": "metadata",
    "external_id": "external_id",
    "history": "failure_history failures errors",
    "signature": "error_signature",
    "eligible": "reprocess_eligible",
    "review": "manual_review_required",
    "attempt": "attempt_number",
    "step": "step_failed",
    "milliseconds": "duration_ms",
    "duration": "duration",
    "cause": "cause",
    "epoch": "epoch",
    "context": "error_context",
    "log": "json_log_location",
}
_NOT_THESE = {"item", "type", "error_signature", "state", "age", "returns", "rule"}
"""Aliases of filters that mean something else in a record."""

ABSENT = ("", "\\N", "NULL")
"""What a dump of a table writes where there is nothing."""


def folded(word: str) -> str:
    """A key however it is written: `failureReason`, `FAILURE_REASON`."""
    return _NOT_LETTER.sub("", word).casefold()


def _named() -> dict[str, list[str]]:
    """For each field the keys that it may have, the best first."""
    named: dict[str, list[str]] = {name: [folded(name)] for name in (*FIELDS, *_WORDS) if name not in _NOT_THESE}
    for field in FIELDS.values():
        named.setdefault(field.name, []).extend(folded(each) for each in field.aliases if each not in _NOT_THESE)
    for name, words in _WORDS.items():
        named.setdefault(name, []).extend(map(folded, words.split()))
    named["error"] = [word for word in named["error"] if word != "error"]  # which says more often what went wrong
    named["history"].remove("history")
    return named


_FIELDS = _named()


_KNOWN = {key for keys in _FIELDS.values() for key in keys}


def is_known(key: str) -> bool:
    """Whether a key is one that a letter is made of."""
    return folded(key) in _KNOWN


class Keys:
    """A record by the names of its fields; what was asked for is known, so that the rest can be kept."""

    def __init__(self, record: Mapping[str, Any], *, absent: Sequence[str] = ()) -> None:
        self._record = {folded(key): value for key, value in record.items()}
        self._names = {folded(key): key for key in record}
        self._asked: set[str] = set()
        self._absent = absent

    def get(self, field: str) -> Any:
        """The value of a field under any of its names; None where there is nothing."""
        found = None
        for key in _FIELDS[field]:
            if key in self._record:
                value = self._record[key]
                if found is None and not self._is_absent(value):
                    found = value
                    self._asked.add(key)
                elif self._is_absent(value):
                    self._asked.add(key)
        return found

    def put_back(self, field: str) -> None:
        """Count a field as not asked for: it is kept among the rest."""
        self._asked.difference_update(_FIELDS[field])

    def text_of(self, key: str) -> str | None:
        """The value of one key, if it is a text."""
        value = self.bare(key)
        return value if isinstance(value, str) else None

    def whole(self, key: str, least: int) -> int:
        """The value of one key that is a whole number, also in a cell; the least there is where none is told."""
        value = self.bare(key)
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        fits = isinstance(number, int) and not isinstance(number, bool) and least <= number < 1 << 31
        return number if fits else least

    def bare(self, key: str) -> Any:
        """The value of one key as it is."""
        key = folded(key)
        self._asked.add(key)
        value = self._record.get(key)
        return None if self._is_absent(value) else value

    def has(self, *keys: str) -> bool:
        """Whether the record has all of these keys."""
        return all(folded(key) in self._record for key in keys)

    def text(self, field: str) -> str | None:
        """A field that is a text; a number is spelled."""
        match self.get(field):
            case None:
                return None
            case str() as text:
                return text
            case bool() | dict() | list() as other:
                raise ValueError(f"{field} {_shown(other)} is no text")
            case other:
                return str(other)

    def number(self, field: str) -> int | None:
        """A field that is a whole number of at least 0."""
        value = self.get(field)
        if value is None:
            return None
        try:
            number = int(value.strip() if isinstance(value, str) else value)
        except (ValueError, TypeError, OverflowError):
            number = -1
        if isinstance(value, bool) or not 0 <= number < 1 << 31 or (isinstance(value, float) and value != number):
            raise ValueError(f"{field} {_shown(value)} is not a whole number of at least 0")
        return number

    def time(self, field: str) -> int | None:
        """A field that is a point in time."""
        value = self.get(field)
        if value is None:
            return None
        try:
            return read_time(value)
        except ValueError as error:
            raise ValueError(f"{field} {error}") from None

    def truth(self, field: str) -> bool | None:
        """A field that is yes or no."""
        value = self.get(field)
        return None if value is None else str(value).strip().casefold() in ("true", "t", "yes", "1")

    def rest(self) -> dict[str, Any]:
        """What nobody asked for, under its own names."""
        left: Iterable[str] = (key for key in self._record if key not in self._asked)
        return {self._names[key]: self._record[key] for key in left if not self._is_absent(self._record[key])}

    def _is_absent(self, value: Any) -> bool:
        return value is None or (isinstance(value, str) and value in self._absent)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"

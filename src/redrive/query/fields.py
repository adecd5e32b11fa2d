"""The fields that a filter may name, what kind each is, and the words that other systems have for it."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

Kind = Literal["text", "part", "id", "error", "reason", "state", "priority", "number", "time", "age", "json"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: how it compares, and what it means."""

    name: str
    kind: Kind
    meaning: str
    aliases: tuple[str, ...] = ()
    nullable: bool = False


FIELDS = {
    field.name: field
    for field in (
        Field("id", "id", "the job's id, or the last digits of it", ("job_id", "task_id")),
        Field("queue", "text", "the line it stood in", ("originalQueue",)),
        Field("task", "text", "the name of its handler", ("type", "task_type", "job_type")),
        Field("reason", "reason", "the class of its last failure", ("failureReason",)),
        Field("error", "error", "the type of the last exception, with or without its module"),
        Field("message", "text", "what that exception said", ("last_error", "error_contains", "errorMessage")),
        Field("traceback", "text", "the traceback of the last failure", ("error_stacktrace",), nullable=True),
        Field("priority", "priority", "0 to 9, or low, normal, high"),
        Field("attempts", "number", "attempts in its last epoch", ("failure_count", "attemptCount")),
        Field("epochs", "number", "how many lives it has had"),
        Field("state", "state", "open, redriven, closed or discarded"),
        Field("group", "part", "the group of its cause, or the beginning of its name", ("error_signature",)),
        Field("host", "text", "where it failed last", ("processingHost",)),
        Field("release", "text", "the release of your code that it failed with", ("agentVersion",), nullable=True),
        Field("worker", "text", "the worker that ran it last"),
        Field("workflow", "text", "the batch or workflow that it belongs to", ("batch",), nullable=True),
        Field("failed_at", "time", "when it failed last", ("lastFailureAt", "last_attempt")),
        Field("first_failed_at", "time", "when it failed first", ("firstFailureAt", "first_attempt")),
        Field("age", "age", "how long ago it failed last"),
        Field("owner", "text", "who looks after it, or after its group", nullable=True),
        Field("review", "text", "why it needs a person before it is brought back", nullable=True),
        Field("returns", "number", "how often in a row it came back with the same cause"),
        Field("rule", "text", "the automatic rule that has dealt with its last death", nullable=True),
        Field("note", "text", "what was written about it and about its group", nullable=True),
        Field("payload", "json", "what the job was given, or a place in it", ("item", "input_data", "item_data")),
        Field("headers", "json", "what travels beside the payload, or a place in it", nullable=True),
    )
}
"""Every field by its name; the reference lists them from here."""

EITHER = "error_type"
"""The one word that others use for two things: a reason when its value is one, else the type of the exception."""

CONTAINS = "error_contains"
"""Another word for the message: `error_contains = timeout` is what people write for `message ~ timeout`."""

ALIASES = {alias: field.name for field in FIELDS.values() for alias in field.aliases}


def _folded(word: str) -> str:
    """Without case, underscores and hyphens: everybody writes `failedAt` in another way."""
    return word.casefold().replace("_", "").replace("-", "")


_FOLDED = {_folded(name): name for name in (*FIELDS, *ALIASES, EITHER)}


def field_named(word: str) -> Field | None:
    """The field that a word means, whichever way it is written: `failureReason`, `FAILURE_COUNT`, `failed-at`."""
    known = _FOLDED.get(_folded(word))
    return FIELDS.get(ALIASES.get(known, known)) if known else None


def is_either(word: str) -> bool:
    """Whether the word may mean a reason or the type of an exception."""
    return _folded(word) == _folded(EITHER)


def means_contains(word: str) -> bool:
    """Whether this name of a field says by itself that an equal sign means: contains."""
    return _folded(word) == _folded(CONTAINS)


def guess(word: str) -> str | None:
    """The field that was probably meant."""
    near = get_close_matches(_folded(word), _FOLDED, 1)
    return _FOLDED[near[0]] if near else None

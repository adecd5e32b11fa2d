"""Logging as a subscriber: one line per event that a person can follow, or one JSON object."""

import logging
from collections.abc import Callable, Sized
from typing import Any, Literal, TextIO

import msgspec

from redrive.clock import SECOND, iso, spoken
from redrive.events import Event
from redrive.letter import Failure
from redrive.redact import printable, redact_text, shortened

MESSAGE_LIMIT = 500

_logger = logging.getLogger("redrive")
_LEVELS = {
    "job.retried": logging.WARNING,
    "job.buried": logging.ERROR,
    "job.late": logging.WARNING,
    "queue.unserved": logging.WARNING,
    "worker.stuck": logging.WARNING,
    "worker.recycled": logging.WARNING,
    "worker.fault": logging.ERROR,
    "worker.lost": logging.WARNING,
    "retention.announced": logging.WARNING,
    "retention.applied": logging.WARNING,
    "rule.failed": logging.ERROR,
    "store.unavailable": logging.ERROR,
    "store.returned": logging.WARNING,
    "job.enqueued": logging.DEBUG,
}
"""How serious an event is; all others are worth an info."""

WARNINGS = tuple(name for name, level in _LEVELS.items() if level >= logging.WARNING)
"""What every app tells the logger, whether or not anybody has set it up."""

Fields = dict[str, Any]


def log_event(event: Event) -> None:
    """The subscriber: hands an event to the logger named `redrive`."""
    level = _LEVELS.get(event.name, logging.INFO)
    if _logger.isEnabledFor(level):
        _logger.log(level, "%s", said(event), extra={"event": event})


def start_logging(level: str, form: Literal["text", "json"], stream: TextIO) -> None:
    """Write what Redrive logs to a stream, replacing what an earlier call set up."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    _logger.handlers[:] = [handler]
    _logger.setLevel(level.upper())
    _logger.propagate = False


def said(event: Event) -> str:
    """An event as a sentence on one line."""
    phrase = _PHRASES[event.name](event.fields) if event.name in _PHRASES else event.name
    subject = f"job {event.job.short} {event.job.task} " if event.job else ""
    return _clean(f"{subject}{phrase}")


class TextLines(logging.Formatter):
    """Time and sentence; a warning or an error says so by its words."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {_clean(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One JSON object per line: at, level, event, job, task, queue, the event's fields, message."""

    def format(self, record: logging.LogRecord) -> str:
        event: Event | None = getattr(record, "event", None)
        line: Fields = {"at": _moment(record), "level": record.levelname.lower()}
        if event is not None:
            line |= {"event": event.name} | _of_job(event) | _flat(event.fields)
        line["message"] = _clean(record.getMessage())
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _moment(record: logging.LogRecord) -> str:
    return iso(round(record.created * SECOND))


def _clean(text: str) -> str:
    return printable(redact_text(text))


def _of_job(event: Event) -> Fields:
    job = event.job
    return {"job": job.id, "task": _clean(job.task), "queue": _clean(job.queue)} if job else {}


def _flat(fields: Fields) -> Fields:
    """Fields as JSON people query: seconds for durations, a failure by its parts."""
    flat: Fields = {}
    for name, value in fields.items():
        match value:
            case Failure():
                flat |= {"reason": value.reason, "attempt": value.attempt, "error": _error(value)}
            case int() if name in ("delay", "duration"):
                flat[name] = value / SECOND
            case str():
                flat[name] = _clean(value)
            case None if name == "note":
                continue
            case int() | float() | None:
                flat[name] = value
            case _:
                flat[name] = [_clean(str(item)) for item in value]
    return flat


def _error(failure: Failure) -> str:
    return _clean(shortened(failure.message or failure.type, MESSAGE_LIMIT))


# --- sentences --------------------------------------------------------------------------------------------------------


def _attempt(number: int, limit: int | None) -> str:
    return f"attempt {number}/{limit}" if limit else f"attempt {number}"


def _failed(fields: Fields) -> str:
    failure: Failure = fields["failure"]
    count = _attempt(failure.attempt, fields["limit"])
    return f"failed ({count}, {failure.reason}): {_error(failure)}"


def _noted(fields: Fields) -> str:
    return f" ({fields['note']})" if fields.get("note") else ""


def counted(number: int, word: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def _because(fields: Fields) -> str:
    return f": {shortened(fields['why'], MESSAGE_LIMIT)}" if fields.get("why") else ""


def _later(delay: int) -> str:
    return f"in {spoken(delay)}" if delay else "at once"


def _worker_started(fields: Fields) -> str:
    queues = ", ".join(fields["queues"]) or "every queue"
    size = f"{counted(fields['slots'], 'slot')}, {counted(len(fields['tasks']), 'task')}, {queues}"
    return (
        f"worker {fields['worker']} started (pid {fields['pid']}): {size}, on {fields['store_url']}; "
        f"accepted jobs survive {fields['durable']}"
    )


def _worker_lost(fields: Fields) -> str:
    jobs = fields["jobs"]
    taken = len(jobs) if isinstance(jobs, Sized) else jobs
    return f"worker {fields['worker']} is lost ({fields['cause']}); took over {counted(taken, 'job')}"


def _rule_applied(fields: Fields) -> str:
    n = fields["n"]
    did = {
        "discard": f"discarded {counted(n, 'letter')}",
        "review": f"{counted(n, 'letter')} {'needs' if n == 1 else 'need'} review",
        "notify": f"told of {counted(n, 'letter')} in the journal",
    }
    return f"rule {fields['rule']}: {did[fields['action']]}"


_PHRASES: dict[str, Callable[[Fields], str]] = {
    "job.enqueued": lambda fields: "enqueued",
    "job.started": lambda fields: f"started ({_attempt(fields['attempt'], fields['limit'])})",
    "job.succeeded": lambda fields: (
        f"done on attempt {fields['attempt']} in {spoken(fields['duration'])}{_noted(fields)}"
    ),
    "job.retried": lambda fields: f"{_failed(fields)}, retrying in {spoken(fields['delay'])}{_noted(fields)}",
    "job.buried": lambda fields: f"{_failed(fields)}, {fields['why']}, buried{_noted(fields)}",
    "job.snoozed": lambda fields: f"snoozed, back in {spoken(fields['delay'])}{_because(fields)}",
    "job.discarded": lambda fields: f"discarded ({fields['reason']}){_because(fields)}",
    "job.released": lambda fields: f"given back, due {_later(fields['delay'])}{_because(fields)}",
    "job.late": lambda fields: "ended after its lease was lost; another attempt counts, nothing was changed",
    "queue.unserved": lambda fields: f"queue {fields['queue']} has a new job, but no live worker serves it",
    "worker.started": _worker_started,
    "worker.draining": lambda fields: (
        f"worker {fields['worker']} drains: {counted(fields['running'], 'job')} still running"
    ),
    "worker.stopped": lambda fields: (
        f"worker {fields['worker']} stopped: {counted(fields['done'], 'job')} done, {fields['failed']} buried"
    ),
    "worker.stuck": lambda fields: (
        f"worker {fields['worker']} has {fields['stuck']} of {counted(fields['slots'], 'slot')} taken by handlers that "
        f"are stuck beyond their deadline"
    ),
    "worker.recycled": lambda fields: (
        f"worker {fields['worker']} ends with {counted(fields['stuck'], 'handler')} stuck; "
        f"a supervisor would start a new one"
    ),
    "worker.fault": lambda fields: f"worker {fields['worker']} has a fault and goes on: {fields['error']}",
    "worker.lost": _worker_lost,
    "retention.announced": lambda fields: f"retention: {fields['what']}",
    "retention.applied": lambda fields: (
        f"retention: removed {counted(fields['letters'], 'open letter')} of {fields['of']} for good"
    ),
    "rule.begun": lambda fields: f"rule {fields['rule']}: began redrive {fields['redrive'][-8:]}",
    "rule.applied": _rule_applied,
    "rule.failed": lambda fields: f"rule {fields['rule']} cannot be applied: {fields['error']}",
    "store.unavailable": lambda fields: f"the store does not answer ({fields['error']}); waiting for it",
    "store.returned": lambda fields: "the store answers again",
}

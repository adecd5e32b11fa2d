"""The page of one job."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from redrive.cli.output import clean, counted, cut, folded, paint, show, width
from redrive.cli.shapes import json_in
from redrive.cli.times import at_and_beside, beside, span
from redrive.job import Job, State, decode_headers
from redrive.letter import Failure
from redrive.limits import attempts_of
from redrive.redact import printable, redact, redact_text
from redrive.results import NOT_KEPT
from redrive.store import Finished, Record

NAMES = 10
PAYLOAD_LINES = 40
_COLOURS = {State.DEAD: "red", State.DONE: "green", State.LEASED: "cyan", State.SCHEDULED: "yellow"}


def show_page(record: Record, reasons: Sequence[str], now: int) -> None:
    """Everything about a job, for a person."""
    head = record.job or record.finished
    if head is None:
        return
    state = record.job.state if record.job else State.DONE
    show(f"job {paint(head.id[-8:], bold=True)} {clean(head.task)}  {paint(state, colour=_COLOURS.get(state))}")
    fields = _of_job(record.job, record, now) if record.job else _of_finished(record.finished, now)
    for name, text in fields:
        field(name, text)
    for place, reason in enumerate(reasons):
        field("why" if place == 0 else "", reason)
    if record.job:
        value("payload", json_in(record.job.payload))
    elif record.finished and record.finished.result is not None:
        _result(json_in(record.finished.result))
    _failures(record.failures, now)


def field(name: str, text: str) -> None:
    """A name and what it is, folded under itself when it is long."""
    first, *rest = folded(clean(text), max(20, width() - NAMES - 2))
    show(f"  {name:<{NAMES}}{first}")
    for line in rest:
        show(f"  {'':<{NAMES}}{line}")


def _of_job(job: Job, record: Record, now: int) -> Iterator[tuple[str, str]]:
    yield "id", job.id
    yield "queue", f"{job.queue}, priority {job.priority}"
    epoch = f", epoch {job.epoch}" if job.epoch > 1 else ""
    yield "attempts", f"{job.attempts} of {attempts_of(job)} failed, {counted(job.starts, 'start')}{epoch}"
    if job.crashes or job.losses:
        yield "", f"{counted(job.crashes, 'crash', 'crashes')}, {counted(job.losses, 'loss', 'losses')}"
    yield "created", at_and_beside(job.created_at, now)
    if job.state in (State.SCHEDULED, State.READY):
        yield "due", at_and_beside(job.due_at, now)
    if job.expires:
        yield "expires", at_and_beside(job.expires, now)
    if record.ended_at:
        yield "ended", at_and_beside(record.ended_at, now)
    yield from _names(job)


def _names(job: Job) -> Iterator[tuple[str, str]]:
    given = {
        "key": job.key,
        "external": job.external_id,
        "batch": job.batch,
        "parent": job.parent,
        "needs": ", ".join(job.needs),
        "release": job.release,
    }
    yield from ((name, value) for name, value in given.items() if value)
    yield from headers_of(job.headers)


def headers_of(headers: bytes | None) -> Iterator[tuple[str, str]]:
    """A line for each header."""
    for place, (name, text) in enumerate(redact(decode_headers(headers)).items()):
        yield "headers" if place == 0 else "", f"{name}: {text}"


def _of_finished(row: Finished | None, now: int) -> Iterator[tuple[str, str]]:
    if row is None:
        return
    yield "id", row.id
    yield "queue", row.queue
    yield "attempts", f"done on attempt {row.attempts} in {span(row.duration)}"
    yield "ended", at_and_beside(row.ended_at, now)
    if row.key:
        yield "key", row.key


def _result(found: Any) -> None:
    """What was returned, or why that was not kept."""
    if isinstance(found, dict) and found.keys() == {NOT_KEPT}:
        field("result", f"not kept: {found[NOT_KEPT]}")
    else:
        value("result", found)


def value(name: str, found: Any) -> None:
    """A JSON value, on one line if it fits."""
    shown = redact(found)
    text = printable(msgspec.json.encode(shown).decode())
    if len(text) <= width() - NAMES - 2:
        show(f"  {name:<{NAMES}}{text}")
        return
    show(f"  {name}")
    lines = printable(msgspec.json.format(msgspec.json.encode(shown)).decode(), keep_lines=True).splitlines()
    for line in lines[:PAYLOAD_LINES]:
        show(f"    {cut(line, max(20, width() - 4))}")
    if len(lines) > PAYLOAD_LINES:
        show(f"    … {len(lines) - PAYLOAD_LINES} more lines; --json has them all")


def _failures(failures: Sequence[Failure], now: int) -> None:
    if not failures:
        return
    show()
    several = ", the last one at the end" if len(failures) > 1 else ""
    show(f"  {counted(len(failures), 'failure')}{several}", bold=True)
    for failure in failures:
        epoch = f" of epoch {failure.epoch}" if failure.epoch > 1 else ""
        said = f"{last_name(failure.type)}: {failure.message}" if failure.message else last_name(failure.type)
        head = f"attempt {failure.attempt}{epoch}, {beside(failure.at, now)}, {failure.reason}"
        _lines(f"{head}: {said}")
        cause, _, last_lines = (failure.cause or "").partition("\n")
        if cause:
            _lines(f"  died: {cause}")
        _lines(f"  in {span(failure.duration)} by {failure.worker} on {failure.host}")
    as_it_was(failures[-1].traceback or last_lines)


def _lines(text: str) -> None:
    for line in folded(clean(text), max(20, width() - 4))[:6]:
        show(f"    {line}")


def as_it_was(text: str) -> None:
    """A traceback, or what a process wrote before it died, line by line."""
    if not text:
        return
    show()
    for line in printable(redact_text(text), keep_lines=True).splitlines():
        show(f"    {line}".rstrip())


def last_name(path: str) -> str:
    """The name of a class without its module."""
    return path.rpartition(".")[2]

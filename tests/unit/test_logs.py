"""Log lines as people and machines read them."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from redrive.clock import SECOND
from redrive.events import EVENTS, Event, Events
from redrive.job import Job
from redrive.letter import Failure
from redrive.logs import log_event, said, start_logging

JOB = Job(id="01890000-0000-7000-8000-00005a1f01c2", task="thumbnail.make", payload=b"{}", queue="pictures")
REFUSED = Failure(reason="network", type="ConnectionError", message="connection refused", attempt=1)
BAD = Failure(reason="validation", type="ValueError", message="no width", attempt=1, retryable=False)

WORKER = {"worker": "w1"}
FIELDS: dict[str, dict[str, Any]] = {
    "job.started": {"attempt": 1, "limit": 3},
    "job.succeeded": {"attempt": 3, "duration": 1_200_000, "note": None},
    "job.retried": {"failure": REFUSED, "limit": 3, "delay": 5 * SECOND, "note": None},
    "job.buried": {"failure": BAD, "limit": 3, "why": "not retryable (validation)", "note": None},
    "job.snoozed": {"delay": 60 * SECOND, "why": "not yet"},
    "job.discarded": {"reason": "duplicate", "why": ""},
    "job.released": {"delay": 0, "why": "its worker stops"},
    "queue.unserved": {"queue": "email"},
    "worker.started": WORKER
    | {"store_url": "sqlite:////x.db", "durable": "a power cut", "queues": (), "slots": 30, "tasks": ("a",), "pid": 7},
    "worker.draining": WORKER | {"running": 2},
    "worker.stopped": WORKER | {"done": 5, "failed": 1},
    "worker.stuck": WORKER | {"stuck": 1, "slots": 8},
    "worker.recycled": WORKER | {"stuck": 4},
    "worker.lost": WORKER | {"cause": "its process is gone", "jobs": ["a", "b"]},
    "worker.fault": WORKER | {"error": "KeyError: 'x'"},
    "retention.announced": {"what": "open letters of every queue go 90d after they failed"},
    "retention.applied": {"letters": 12, "of": "queue email"},
    "rule.begun": {"rule": "network", "redrive": "01a1f679-3c84-716b-81b0-203999d9f8c0"},
    "rule.applied": {"rule": "cards", "action": "review", "n": 2},
    "rule.failed": {"rule": "deep", "error": "the path leads too far"},
    "store.unavailable": {"error": "disk gone"},
}


def event(name: str, **changes: Any) -> Event:
    return Event(name, JOB if name.startswith("job.") else None, FIELDS.get(name, {}) | changes)


@pytest.fixture
def log() -> Iterator[Callable[..., list[str]]]:
    """Tells events to the subscriber and answers the lines that were written."""
    logger = logging.getLogger("redrive")
    before = logger.handlers[:], logger.level, logger.propagate

    def tell(*events: Event, level: str = "debug", form: Literal["text", "json"] = "text") -> list[str]:
        stream = io.StringIO()
        start_logging(level, form, stream)
        told = Events()
        told.subscribe(log_event)
        for each in events:
            told.emit(each.name, each.job, **each.fields)
        return stream.getvalue().splitlines()

    yield tell
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (event("job.started"), "job 5a1f01c2 thumbnail.make started (attempt 1/3)"),
        (event("job.started", limit=None), "job 5a1f01c2 thumbnail.make started (attempt 1)"),
        (event("job.succeeded"), "job 5a1f01c2 thumbnail.make done on attempt 3 in 1.2s"),
        (
            event("job.retried"),
            "job 5a1f01c2 thumbnail.make failed (attempt 1/3, network): connection refused, retrying in 5.0s",
        ),
        (
            event("job.buried"),
            (
                "job 5a1f01c2 thumbnail.make failed (attempt 1/3, validation): no width, "
                "not retryable (validation), buried"
            ),
        ),
        (
            event("job.succeeded", note="its result was not kept"),
            "job 5a1f01c2 thumbnail.make done on attempt 3 in 1.2s (its result was not kept)",
        ),
        (event("worker.stopped", done=1), "worker w1 stopped: 1 job done, 1 buried"),
        (event("job.released"), "job 5a1f01c2 thumbnail.make given back, due at once: its worker stops"),
        (
            event("job.released", delay=5_000_000),
            "job 5a1f01c2 thumbnail.make given back, due in 5.0s: its worker stops",
        ),
        (event("job.snoozed"), "job 5a1f01c2 thumbnail.make snoozed, back in 1m: not yet"),
        (event("job.discarded"), "job 5a1f01c2 thumbnail.make discarded (duplicate)"),
        (event("retention.announced"), "retention: open letters of every queue go 90d after they failed"),
        (event("retention.applied"), "retention: removed 12 open letters of queue email for good"),
        (event("rule.begun"), "rule network: began redrive 99d9f8c0"),
        (event("rule.applied"), "rule cards: 2 letters need review"),
        (event("rule.applied", action="discard", n=1), "rule cards: discarded 1 letter"),
        (event("rule.applied", action="notify"), "rule cards: told of 2 letters in the journal"),
        (event("rule.failed"), "rule deep cannot be applied: the path leads too far"),
        (event("worker.lost"), "worker w1 is lost (its process is gone); took over 2 jobs"),
    ],
)
def test_an_event_is_a_sentence(told: Event, line: str) -> None:
    assert said(told) == line


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_sentence_and_a_json_line(name: str, log: Callable[..., list[str]]) -> None:
    (line,) = log(event(name))
    assert name not in line
    (line,) = log(event(name), form="json")
    assert json.loads(line)["event"] == name


def test_json_lines_hold_ids_seconds_and_the_failure(log: Callable[..., list[str]]) -> None:
    (line,) = log(event("job.retried"), form="json")
    told = json.loads(line)
    assert told.pop("at").endswith("Z")
    assert told == {
        "level": "warning",
        "event": "job.retried",
        "job": JOB.id,
        "task": "thumbnail.make",
        "queue": "pictures",
        "reason": "network",
        "attempt": 1,
        "error": "connection refused",
        "limit": 3,
        "delay": 5.0,
        "message": "job 5a1f01c2 thumbnail.make failed (attempt 1/3, network): connection refused, retrying in 5.0s",
    }


def test_the_level_decides_what_appears(log: Callable[..., list[str]]) -> None:
    told = [event("job.enqueued"), event("job.started"), event("job.retried"), event("job.buried")]
    assert [len(log(*told, level=level)) for level in ("debug", "info", "warning", "error")] == [4, 3, 2, 1]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_cannot_break_its_line_or_show_a_secret(form: str, log: Callable[..., list[str]]) -> None:
    nasty = Failure(reason="unknown", type="E", message="a\nb\x1b[31mred \u202eevil password=hunter2", attempt=1)
    (line,) = log(event("job.retried", failure=nasty), form=form)
    assert "hunter2" not in line
    assert "\x1b" not in line
    assert "\u202e" not in line


def test_a_huge_message_is_cut(log: Callable[..., list[str]]) -> None:
    (line,) = log(event("job.retried", failure=Failure(reason="unknown", type="E", message="x" * 10**6, attempt=1)))
    assert len(line) < 800


def test_a_subscriber_that_raises_is_logged_with_its_traceback(log: Callable[..., list[str]]) -> None:
    log()
    stream = io.StringIO()
    start_logging("info", "json", stream)
    events = Events()

    def broken(event: Event) -> None:
        raise ValueError("mine")

    events.subscribe(broken)
    events.emit("store.returned")
    told = json.loads(stream.getvalue())
    assert told["level"] == "error"
    assert "ValueError: mine" in told["traceback"]

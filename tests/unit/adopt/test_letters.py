"""Records of other systems as dead jobs: what is kept, what is completed, what is refused."""

import random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from redrive.adopt.letters import LEFTOVER, Fault, NotDead, Wanted, letter_of, unquoted
from redrive.adopt.reading import Record
from redrive.clock import SECOND
from redrive.job import decode, decode_headers
from redrive.limits import attempts_of
from redrive.store import Foreign

NOW = 1_767_225_600 * SECOND
AT = 1_763_782_525 * SECOND
ID = "7c2f9a52-6e0e-4a53-9d53-0a6f0c5a1f01"
ROW = {
    "job_id": ID, "job_type": "thumbnail", "status": "FAILED", "attempts": "3", "max_attempts": "5",
    "last_error": "Failed to download",
    "error_stacktrace": "Traceback (most recent call last):\nmodule.ConnectionError: Failed to download",
    "input_data": '{"key": "a"}', "created_at": "2025-11-22 03:35:25+00",
}  # fmt: skip


def made(value: dict[str, Any], *, cells: bool = False, workflow: str | None = None, **wanted: Any) -> Foreign:
    record = Record(place="line 1", value=value, size=0, cells=cells, workflow=workflow)
    return letter_of(record, Wanted(**{"now": NOW, "payload_limit": 1_000_000, **wanted}))


def test_a_row_is_kept_whole() -> None:
    found = made(ROW, cells=True)
    job, [failure] = found.job, found.failures
    assert (job.id, job.task, job.queue, job.attempts, job.external_id) == (ID, "thumbnail", "default", 3, None)
    assert (decode(job.payload), attempts_of(job), job.created_at) == ({"key": "a"}, 5, AT)
    assert (failure.type, failure.message, failure.attempt) == ("module.ConnectionError", "Failed to download", 3)
    assert (failure.at, found.first_failed_at, job.headers) == (AT, AT, None)


def test_keys_may_be_written_otherwise() -> None:
    """In camelCase, in capitals, and with the words of other systems."""
    other = {
        "jobId": ID, "TASK_TYPE": "thumbnail", "originalQueue": "media", "attemptCount": 3, "errorMessage": "no",
        "failureReason": "TIMEOUT", "processingHost": "h1", "agentVersion": "2.4", "lastFailureAt": AT // 1_000,
        "firstFailureAt": AT // SECOND - 60, "data": {"key": "a"},
    }  # fmt: skip
    found = made(other)
    failure = found.failures[-1]
    assert (found.job.task, found.job.queue, found.job.attempts) == ("thumbnail", "media", 3)
    assert (failure.reason, failure.message, failure.host, failure.release) == ("timeout", "no", "h1", "2.4")
    assert (failure.at, found.first_failed_at, decode(found.job.payload)) == (AT, AT - 60 * SECOND, {"key": "a"})


def test_missing_keys_are_completed() -> None:
    """Nothing but an id, a task and an error: no arguments, one attempt, now."""
    found = made({"job_id": ID, "job_type": "thumbnail", "last_error": "request timed out"})
    failure = found.failures[-1]
    assert (found.job.payload, found.job.attempts, failure.at) == (b"{}", 1, NOW)
    assert (failure.reason, failure.type) == ("timeout", "Error")


@pytest.mark.parametrize(
    ("data", "payload"),
    [
        ({"a": [1]}, {"a": [1]}),
        ('{"a": "{}"}', {"a": "{}"}),
        ("[1]", [1]),
        ("plain", "plain"),
        ("12", "12"),
        ("{broken", "{broken"),
        (None, {}),
        (5, 5),
    ],
)
def test_a_payload_may_be_nested_or_a_text(data: Any, payload: Any) -> None:
    assert decode(made({**ROW, "input_data": data}).job.payload) == payload


def test_a_text_of_an_item_stays_one() -> None:
    """An item may be any JSON value."""
    item = {"item_id": "i", "item_data": '{"a": 1}', "error_signature": "Timeout::agent"}
    assert decode(made(item, task="t").job.payload) == '{"a": 1}'


def test_other_ids_become_the_same_uuid_each_time() -> None:
    """Per source and id; the id that others know is kept."""
    first, again = made({**ROW, "job_id": "42"}).job, made({**ROW, "job_id": "42", "attempts": 9}).job
    assert (first.id, first.external_id, UUID(first.id).version) == (again.id, "42", 5)
    elsewhere = made({"item_id": "42", "item_data": 1}, task="thumbnail").job
    workflows = [made({"item_id": "42", "item_data": 1}, task="t", workflow=name).job.id for name in ("a", "b")]
    assert len({first.id, elsewhere.id, *workflows}) == 4
    assert made({**ROW, "job_id": 42}).job.id == first.id


def test_a_record_without_an_id_is_known_by_what_it_holds() -> None:
    row = {key: value for key, value in ROW.items() if key != "job_id"}
    backwards = dict(reversed(row.items()))
    assert made(row).job.id == made(backwards).job.id != made({**row, "attempts": "4"}).job.id


def test_what_has_no_place_is_kept_in_a_header() -> None:
    found = made({**ROW, "worktree": {"branch": "x"}, "priority": 99, "headers": {"trace": 7}})
    headers = decode_headers(found.job.headers)
    assert headers["trace"] == "7"
    assert decode(headers[LEFTOVER].encode()) == {"worktree": {"branch": "x"}, "priority": 99}


@pytest.mark.parametrize(
    ("eligible", "review", "heals"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_what_a_person_has_to_look_at_needs_review(eligible: bool, review: bool, heals: bool) -> None:
    """Its failure is no passing one, and no redrive takes it along."""
    item = {"item_id": "i", "item_data": 1, "reprocess_eligible": eligible, "manual_review_required": review}
    letter = made(item, task="t")
    assert letter.failures[-1].retryable is heals
    assert (letter.review is None) is heals
    said = "manual_review_required" if review else "reprocess_eligible = false"
    assert heals or letter.review == f"it was imported with {said}"


@pytest.mark.parametrize(
    ("error_type", "type", "reason", "cause"),
    [
        ("Timeout", "Timeout", "timeout", None),
        ({"CommandFailed": {"exit_code": 101}}, "CommandFailed", "command_failed", "exit code 101"),
        ({"Other": {"exit_code": 1, "x": 2}}, "Other", "unknown", 'exit code 1\n{"x":2}'),
        ({"Other": "text"}, "Other", "unknown", "text"),
        ({"a": 1, "b": 2}, "Error", "unknown", '{"a":1,"b":2}'),
    ],
)
def test_an_error_type_is_a_text_or_an_object(error_type: Any, type: str, reason: str, cause: str | None) -> None:
    entry = {"error_type": error_type, "error_message": "it went wrong", "timestamp": "2025-11-22T03:35:25Z"}
    item = {"item_id": "i", "item_data": 1, "failure_history": [entry]}
    failure = made(item, task="t").failures[-1]
    assert (failure.type, failure.reason, failure.cause, failure.at) == (type, reason, cause, AT)


@pytest.mark.parametrize(
    ("trace", "type", "message"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: no\n", "ValueError", "no"),
        ("java.io.IOException: disk\n\tat a.b.C(D.java:1)", "java.io.IOException", "disk"),
        ("Exception: SMTP down in /app/x.php:3\nStack trace:\n#0", "Exception", "SMTP down in /app/x.php:3"),
        ("something went wrong\nat place", "Error", "something went wrong"),
        ("", "Error", ""),
    ],
)
def test_a_traceback_tells_what_the_record_does_not(trace: str, type: str, message: str) -> None:
    failure = made({"job_id": ID, "job_type": "t", "error_stacktrace": trace, "failed_at": AT}).failures[-1]
    assert (failure.type, failure.message) == (type, message)


def test_a_uuid_beside_the_number_of_a_row_is_its_id() -> None:
    """As in tables that have both."""
    assert made({"id": 7, "uuid": ID, "queue": "q", "exception": "E: x", "failed_at": AT}, task="t").job.id == ID


@pytest.mark.parametrize("state", ["COMPLETED", "running", "redriven", "closed"])
def test_what_is_not_dead_is_left_out(state: str) -> None:
    with pytest.raises(NotDead, match=state):
        made({**ROW, "status": state})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job_type": None}, "names no task; say which one with --task NAME"),
        ({"job_type": "x" * 600}, "1 to 512 characters"),
        ({"attempts": "many"}, "attempts 'many' is not a whole number"),
        ({"attempts": -1}, "attempts -1 is not a whole number"),
        ({"created_at": "soon"}, "created_at 'soon' is no time"),
        ({"input_data": "x" * 2_000_000}, "over the limit"),
        ({"last_error": ["a"]}, "message ['a'] is no text"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Fault) as fault:
        made({**ROW, **change})
    assert why in str(fault.value)


def test_something_else_is_not_a_failed_job() -> None:
    with pytest.raises(ValueError, match="none of the keys of a failed job; it has name, colour"):
        made({"name": "x", "colour": "red"})


@pytest.mark.parametrize(("cell", "text"), [("'=1", "=1"), ("''=1", "'=1"), ("'a", "'a"), ("=1", "=1"), ("'", "'")])
def test_only_the_quote_of_a_formula_is_taken_off(cell: str, text: str) -> None:
    assert unquoted(cell) == text


STRANGE: list[Any] = [
    None, "", 0, -1, True, 1e300, "x", "\ud800", "\0", "2025-01-01", [], {}, [{}], [1, "a", None], {"a": {"b": 1}},
    "[]", "{}", 10**30, {"$date": 5}, [{"timestamp": "soon"}], [{"error_type": {"A": {"exit_code": "x"}}}], "a" * 3_000,
]  # fmt: skip
KEYS = [
    *ROW, "item_id", "item_data", "failure_history", "error_type", "error_signature", "priority", "headers", "id",
    "task", "group", "epochs", "failed_at", "failures", "payload", "queue", "version", "workflow", "host",
    "type", "duration",
]  # fmt: skip


def test_no_record_is_an_unexpected_error() -> None:
    """5,000 records by chance: each is a letter that can be written, or a sentence."""
    chance = random.Random(7)
    made_of, refused = 0, 0
    for _ in range(5_000):
        value = {**ROW} if chance.random() < 0.5 else {}
        value |= {key: chance.choice(STRANGE) for key in chance.sample(KEYS, chance.randrange(1, 8))}
        try:
            found = made(value, cells=chance.random() < 0.2 and all(isinstance(one, str) for one in value.values()))
        except (NotDead, *Fault) as fault:
            refused += len(str(fault)) < 1_000
        else:
            assert found.failures
            msgspec.json.decode(found.job.payload)
            made_of += 1
    assert made_of + refused == 5_000
    assert min(made_of, refused) > 500

"""The table of reasons row by row, and the user's own word."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive import errors
from redrive.clock import SECOND
from redrive.errors import Bury, RetryAfter
from redrive.reasons import ALIASES, RETRYABLE, Rules, Verdict, classify, reason_named
from tests.faults import Failed, Liar, judged, named, raised

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)
NONE = Rules()


# --- the table --------------------------------------------------------------------------------------------------------


async def never() -> None:
    await asyncio.Event().wait()


ROWS: list[tuple[str, BaseException]] = [
    ("timeout", TimeoutError()),
    ("timeout", raised(lambda: asyncio.run(asyncio.wait_for(never(), 0.001)))),
    ("timeout", raised(lambda: subprocess.run([sys.executable, "-c", "input()"], timeout=0, stdin=subprocess.PIPE))),
    ("timeout", OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))),
    ("timeout", Failed("the request timed out")),
    ("timeout", Failed(status=408)),
    ("timeout", named("requests.exceptions.Timeout")),
    ("network", ConnectionError()),
    ("network", BrokenPipeError()),
    ("network", OSError(errno.ECONNRESET, "x")),
    ("network", OSError(errno.ENETUNREACH, "x")),
    ("network", raised(lambda: socket.getaddrinfo("no-such-host.invalid", 80))),
    ("network", Failed("read ECONNRESET")),
    ("network", Failed("Temporary failure in name resolution")),
    ("network", Failed("DNS lookup failed")),
    ("network", named("httpx.ConnectError", type("TransportError", (Exception,), {"__module__": "httpx"}))),
    ("unavailable", Failed("Service Unavailable")),
    ("unavailable", Failed("provider openai not found")),
    ("unavailable", Failed("not found: service billing")),
    ("unavailable", Failed("resource busy")),
    ("unavailable", Failed("502 Bad Gateway")),
    ("unavailable", Failed("HTTP 503")),
    ("unavailable", Failed(status_code=502)),
    ("unavailable", Failed(response=SimpleNamespace(status_code=503))),
    ("unavailable", Failed(code=HTTPStatus.GATEWAY_TIMEOUT)),
    ("unavailable", OSError(errno.EBUSY, "x")),
    ("unavailable", errors.StoreUnavailable("x")),
    ("rate_limited", Failed(status=429)),
    ("rate_limited", Failed("HTTP 429")),
    ("rate_limited", Failed("Rate limit reached")),
    ("rate_limited", Failed("rate_limit_exceeded")),
    ("rate_limited", Failed("quota exceeded for project")),
    ("rate_limited", Failed("ThrottlingException: throttled")),
    ("resource_exhausted", MemoryError()),
    ("resource_exhausted", OSError(errno.ENOSPC, "x")),
    ("resource_exhausted", OSError(errno.EMFILE, "x")),
    ("resource_exhausted", Failed("can't start new thread")),
    ("command_failed", raised(lambda: subprocess.run([sys.executable, "-c", "exit(3)"], check=True))),
    ("validation", raised(lambda: msgspec.convert({"a": "x"}, dict[str, int]))),
    ("validation", named("pydantic_core._pydantic_core.ValidationError", ValueError)),
    ("validation", named("jsonschema.exceptions.ValidationError")),
    ("validation", errors.BadArguments("x")),
    ("validation", Failed(status=400)),
    ("validation", Failed(response=SimpleNamespace(status=422))),
    ("unauthorized", PermissionError()),
    ("unauthorized", OSError(errno.EACCES, "x")),
    ("unauthorized", Failed(status_code=401)),
    ("unauthorized", Failed(code=403)),
    ("unsupported", NotImplementedError()),
    ("unknown_task", errors.UnknownTask("x")),
    ("buried", Bury("bad input")),
    ("unknown", ValueError("x")),
    ("unknown", KeyError("key")),
    ("unknown", Failed(status=500)),
    ("unknown", Failed(status=404)),
    ("unknown", Failed(status=True, code="429", status_code=None)),
    ("unknown", SystemExit(3)),
    ("unknown", KeyboardInterrupt()),
    ("unknown", GeneratorExit()),
]


@pytest.mark.parametrize(("reason", "error"), ROWS, ids=[f"{reason}-{error!r:.60}" for reason, error in ROWS])
def test_the_table_of_reasons(reason: str, error: BaseException) -> None:
    verdict = classify(error, NONE)
    assert (verdict.reason, verdict.retryable, verdict.note) == (reason, RETRYABLE[reason], None)


def test_every_reason_that_an_exception_can_have_has_its_row_here() -> None:
    """Lost and crashed have no exception: they are what is found afterwards."""
    assert {reason for reason, _ in ROWS} == set(RETRYABLE) - {"lost", "crashed"}


def test_the_words_of_the_reference_are_the_words_of_the_code() -> None:
    assert set(RETRYABLE) == {
        *("timeout", "network", "unavailable", "rate_limited", "resource_exhausted", "command_failed", "lost"),
        *("crashed", "validation", "unauthorized", "unsupported", "unknown_task", "buried", "unknown"),
    }
    permanent = {"validation", "unauthorized", "unsupported", "unknown_task", "buried"}
    assert {reason for reason, retryable in RETRYABLE.items() if not retryable} == permanent


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("1 validation error for User", "validation"),
        ("Invalid input: name", "validation"),
        ("Permission denied", "unauthorized"),
        ("403 Forbidden", "unauthorized"),
        ("unsupported media type", "unsupported"),
        ("unknown operation: fly", "unsupported"),
    ],
)
def test_only_the_clear_sentences_make_a_message_permanent(message: str, reason: str) -> None:
    assert judged(Failed(message)) == Verdict(reason, retryable=False)


@pytest.mark.parametrize(
    "message",
    [
        *("401", "HTTP 401 Unauthorized", "status 422", "not allowed", "bad request", "NotImplementedError", "invalid"),
        *("no such user", "404 page not found", "user not found", "unauthorised", "validation", "denied"),
    ],
)
def test_no_other_message_makes_a_failure_permanent(message: str) -> None:
    assert judged(Failed(message)).retryable


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("validation error: upstream timed out", "timeout"),
        ("invalid input: connection reset by peer", "network"),
        ("Forbidden: rate limit exceeded", "rate_limited"),
        ("permission denied, service unavailable", "unavailable"),
        ("unsupported: too many open files", "resource_exhausted"),
    ],
)
def test_words_that_time_heals_win_over_a_permanent_sentence(message: str, reason: str) -> None:
    assert judged(Failed(message)) == Verdict(reason, retryable=True)


@pytest.mark.parametrize(
    "error", [PermissionError("timed out"), NotImplementedError("503"), Failed("busy", status=401)]
)
def test_a_message_heals_nothing_that_its_type_or_status_makes_permanent(error: BaseException) -> None:
    assert not judged(error).retryable


@pytest.mark.parametrize(
    "message", ["took 502 ms", "order 429", "user 5030", "1503", "id=504", "timeouts=3", "busybox"]
)
def test_a_number_or_a_part_of_a_word_means_nothing(message: str) -> None:
    assert judged(Failed(message)).reason == "unknown"


def test_a_message_is_looked_at_up_to_its_limit() -> None:
    assert judged(Failed("x " * 4_000 + "timed out")).reason == "timeout"
    assert judged(Failed("x " * 40_000_000 + "timed out")).reason == "unknown"


@rule
@given(st.text(max_size=300))
def test_a_message_alone_is_permanent_only_by_its_clear_sentences(message: str) -> None:
    clear = ("validation error", "invalid input", "permission denied", "forbidden", "unsupported", "unknown operation")
    assert judged(Failed(message)).retryable or any(one in message.lower() for one in clear)


# --- the user's own word ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, Verdict("timeout", retryable=True)),
        ("network", Verdict("network", retryable=True)),
        ("VALIDATION_FAILED", Verdict("validation", retryable=False)),
        ("Card declined", Verdict("card_declined", retryable=True)),
        (Verdict("mine", retryable=False), Verdict("mine", retryable=False)),
        (Verdict("Mine", True, 5, "seen"), Verdict("mine", True, 5, "seen")),
        (Verdict("mine", True, -5), Verdict("mine", True, 0)),
        (Verdict("RATE_LIMIT", retryable=True), Verdict("rate_limited", retryable=True)),
    ],
)
def test_the_users_classifier_is_asked_first_and_none_falls_back(answer: Any, verdict: Verdict) -> None:
    rows = [{"type": "TimeoutError", "reason": "timeout"}]
    assert judged(TimeoutError(), *rows, by=lambda error: answer) == verdict


@pytest.mark.parametrize(
    "answer",
    [
        *(5, True, "", "  ", b"timeout", object(), ["timeout"], TimeoutError, TimeoutError()),
        Verdict("", retryable=True),
        Verdict(5, retryable=True),  # type: ignore[arg-type]
        Verdict("x", retryable=1),  # type: ignore[arg-type]
        Verdict("x", retryable=True, retry_after="soon"),  # type: ignore[arg-type]
        Verdict("x", retryable=True, note=5),  # type: ignore[arg-type]
    ],
)
def test_nonsense_of_a_classifier_is_noted_and_the_default_used(answer: Any) -> None:
    verdict = judged(TimeoutError(), by=lambda error: answer)
    assert (verdict.reason, verdict.retryable) == ("timeout", True)
    assert verdict.note == (
        f"classify= returned {type(answer).__name__}, not a reason, a Verdict or None; the default was used"
    )


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError])
def test_a_classifier_that_raises_is_noted_and_the_default_used(kind: type[BaseException]) -> None:
    def broken(error: BaseException) -> str:
        raise kind

    verdict = judged(TimeoutError(), by=broken)
    assert verdict == Verdict("timeout", True, None, f"classify= raised {kind.__name__}; the default was used")


def test_an_answer_that_lies_about_its_class_is_nonsense() -> None:
    assert judged(TimeoutError(), by=lambda error: Liar()).note == (
        "classify= raised ZeroDivisionError; the default was used"
    )


def test_a_word_of_any_length_becomes_one_that_a_store_can_hold() -> None:
    reason = judged(ValueError(), by=lambda error: "x\ud800" * 10_000).reason
    assert len(reason) < 200
    assert reason.encode()


def test_bury_and_retry_after_are_not_asked_about() -> None:
    assert judged(Bury(), by=lambda error: "timeout") == Verdict("buried", retryable=False)
    assert judged(RetryAfter(5), by=lambda error: Verdict("mine", False, 9)) == Verdict("mine", True, 5 * SECOND)


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("TIMEOUT", "timeout"),
        ("NETWORK_ERROR", "network"),
        ("VALIDATION_FAILED", "validation"),
        ("CommandFailed", "command_failed"),
        ("RateLimited", "rate_limited"),
        ("rate-limited", "rate_limited"),
        (" rate limited ", "rate_limited"),
        ("ResourceExhausted", "resource_exhausted"),
        ("time_out", "timeout"),
        ("ValidationError", "validation"),
        ("Card-Declined", "card_declined"),
        ("my_own", "my_own"),
    ],
)
def test_a_reason_may_be_typed_in_many_ways(typed: str, reason: str) -> None:
    assert reason_named(typed) == reason


def test_every_alias_means_a_reason_and_hides_none() -> None:
    assert set(ALIASES.values()) <= set(RETRYABLE)
    assert not set(ALIASES) & set(RETRYABLE)


@rule
@given(
    st.sampled_from([*RETRYABLE, *ALIASES]), st.sampled_from([str.upper, str.title, str.lower]), st.sampled_from("_- ")
)
def test_case_and_hyphens_do_not_matter(word: str, cased: Callable[[str], str], between: str) -> None:
    assert reason_named(cased(word).replace("_", between)) == ALIASES.get(word, word)


@rule
@given(st.text(max_size=40))
def test_a_word_read_twice_is_the_same_word(word: str) -> None:
    assert reason_named(reason_named(word)) == reason_named(word)

"""Policies as people write them, in code and in tables; what is wrong gets one sentence."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.backoff import BACKOFF_KEYS
from redrive.errors import ConfigError, RedriveError, UsageError
from redrive.job import Job
from redrive.reasons import Verdict
from redrive.retry import (
    BURY,
    DISCARD,
    Drop,
    GiveUp,
    Retry,
    RetryAt,
    decide,
    delays,
    fixed,
    immediate,
    linear,
    policy_from,
)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Retry(0), "max_attempts 0 is not a count; write 1 or more"),
        (lambda: Retry(True), "max_attempts True is not a count"),
        (lambda: Retry(2.5), "max_attempts 2.5 is not a count"),  # type: ignore[arg-type]
        (lambda: Retry(crash_limit=0), "crash_limit 0 is not a count"),
        (lambda: Retry(jitter="some"), "jitter 'some' is none of full, equal, decorrelated, none"),  # type: ignore[arg-type]
        (lambda: Retry(within=0), "within 0 is no time at all; write more than zero"),
        (lambda: Retry(within="x"), "within: 'x' is not a duration"),
        (lambda: Retry(backoff=5), "backoff 5 is neither a function nor made by exponential"),  # type: ignore[arg-type]
        (lambda: Retry(backoff=int), "backoff <class 'int'> is neither a function"),
        (lambda: Retry(backoff=lambda: 5), r"the backoff function takes \(\); it may take one argument or"),  # type: ignore[arg-type]
        (lambda: Retry(backoff=lambda a, b: 5), r"the backoff function takes \(a, b\)"),  # type: ignore[arg-type]
        (lambda: Retry(on=[KeyError]), r"on=\[<class 'KeyError'>\] is no table; write on=\{TimeoutError: '1m', "),  # type: ignore[arg-type]
        (lambda: Retry(on={5: BURY}), r"on=\{5: …\}: a key is an exception class or a reason"),  # type: ignore[dict-item]
        (lambda: Retry(on={int: BURY}), r"on=\{<class 'int'>: …\}: a key is"),  # type: ignore[dict-item]
        (lambda: Retry(on={" ": BURY}), r"on=\{' ': …\}: a key is"),
        (lambda: Retry(on={"ValueError": BURY}), r"on=\{'ValueError': …\} is no reason; write the exception class"),
        (lambda: Retry(on={"requests.Timeout": 5}), r"on=\{'requests.Timeout': …\} is no reason"),
        (lambda: Retry(on={KeyError: "bury"}), r"on=\{<class 'KeyError'>\}: 'bury' is not a duration"),
        (lambda: Retry(on={KeyError: True}), r"on=\{<class 'KeyError'>\}: True is not a duration"),
        (lambda: Retry(on={KeyError: None}), "on=.*None}: write a Retry, a duration, BURY, DISCARD or a function"),
        (lambda: Retry(on={KeyError: lambda a, b: 5}), r"the on= function takes \(a, b\)"),
        (lambda: Retry(on={KeyError: Retry(on={OSError: 5})}), "on=.*: a policy inside on= cannot have an on="),
    ],
)
def test_a_wrong_policy_is_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}") as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_policy_shows_what_it_says() -> None:
    shown = repr(Retry(5, backoff=fixed(1), on={KeyError: BURY}))
    assert shown.startswith("Retry(5, backoff=Fixed(")
    assert "BURY" in shown


@pytest.mark.parametrize(
    ("table", "policy"),
    [
        ({}, Retry()),
        ({"max_attempts": 7, "within": "6h", "jitter": "full"}, Retry(7, within="6h", jitter="full")),
        ({"max_retries": 1, "crash_limit": 5}, Retry(1, crash_limit=5)),
        ({"strategy": "linear", "base": 2, "max_delay": 9}, Retry(backoff=linear(2, cap=9))),
        ({"delays": [5, 30, 120]}, Retry(4, backoff=delays(5, 30, 120))),
        ({"delays": "5, 30s", "max_attempts": 2}, Retry(2, backoff=delays(5, 30))),
        ({"backoff": "fixed", "base": 5, "jitter": "none"}, Retry(backoff=fixed(5), jitter="none")),
        ({"backoff": "immediate"}, Retry(backoff=immediate())),
        (
            {
                "on": {
                    "TIMEOUT": "bury",
                    "network": "Discard",
                    "rate_limited": "30s",
                    "unavailable": {"max_attempts": 9},
                }
            },
            Retry(on={"timeout": BURY, "network": DISCARD, "rate_limited": 30, "unavailable": Retry(9)}),
        ),
    ],
)
def test_a_table_describes_a_policy(table: dict[str, Any], policy: Retry) -> None:
    assert repr(policy_from(table)) == repr(policy)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"max_attempt": 3}, r"\[retry\]: unknown key 'max_attempt'; did you mean max_attempts\?"),
        ({"colour": 3}, r"\[retry\]: unknown key 'colour'; there are max_attempts, jitter, within"),
        ({"max_attempts": "3"}, r"\[retry\]: max_attempts '3' is not a count"),
        (
            {"max_attempts": 3, "max_retries": 3},
            r"\[retry\]: max_attempts and max_retries are two names of one setting",
        ),
        ({"base": 9, "cap": 5}, r"\[retry\]: base 9.0s is above cap 5.0s"),
        ({"jitter": ["full"]}, r"\[retry\]: jitter \['full'\] is none of"),
        ({"within": "x"}, r"\[retry\]: within: 'x' is not a duration"),
        ({"on": "bury"}, r"\[retry\]: on = 'bury' is not a table of reasons"),
        ({"on": {"timeout": "berry"}}, r"\[retry\]: on=\{'timeout'\}: 'berry' is not a duration"),
        ({"on": {"timeout": {"bse": 5}}}, r"\[retry\] on timeout: unknown key 'bse'; did you mean base\?"),
        ({"on": {"timeout": {"on": {"x": 5}}}}, r"\[retry\]: on=.*a policy inside on= cannot have an on="),
    ],
)
def test_a_wrong_table_is_refused_in_one_sentence_that_says_where(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{sentence}"):
        policy_from(table)


def test_a_named_table_is_named_in_its_error() -> None:
    with pytest.raises(ConfigError, match=r"^\[retry.gentle\]: backoff 'x' is none of"):
        policy_from({"backoff": "x"}, "[retry.gentle]")


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from([*BACKOFF_KEYS, "max_attempts", "max_retries", "jitter", "within", "crash_limit", "on"])


def read(table: dict[str, Any]) -> Retry | str:
    """The policy of a table, or the sentence about it."""
    try:
        return policy_from(table)
    except RedriveError as refused:
        return f"{type(refused).__name__}: {refused}"


@rule
@given(st.dictionaries(keys, json, max_size=3))
def test_any_table_is_a_policy_or_one_sentence(table: dict[str, Any]) -> None:
    match read(table):
        case str(sentence):
            assert sentence.startswith("ConfigError: [retry]")
        case Retry() as policy:
            job = Job(id="j", task="t", payload=b"{}")
            decision = decide(policy, job, Verdict("unknown", retryable=True), ValueError(), 10**15, random.Random(7))
            assert isinstance(decision, RetryAt | GiveUp | Drop)

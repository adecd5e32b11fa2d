"""The numbers of a policy as they travel in a job, read also by whoever is older or newer."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.clock import SECOND
from redrive.job import Job
from redrive.limits import MAX_ATTEMPTS, Limits, attempts_of, encode_limits, limits_of
from redrive.retry import Retry, delays
from tests.backoffs import backoffs, jitters

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)

counts = st.none() | st.integers(1, 10**6)
lengths = st.none() | st.integers(0, 10**15)
any_limits = st.builds(
    Limits,
    max_attempts=counts,
    crash_limit=counts,
    within=lengths,
    timeout=lengths,
    lost_delay=lengths,
    crash_delay=lengths,
    backoff=st.none() | backoffs,
    jitter=st.none() | jitters,
)


@rule
@given(any_limits)
def test_limits_come_back_as_they_went(limits: Limits) -> None:
    assert limits_of(encode_limits(limits)) == limits


def test_a_job_without_limits_has_none() -> None:
    assert limits_of(None) == limits_of(b"") == limits_of(b"{}") == Limits()
    assert attempts_of(Job(id="j", task="t", payload=b"")) == MAX_ATTEMPTS


def test_limits_are_small() -> None:
    """They stand in every job."""
    assert encode_limits(Limits()) == b"{}"
    assert len(encode_limits(Retry().limits())) < 60


def test_the_numbers_of_a_policy_travel_and_its_functions_do_not() -> None:
    policy = Retry(7, within="1h", crash_limit=2, on={ValueError: 5}, backoff=lambda attempt: 5)
    assert policy.limits(timeout="30s") == Limits(
        max_attempts=7, crash_limit=2, within=3_600 * SECOND, timeout=30 * SECOND
    )
    assert Retry(backoff=delays(1, 2)).limits() == Limits(max_attempts=3, crash_limit=3, within=0)


@pytest.mark.parametrize("part", ["backoff", "jitter"])
@pytest.mark.parametrize("unknown", [{"kind": "fibonacci"}, "gaussian", 5, {"kind": "fixed"}])
def test_a_backoff_of_a_newer_version_counts_as_none_and_the_numbers_stay(part: str, unknown: object) -> None:
    policy = json.dumps({"max_attempts": 7, "within": 5, part: unknown, "colour": "red"}).encode()
    assert limits_of(policy) == Limits(max_attempts=7, within=5)


@pytest.mark.parametrize("policy", [b"\xff", b"[]", b"5", b"{", b'{"max_attempts":"x"}', b"[" * 100_000])
def test_what_cannot_be_read_counts_as_nothing_said(policy: bytes) -> None:
    """A job must not be lost for it: it then follows its task."""
    assert limits_of(policy) == Limits()


@rule
@given(st.binary(max_size=60))
def test_any_bytes_are_limits(policy: bytes) -> None:
    assert isinstance(limits_of(policy), Limits)

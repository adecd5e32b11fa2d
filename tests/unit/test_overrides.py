"""What may be said of the retry of redriven jobs, and what it comes to."""

from typing import Any

import pytest

from redrive.backoff import Delays, Exponential, Fixed, Immediate, Linear, exponential
from redrive.clock import SECOND
from redrive.errors import UsageError
from redrive.limits import Limits, carried, encode_limits, limits_of
from redrive.overrides import overrides
from redrive.retry import Retry

POLICIES: dict[str, dict[str, Any]] = {
    "patient": {"max_attempts": 9, "backoff": "fixed", "base": "1m", "jitter": "full", "within": "1h"}
}


def said(strategy: Any = None, base: Any = None, max_delay: Any = None, timeout: Any = None) -> Limits | None:
    """What is carried when this is said."""
    return overrides(strategy, base, max_delay, timeout, POLICIES)


def test_nothing_said_is_nothing_changed() -> None:
    assert said() is None


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (("fixed", "1s"), Limits(backoff=Fixed(SECOND), jitter="none")),
        (("immediate",), Limits(backoff=Immediate())),
        (("linear", "2s", "6s"), Limits(backoff=Linear(2 * SECOND, 2 * SECOND, 6 * SECOND))),
        (("exponential",), Limits(backoff=Exponential(5 * SECOND, 2, 300 * SECOND))),
        ((None, "10s"), Limits(backoff=Exponential(10 * SECOND, 2, 300 * SECOND))),
        ((None, None, "2s"), Limits(backoff=Exponential(2 * SECOND, 2, 2 * SECOND))),
        (("exponential", "10m"), Limits(backoff=Exponential(600 * SECOND, 2, 600 * SECOND))),
        (
            ("delays", "5, 30,2m"),
            Limits(backoff=Delays((5 * SECOND, 30 * SECOND, 120 * SECOND)), jitter="none", max_attempts=4),
        ),
        ((None, None, None, "3s"), Limits(timeout=3 * SECOND)),
        ((exponential("1s"),), Limits(backoff=exponential("1s"))),
    ],
)
def test_a_strategy_is_data_that_travels(words: tuple[Any, ...], limits: Limits) -> None:
    """Delays that were written down are kept to the second; a list of n means n + 1 attempts."""
    assert said(*words) == limits


def test_a_policy_is_taken_by_its_name() -> None:
    """With all its numbers, beside another deadline for the handler."""
    limits = Limits(
        max_attempts=9, crash_limit=3, within=3_600 * SECOND, backoff=Fixed(60 * SECOND), jitter="full", timeout=SECOND
    )
    assert said("patient", timeout="1s") == limits


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("fxed",), "there are exponential, linear, fixed, immediate, delays, patient"),
        (("fixed",), "needs the delay"),
        (("delays",), "needs the list"),
        (("delays", "5,soon"), "soon"),
        (("fixed", "1s", "2s"), "max_delay='2s' says nothing with fixed"),
        (("immediate", "1s"), "says nothing with immediate"),
        (("patient", "1s"), "beside a policy that is whole"),
        (("exponential", "soon"), "base"),
        (("exponential", "9s", "2s"), "above cap"),
        ((None, None, None, 0), "timeout"),
        ((Retry(3, backoff=lambda attempt: 5),), "function"),
        ((5,), "strategy=5"),
    ],
)
def test_what_means_nothing_is_refused(words: tuple[Any, ...], hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        said(*words)


def test_limits_come_back_after_the_epoch_they_were_said_for() -> None:
    """However often something else was said in between."""
    own = encode_limits(Limits(max_attempts=7, timeout=SECOND))
    once = carried(own, Limits(timeout=2))
    twice = carried(once, Limits(max_attempts=3))
    assert (limits_of(once).timeout, limits_of(once).max_attempts) == (2, 7)
    assert (limits_of(twice).timeout, limits_of(twice).max_attempts) == (SECOND, 3)
    assert limits_of(carried(twice, None)) == limits_of(own)
    assert carried(own, None) == own
    assert carried(None, None) is None

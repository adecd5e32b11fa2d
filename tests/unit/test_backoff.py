"""Delays: within their bounds, rising where promised, never zero by rounding, never over the cap."""

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.backoff import (
    LONGEST,
    SHORTEST,
    Backoff,
    Delays,
    Exponential,
    Jitter,
    Linear,
    backoff_from,
    jittered,
    spread,
    typical,
)
from redrive.clock import SECOND
from redrive.errors import UsageError
from redrive.retry import delays, exponential, fixed, immediate, linear
from tests.backoffs import attempts, backoffs, exponentials, fixeds, jitters, linears, lists, waiting

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)
rngs = st.integers(0, 2**32).map(random.Random)


class Edge:
    """Chance at its lowest or highest; beyond it when told so."""

    def __init__(self, at: float) -> None:
        self.at = at

    def random(self) -> float:
        return self.at

    def uniform(self, a: float, b: float, /) -> float:
        return a + (b - a) * self.at


chances = st.one_of(rngs, st.sampled_from([Edge(0), Edge(1), Edge(-3), Edge(4)]))
"""Any chance, the ends of its range, and a source that does not keep to it."""


# --- before jitter ----------------------------------------------------------------------------------------------------


@rule
@given(waiting, attempts)
def test_a_delay_is_never_zero_and_never_over_its_cap(backoff: Backoff, attempt: int) -> None:
    assert 1 <= backoff.after(attempt) <= backoff.cap <= LONGEST


@rule
@given(st.one_of(exponentials, linears), attempts)
def test_exponential_and_linear_never_fall(backoff: Exponential | Linear, attempt: int) -> None:
    assert backoff.after(1) == backoff.base
    assert backoff.after(attempt) <= backoff.after(attempt + 1)


@rule
@given(exponentials, st.integers(1, 40))
def test_exponential_multiplies_until_its_cap(backoff: Exponential, attempt: int) -> None:
    exact = min(backoff.base * backoff.multiplier ** (attempt - 1), backoff.cap)
    assert backoff.after(attempt) == pytest.approx(exact, abs=1)


@rule
@given(linears, st.integers(1, 10**6))
def test_linear_adds_its_step_until_its_cap(backoff: Linear, attempt: int) -> None:
    assert backoff.after(attempt) == min(backoff.base + (attempt - 1) * backoff.step, backoff.cap)


@rule
@given(lists, attempts)
def test_a_list_gives_its_delays_in_turn_and_then_the_last(backoff: Delays, attempt: int) -> None:
    expected = backoff.delays[attempt - 1] if attempt <= len(backoff.delays) else backoff.delays[-1]
    assert backoff.after(attempt) == expected


@rule
@given(fixeds, attempts)
def test_fixed_is_always_the_same(backoff: Backoff, attempt: int) -> None:
    assert backoff.after(attempt) == backoff.cap


@rule
@given(attempts, jitters, chances)
def test_immediate_is_no_delay_whatever_the_jitter(attempt: int, jitter: Jitter, chance: Any) -> None:
    assert jittered(immediate(), attempt, jitter, chance) == 0


def test_the_defaults_are_those_of_the_reference() -> None:
    assert [exponential().after(n) // SECOND for n in range(1, 9)] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert [linear().after(n) // SECOND for n in (1, 2, 3, 60, 61)] == [5, 10, 15, 300, 300]
    assert linear(5, 0).after(9) == 5 * SECOND
    assert [delays(5, "30s", timedelta(minutes=2)).after(n) // SECOND for n in (1, 2, 3, 4)] == [5, 30, 120, 120]


# --- jitter -----------------------------------------------------------------------------------------------------------


@rule
@given(waiting, attempts, jitters, chances)
def test_jitter_never_makes_zero_and_never_passes_the_cap(
    backoff: Backoff, attempt: int, jitter: Jitter, chance: Any
) -> None:
    assert 1 <= jittered(backoff, attempt, jitter, chance) <= backoff.cap


@rule
@given(waiting, attempts, chances)
def test_jitter_none_is_the_delay_itself(backoff: Backoff, attempt: int, chance: Any) -> None:
    assert jittered(backoff, attempt, "none", chance) == backoff.after(attempt)


@rule
@given(waiting, attempts, chances)
def test_equal_jitter_is_at_least_half_of_the_delay(backoff: Backoff, attempt: int, chance: Any) -> None:
    delay = backoff.after(attempt)
    assert delay / 2 <= jittered(backoff, attempt, "equal", chance) <= delay


@rule
@given(waiting, attempts, chances)
def test_full_jitter_leaves_a_millisecond_of_the_delay(backoff: Backoff, attempt: int, chance: Any) -> None:
    delay = backoff.after(attempt)
    assert min(SHORTEST, delay) <= jittered(backoff, attempt, "full", chance) <= delay


@rule
@given(st.one_of(exponentials, linears), attempts, chances)
def test_decorrelated_jitter_is_between_the_base_and_three_times_the_delay_before(
    backoff: Exponential | Linear, attempt: int, chance: Any
) -> None:
    before = backoff.after(max(1, attempt - 1))
    assert backoff.base <= jittered(backoff, attempt, "decorrelated", chance) <= min(backoff.cap, 3 * before)


@pytest.mark.parametrize(("jitter", "low"), [("full", SHORTEST), ("equal", 5 * SECOND), ("decorrelated", 10 * SECOND)])
def test_chance_reaches_both_ends_of_its_range(jitter: Jitter, low: int) -> None:
    """The control: jitter that is always one end of its range would pass the bounds."""
    backoff = exponential(10, cap="1h")
    high = {"decorrelated": 30 * SECOND}.get(jitter, 10 * SECOND)
    assert jittered(backoff, 1, jitter, Edge(0)) == low
    assert jittered(backoff, 1, jitter, Edge(1)) == high
    drawn = {jittered(backoff, 1, jitter, random.Random(seed)) for seed in range(50)}
    assert len(drawn) == 50


@rule
@given(st.integers(0, LONGEST), jitters, chances)
def test_a_spread_delay_is_zero_only_if_it_was(delay: int, jitter: Jitter, chance: Any) -> None:
    assert (spread(delay, jitter, chance) == 0) == (delay == 0)
    assert spread(delay, jitter, chance) <= delay


@rule
@given(backoffs, attempts, jitters)
def test_the_typical_delay_is_one_that_chance_may_give(backoff: Backoff, attempt: int, jitter: Jitter) -> None:
    low, high = (jittered(backoff, attempt, jitter, Edge(at)) for at in (0, 1))
    assert low <= typical(backoff, attempt, jitter) <= high


# --- what people write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fixed(0), r"delay 0 is no time at all; write more than zero, or use immediate\(\)"),
        (lambda: fixed("soon"), "delay: 'soon' is not a duration: write seconds"),
        (lambda: fixed(None), "delay: None is not a duration"),  # type: ignore[arg-type]
        (lambda: fixed(-1), "delay: -1 is not a duration"),
        (lambda: fixed("400d"), "delay '400d' is longer than 366d"),
        (lambda: delays(), r"delays\(\) is empty; write at least one, as in delays\(5, 30, 120, 300\)"),
        (lambda: delays(5, 0), r"delay 0 is no time at all"),
        (lambda: exponential(0), "base 0 is no time at all; write more than zero"),
        (lambda: exponential("10m"), "base 10m is above cap 5m; raise the cap or lower the base"),
        (lambda: exponential(multiplier=0.5), "multiplier 0.5 is not a number from 1 to 1000000"),
        (lambda: exponential(multiplier=float("nan")), "multiplier nan is not a number"),
        (lambda: exponential(multiplier="2"), "multiplier '2' is not a number"),  # type: ignore[arg-type]
        (lambda: linear(step="x"), "step: 'x' is not a duration"),
    ],
)
def test_a_wrong_backoff_is_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}"):
        make()


@pytest.mark.parametrize(
    ("table", "backoff"),
    [
        ({}, None),
        ({"max_attempts": 5}, None),
        ({"backoff": "exponential"}, exponential()),
        ({"strategy": "exponential", "base": "2s", "multiplier": 3, "max_delay": "1h"}, exponential("2s", 3, "1h")),
        ({"base": "2s"}, exponential("2s")),
        ({"backoff": "linear", "base": 1, "step": 2, "cap": 9}, linear(1, 2, 9)),
        ({"step": "3s"}, linear(step="3s")),
        ({"backoff": "fixed", "delay": 5}, fixed(5)),
        ({"backoff": "fixed", "base": 5}, fixed(5)),
        ({"delay": "5s"}, fixed(5)),
        ({"delays": [5, "30s"]}, delays(5, 30)),
        ({"backoff": "delays", "delays": "5, 30s"}, delays(5, 30)),
        ({"backoff": "immediate"}, immediate()),
    ],
)
def test_a_table_describes_a_backoff(table: dict[str, Any], backoff: Backoff | None) -> None:
    assert backoff_from(table) == backoff


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"backoff": "quadratic"}, "backoff 'quadratic' is none of exponential, linear, fixed, delays, immediate"),
        ({"backoff": ["fixed"]}, r"backoff \['fixed'\] is none of"),
        ({"backoff": "fixed"}, "backoff 'fixed' needs delay"),
        ({"backoff": "delays"}, "backoff 'delays' needs delays"),
        ({"backoff": "delays", "delays": 5}, r"delays 5 is not a list; write \[5, 30, 120, 300\]"),
        ({"delays": []}, r"delays\(\) is empty"),
        ({"delays": ""}, "delay: '' is not a duration"),
        ({"backoff": "immediate", "base": 5}, "base means nothing with backoff 'immediate', which takes no delay"),
        ({"backoff": "fixed", "delay": 5, "cap": 9}, "cap means nothing with backoff 'fixed', which takes delay"),
        ({"delays": [5], "base": 5}, "base means nothing with backoff 'delays'"),
        ({"backoff": "fixed", "strategy": "linear"}, "backoff and strategy are two names of one setting"),
        ({"cap": 5, "max_delay": 9}, "cap and max_delay are two names of one setting; keep one of them"),
        ({"backoff": "fixed", "delay": 5, "base": 9}, "delay and base are two names of one setting"),
    ],
)
def test_a_wrong_table_is_refused_in_one_sentence(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}"):
        backoff_from(table)

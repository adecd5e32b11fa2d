"""Durations and moments as people write them, and a clock that moves when told to."""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.clock import (
    LONGEST_DURATION,
    SECOND,
    ManualClock,
    SystemClock,
    boot_id,
    iso,
    micros,
    moment,
    spoken,
)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)


@pytest.mark.parametrize(
    ("written", "length"),
    [
        (30, 30 * SECOND),
        (0, 0),
        (0.25, 250_000),
        (Decimal("1.5"), 1_500_000),
        (timedelta(minutes=2, microseconds=3), 120 * SECOND + 3),
        ("30", 30 * SECOND),
        ("0.5", 500_000),
        ("250us", 250),
        ("20ms", 20_000),
        ("30s", 30 * SECOND),
        ("1.5m", 90 * SECOND),
        ("1m30s", 90 * SECOND),
        (" 1 H 30 M ", 5_400 * SECOND),
        ("6h", 6 * 3_600 * SECOND),
        ("7d", 7 * 86_400 * SECOND),
        ("2w", 14 * 86_400 * SECOND),
    ],
)
def test_a_duration_is_seconds_a_text_or_a_timedelta(written: Any, length: int) -> None:
    assert micros(written) == length


@pytest.mark.parametrize(
    "written",
    [-1, -0.5, "-5s", timedelta(seconds=-1), float("nan"), "nan", True, None, [30], b"30s", "", " ", "5 minutes"],
)
def test_what_is_no_duration_gets_a_sentence_that_shows_how(written: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write seconds \(30\) or a text such as '30s'") as refused:
        micros(written)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("written", [float("inf"), "inf", "1e300", "101w" * 99, timedelta.max, "9" * 400])
def test_no_duration_is_longer_than_a_hundred_years(written: Any) -> None:
    """A point in time reckoned with it would be beyond what a store can hold."""
    with pytest.raises(ValueError, match="longer than 100 years") as refused:
        micros(written)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("written", ["s", "5s5", "1m,30s", "0x10", "½m"])
def test_a_text_is_a_duration_as_a_whole_or_not_at_all(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        micros(written)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_too_long_to_be_printed_gets_its_sentence_too(sign: int) -> None:
    with pytest.raises(ValueError, match="a number of 19932 bits is"):
        micros(sign * 10**6000)


@rule
@given(st.floats(0, LONGEST_DURATION / SECOND, exclude_min=True))
def test_more_than_nothing_never_becomes_nothing(seconds: float) -> None:
    assert micros(seconds) >= 1
    assert micros(seconds) == pytest.approx(seconds * SECOND, abs=1)


@rule
@given(st.timedeltas(timedelta(0), timedelta(days=36_000)))
def test_a_timedelta_is_read_to_the_microsecond(length: timedelta) -> None:
    assert timedelta(microseconds=micros(length)) == length


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (0, "0ms"),
        (20_000, "20ms"),
        (99_400, "99ms"),
        (99_500, "0.1s"),
        (5 * SECOND, "5.0s"),
        (59_940_000, "59.9s"),
        (59_960_000, "1m"),
        (90 * SECOND, "1m30s"),
        (3_600 * SECOND, "1h"),
        (5_400 * SECOND, "1h30m"),
        (47 * 3_600 * SECOND, "47h"),
        (48 * 3_600 * SECOND, "2d"),
        (50 * 3_600 * SECOND, "2d2h"),
    ],
)
def test_a_duration_is_said_as_a_person_would(length: int, said: str) -> None:
    assert spoken(length) == said


@rule
@given(st.integers(100_000, LONGEST_DURATION))
def test_what_is_said_can_be_typed_and_means_about_the_same(length: int) -> None:
    assert micros(spoken(length)) == pytest.approx(length, rel=0.03, abs=51_000)


def test_a_moment_is_a_datetime_a_text_or_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1_767_225_600 * SECOND
    assert moment(datetime(2026, 1, 1, tzinfo=UTC)) == at
    assert moment("2026-01-01T01:00:00+01:00") == at
    assert moment(" 2026-01-01T00:00:00Z ") == at
    assert moment(at) == at
    assert iso(at) == "2026-01-01T00:00:00.000Z"


def test_a_moment_without_a_zone_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    try:
        assert iso(moment("2026-01-01T03:00")) == "2026-01-01T00:00:00.000Z"
        assert iso(moment(datetime(2026, 1, 1, 3))) == "2026-01-01T00:00:00.000Z"  # noqa: DTZ001  the point of this test
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "written",
    [
        1_767_225_600,
        1_767_225_600.0,
        0,
        -1,
        True,
        None,
        "tomorrow",
        "",
        10**30,
        datetime(1, 1, 1, tzinfo=UTC),
        "0001-01-01",
    ],
)
def test_what_is_no_moment_gets_a_sentence(written: Any) -> None:
    """Seconds since 1970 are refused: taken for microseconds they would mean at once."""
    with pytest.raises(ValueError, match="is not a point in time: write a datetime"):
        moment(written)


@rule
@given(st.lists(st.integers(0, LONGEST_DURATION // 1_000), max_size=5))
def test_a_manual_clock_moves_only_when_told_and_both_hands_together(steps: list[int]) -> None:
    clock = ManualClock()
    now, steady = clock.now(), clock.steady()
    for step in steps:
        clock.advance(timedelta(microseconds=step))
    assert (clock.now() - now, clock.steady() - steady) == (sum(steps), sum(steps))


def test_a_wall_clock_can_jump_alone() -> None:
    clock = ManualClock()
    steady = clock.steady()
    clock.set_wall(5)
    assert (clock.now(), clock.steady()) == (5, steady)


def test_the_system_clock_tells_the_time_and_never_goes_back() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time() * SECOND) < 60 * SECOND
    readings = [clock.steady() for _ in range(1_000)]
    assert readings == sorted(readings)


def test_a_boot_has_one_name() -> None:
    assert boot_id()
    assert boot_id() == boot_id()

"""What failures share: found when it is there, and not when chance alone is at work."""

import random
from typing import Any

import msgspec
import pytest

from redrive.analysis import (
    DAY,
    DAYS_SHOWN,
    HOUR,
    KEPT,
    THERE,
    TRAITS_LIMIT,
    Bar,
    Case,
    Pick,
    Shared,
    Times,
    Trait,
    shared,
    size_named,
    traits,
)

AT = 1_767_225_600_000_000


def case(payload: Any = None, **changes: Any) -> Case:
    plain = Case(at=AT, host="h1", payload=msgspec.json.encode(payload), size=len(msgspec.json.encode(payload)))
    return msgspec.structs.replace(plain, **changes)


def named(found: list[Shared]) -> list[tuple[str, str]]:
    return [(each.name, each.value) for each in found]


def test_a_value_that_only_failures_have_is_found_with_counts() -> None:
    failed = [case({"tier": "gold", "n": n}) for n in range(20)]
    succeeded = [case({"tier": "plain" if n % 10 else "gold", "n": n}) for n in range(100)]
    [found] = shared(failed, succeeded)
    assert found == Shared(name="payload.tier", value="gold", failed=20, of_failed=20, succeeded=10, of_succeeded=100)


def test_the_clearest_comes_first() -> None:
    """What all failures and no success have, before what is only more frequent."""
    failed = [case({"v": 2, "tier": "gold" if n % 2 else "x"}, host="h2") for n in range(40)]
    succeeded = [case({"v": 1, "tier": "y"}, host="h2" if n % 4 == 0 else "h1") for n in range(100)]
    assert named(shared(failed, succeeded))[:3] == [("payload.v", "2"), ("host", "h2"), ("payload.tier", "gold")]


def test_where_and_when_count_too() -> None:
    """Host, release, hour and size."""
    failed = [case("x" * 5_000, host="h2", release="2.4", at=AT + 3 * HOUR + n) for n in range(10)]
    succeeded = [case("x", host="h1", release="2.3", at=AT + n * HOUR) for n in range(100)]
    assert set(named(shared(failed, succeeded))) == {
        ("host", "h2"), ("release", "2.4"), ("hour", "03:00 UTC"), ("size", "4 to 16 KiB"),
    }  # fmt: skip


def test_a_key_that_only_failures_have_is_found() -> None:
    """Also when its values differ; and it is not told twice when they do not."""
    succeeded = [case({"n": n}) for n in range(50)]
    assert ("payload.coupon", THERE) in named(shared([case({"n": n, "coupon": n}) for n in range(50, 70)], succeeded))
    alike = named(shared([case({"n": n, "coupon": "X"}) for n in range(20)], succeeded))
    assert [each for each in alike if each[0] == "payload.coupon"] == [("payload.coupon", "X")]


def test_chance_alone_is_not_reported() -> None:
    """200 comparisons of cases of one kind with 20 places each: at most a few of 4,000 traits and more."""
    chance, told = random.Random(11), 0
    for _ in range(200):
        cases = [
            case({f"k{n}": chance.randrange(3) for n in range(20)}, host=f"h{chance.randrange(4)}") for _ in range(90)
        ]
        told += len(shared(cases[:30], cases[30:]))
    assert told <= 10


@pytest.mark.parametrize(("bad", "good"), [(0, 10), (10, 0), (2, 100)])
def test_too_little_to_compare_says_nothing(bad: int, good: int) -> None:
    assert shared([case({"a": 1})] * bad, [case({"a": 2})] * good) == []


def test_payloads_of_any_form_have_traits() -> None:
    """Lists by their length and plain values, long texts only as being there, and never too many."""
    found = traits(
        case({"tags": ["a", "b", {"x": 1}], "long": "x" * 100, "none": None, "yes": True, "deep": {"a": {"b": 1}}})
    )
    for expected in (
        ("payload.tags", "has 3 items"), ("payload.tags[]", "a"), ("payload.long", THERE), ("payload.none", "null"),
        ("payload.yes", "true"), ("payload.deep.a.b", "1"),
    ):  # fmt: skip
        assert Trait(*expected) in found
    assert not [trait for trait in found if trait.name == "payload.long" and trait.value != THERE]
    assert len(traits(case({f"k{n}": n for n in range(1_000)}))) == TRAITS_LIMIT
    assert Trait("payload", "plain") in traits(case("plain"))
    for raw in (b"{broken", b"[" * 100_000 + b"]" * 100_000, b"\xff"):
        assert {trait.name for trait in traits(case(payload=None, host="").__class__(at=AT, payload=raw))} == {
            "hour",
            "release",
        }


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (0, "under 4 bytes"), (4, "4 to 16 bytes"), (1_023, "256 to 1024 bytes"), (1_024, "1 to 4 KiB"),
        (300_000, "256 to 1024 KiB"), (2**21, "1 to 4 MiB"), (2**40, "over 1 GiB"),
    ],
)  # fmt: skip
def test_sizes_have_names(size: int, name: str) -> None:
    assert size_named(size) == name


def test_failures_are_counted_by_the_hour() -> None:
    """With the hours between in which there was none."""
    times = Times()
    for at in (AT + 5, AT + HOUR - 1, AT + 2 * HOUR):
        times.add(at)
    assert times.bars() == (HOUR, [Bar(at=AT, n=2), Bar(at=AT + HOUR, n=0), Bar(at=AT + 2 * HOUR, n=1)])
    assert Times().bars() == (HOUR, [])


def test_what_lasted_longer_is_counted_by_the_day() -> None:
    """Of years only the last days."""
    times = Times()
    for day in (0, 3, 3, 400):
        times.add(AT + day * DAY + 5 * HOUR)
    length, bars = times.bars()
    assert (length, len(bars), bars[-1]) == (DAY, DAYS_SHOWN, Bar(at=AT + 400 * DAY, n=1))
    times = Times()
    for day in (0, 3, 3):
        times.add(AT + day * DAY)
    assert [bar.n for bar in times.bars()[1]] == [1, 0, 0, 2]


def test_a_pick_is_even_and_the_same_each_time() -> None:
    """A few of many, from all over; a small crowd is taken whole."""
    picks = [Pick(), Pick()]
    for pick in picks:
        for number in range(10_000):
            pick.add(str(number))
    assert picks[0].ids == picks[1].ids
    assert (len(picks[0].ids), picks[0].seen) == (KEPT, 10_000)
    assert 3_500 < sum(map(int, picks[0].ids)) / KEPT < 6_500

"""What failures share and successes do not: pure counting, with a bound on what chance can do."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import Any, NamedTuple

import msgspec

from redrive.clock import SECOND

HOUR = 3_600 * SECOND
DAY = 24 * HOUR
HOURS_SHOWN = 48
"""What lies within so many hours is counted by the hour, what is longer by the day."""

DAYS_SHOWN = 30
KEPT = 300
"""So many letters of each task are compared."""

LEAST = 3
"""What fewer failures than this share may be chance."""

CERTAINTY = 3.0
"""Standard deviations: with a thousand traits to look at, one of chance is listed now and then."""

TRAITS_LIMIT = 200
VALUE_LIMIT = 60
DEPTH_LIMIT = 6


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed or went well, as far as it is compared."""

    at: int
    host: str = ""
    release: str | None = None
    size: int | None = None
    payload: bytes | None = None


class Trait(NamedTuple):
    """Something that a job may have: of the payload, or where and when it ran."""

    name: str
    value: str


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A trait that failures have more often than successes."""

    name: str
    value: str
    failed: int
    of_failed: int
    succeeded: int
    of_succeeded: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """How many failed in an hour or a day."""

    at: int
    n: int


# what is shared -------------------------------------------------------------------------------------------------------


def shared(failed: Sequence[Case], succeeded: Sequence[Case], limit: int = 10) -> list[Shared]:
    """What failures have more often than successes, beyond what chance explains; the clearest first."""
    if not failed or not succeeded:
        return []
    bad, good = _counts(failed), _counts(succeeded)
    gaps = [
        (_low(n, len(failed)) - _high(good[trait], len(succeeded)), trait) for trait, n in bad.items() if n >= LEAST
    ]
    found = [
        Shared(
            name=trait.name,
            value=trait.value,
            failed=bad[trait],
            of_failed=len(failed),
            succeeded=good[trait],
            of_succeeded=len(succeeded),
        )
        for gap, trait in sorted(gaps, key=lambda each: (-each[0], each[1]))
        if gap > 0
    ]
    return list(_told_once(found))[:limit]


def _told_once(found: Iterable[Shared]) -> Iterator[Shared]:
    """Without `is there` beside a value of the same place that is as clear."""
    found = list(found)
    valued = {(each.name, each.failed, each.succeeded) for each in found if each.value != THERE}
    for each in found:
        if each.value != THERE or (each.name, each.failed, each.succeeded) not in valued:
            yield each


def _counts(cases: Sequence[Case]) -> Counter[Trait]:
    counts: Counter[Trait] = Counter()
    for case in cases:
        counts.update(traits(case))
    return counts


def _low(n: int, of: int) -> float:
    """What share there is at least, by Wilson."""
    middle, reach = _wilson(n, of)
    return middle - reach


def _high(n: int, of: int) -> float:
    """What share there is at most."""
    middle, reach = _wilson(n, of)
    return middle + reach


def _wilson(n: int, of: int) -> tuple[float, float]:
    share, square = n / of, CERTAINTY**2
    scale = 1 + square / of
    middle = (share + square / (2 * of)) / scale
    return middle, CERTAINTY / scale * sqrt(share * (1 - share) / of + square / (4 * of * of))


# traits ---------------------------------------------------------------------------------------------------------------

THERE = "is there"


def traits(case: Case) -> set[Trait]:
    """Everything about a job that another may have too."""
    found = {Trait("hour", f"{case.at // HOUR % 24:02d}:00 UTC"), Trait("release", case.release or "none")}
    if case.host:
        found.add(Trait("host", case.host))
    if case.size is not None:
        found.add(Trait("size", size_named(case.size)))
    if case.payload is not None:
        for trait in _in_payload(case.payload):
            if len(found) >= TRAITS_LIMIT:
                break
            found.add(trait)
    return found


def size_named(size: int) -> str:
    """How long a payload is, to the power of four: `1 to 4 KiB`."""
    for unit, one in (("bytes", 1), ("KiB", 1024), ("MiB", 1024**2)):
        for low in (1, 4, 16, 64, 256):
            if size < 4 * low * one:
                return f"under {4 * low} {unit}" if low == 1 and one == 1 else f"{low} to {4 * low} {unit}"
    return "over 1 GiB"


def _in_payload(payload: bytes) -> Iterator[Trait]:
    """Every place in it, with its value where that is short."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    yield from _at("payload", value, 0)


def _at(place: str, value: Any, depth: int) -> Iterator[Trait]:
    yield Trait(place, THERE)
    match value:
        case dict() if depth < DEPTH_LIMIT:
            for name, inner in value.items():
                yield from _at(f"{place}.{name[:VALUE_LIMIT]}", inner, depth + 1)
        case list():
            yield Trait(place, f"has {len(value)} items" if len(value) != 1 else "has 1 item")
            for inner in value[:DEPTH_LIMIT]:
                if not isinstance(inner, dict | list):
                    yield Trait(f"{place}[]", _spelled(inner))
        case str() if len(value) > VALUE_LIMIT:
            pass
        case dict():
            pass
        case _:
            yield Trait(place, _spelled(value))


def _spelled(value: Any) -> str:
    """As one writes it in a filter."""
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    return text[:VALUE_LIMIT]


# times ----------------------------------------------------------------------------------------------------------------


class Times:
    """When failures were, counted by the hour."""

    def __init__(self) -> None:
        self._hours: Counter[int] = Counter()

    def add(self, at: int) -> None:
        """One more."""
        self._hours[at // HOUR] += 1

    def bars(self) -> tuple[int, list[Bar]]:
        """How long each is, and the hours or days from the first to the last; of days only the last ones."""
        if not self._hours:
            return HOUR, []
        first, last = min(self._hours), max(self._hours)
        if last - first < HOURS_SHOWN:
            return HOUR, [Bar(at=hour * HOUR, n=self._hours[hour]) for hour in range(first, last + 1)]
        days: Counter[int] = Counter()
        for hour, n in self._hours.items():
            days[hour // 24] += n
        last = max(days)
        return DAY, [Bar(at=day * DAY, n=days[day]) for day in range(max(min(days), last - DAYS_SHOWN + 1), last + 1)]


class Pick:
    """A few of many that come one after the other, each with the same chance."""

    def __init__(self, size: int = KEPT) -> None:
        self.ids: list[str] = []
        self.seen = 0
        self._size = size
        self._random = random.Random(0)  # so that looking again shows the same

    def add(self, id: str) -> None:
        """One more that came."""
        self.seen += 1
        if len(self.ids) < self._size:
            self.ids.append(id)
        elif (place := int(self._random.random() * self.seen)) < self._size:
            self.ids[place] = id

"""How long to wait after each failed attempt: the built-in backoffs are data, so that they can travel with a job.

`after(attempt)` is the delay after that attempt failed, in microseconds, before jitter; attempts count from one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from redrive.clock import SECOND, Duration, Random, micros, spoken
from redrive.errors import UsageError

LONGEST = 366 * 24 * 3600 * SECOND
"""No delay is longer than this."""

SHORTEST = 1_000
"""Jitter leaves at least this much of a delay (or all of it, if it is shorter)."""

Jitter = Literal["full", "equal", "decorrelated", "none"]
JITTERS: tuple[Jitter, ...] = get_args(Jitter)


class _Data(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    pass


class Exponential(_Data, frozen=True, tag="exponential"):
    """`base`, then each time `multiplier` times as long, at most `cap`."""

    base: int
    multiplier: float
    cap: int

    def after(self, attempt: int) -> int:
        try:
            return round(min(self.base * self.multiplier ** (attempt - 1), self.cap))
        except OverflowError:
            return self.cap


class Linear(_Data, frozen=True, tag="linear"):
    """`base`, then each time `step` longer, at most `cap`."""

    base: int
    step: int
    cap: int

    def after(self, attempt: int) -> int:
        return min(self.base + self.step * (attempt - 1), self.cap)


class Fixed(_Data, frozen=True, tag="fixed"):
    """Always the same delay."""

    delay: int

    @property
    def cap(self) -> int:
        return self.delay

    def after(self, attempt: int) -> int:
        return self.delay


class Delays(_Data, frozen=True, tag="delays"):
    """These delays in turn; the last one again if there are more attempts."""

    delays: tuple[int, ...]

    @property
    def cap(self) -> int:
        return max(self.delays)

    def after(self, attempt: int) -> int:
        return self.delays[min(attempt, len(self.delays)) - 1]


class Immediate(_Data, frozen=True, tag="immediate"):
    """No delay at all."""

    @property
    def cap(self) -> int:
        return 0

    def after(self, attempt: int) -> int:
        return 0


Backoff = Exponential | Linear | Fixed | Delays | Immediate
BackoffFunction = Callable[[int], Any] | Callable[[int, Any, BaseException], Any]
"""`(attempt)` or `(attempt, job, error)`, answering seconds or a duration."""


def exponential(base: Duration = "5s", multiplier: float = 2, cap: Duration = "5m") -> Exponential:
    """Wait `base` after the first failure, then each time `multiplier` times as long, at most `cap`."""
    if not isinstance(multiplier, int | float) or isinstance(multiplier, bool) or not 1 <= multiplier <= 1e6:
        raise UsageError(f"multiplier {multiplier!r} is not a number from 1 to 1000000")
    low, high = _bounds(base, cap)
    return Exponential(low, float(multiplier), high)


def linear(base: Duration = "5s", step: Duration | None = None, cap: Duration = "5m") -> Linear:
    """Wait `base` after the first failure, then each time `step` (else `base`) longer, at most `cap`."""
    low, high = _bounds(base, cap)
    return Linear(low, low if step is None else span(step, "step", zero=True), high)


def fixed(delay: Duration) -> Fixed:
    """Wait the same `delay` after each failure."""
    return Fixed(_delay(delay))


def delays(*durations: Duration) -> Delays:
    """Wait these delays in turn; a policy of n delays makes n + 1 attempts unless told otherwise."""
    if not durations:
        raise UsageError("delays() is empty; write at least one, as in delays(5, 30, 120, 300)")
    return Delays(tuple(_delay(one) for one in durations))


def immediate() -> Immediate:
    """Try again at once."""
    return Immediate()


def span(value: Duration, name: str, *, zero: bool = False) -> int:
    """A duration that somebody wrote for `name`, in microseconds."""
    try:
        length = micros(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if not length and not zero:
        raise UsageError(f"{name} {value!r} is no time at all; write more than zero")
    if length > LONGEST:
        raise UsageError(f"{name} {value!r} is longer than {spoken(LONGEST)}")
    return length


def _delay(value: Duration) -> int:
    length = span(value, "delay", zero=True)
    if not length:
        raise UsageError(f"delay {value!r} is no time at all; write more than zero, or use immediate()")
    return length


def _bounds(base: Duration, cap: Duration) -> tuple[int, int]:
    low, high = span(base, "base"), span(cap, "cap")
    if low > high:
        raise UsageError(f"base {spoken(low)} is above cap {spoken(high)}; raise the cap or lower the base")
    return low, high


def backoff_from(table: Mapping[str, Any]) -> Backoff | None:
    """The backoff that keys such as `backoff = "linear"`, `base` and `max_delay` describe; None if there are none."""
    given = one_name_each(table, _KEYS)
    if not given:
        return None
    kind = given.pop("backoff", None) or next((kind for key, kind in _IMPLIED.items() if key in given), "exponential")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UsageError(f"backoff {kind!r} is none of {', '.join(_KINDS)}")
    if kind == "fixed":
        given = one_name_each(given, {key: key for key in given} | {"base": "delay"})
    make, known = _KINDS[kind]
    for key in given:
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no delay"
            raise UsageError(f"{key} means nothing with backoff {kind!r}, which {takes}")
    if kind in ("delays", "fixed") and not given:
        raise UsageError(f"backoff {kind!r} needs {known[0]}")
    return make(*_several(given["delays"])) if kind == "delays" else make(**given)


def one_name_each(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a table says under the names it may use, each by its one name; saying a thing twice is an error."""
    given: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in table.items():
        name = names.get(key)
        if name is None:
            continue
        if name in given:
            raise UsageError(f"{written[name]} and {key} are two names of one setting; keep one of them")
        given[name], written[name] = value, key
    return given


_IMPLIED = {"delays": "delays", "delay": "fixed", "step": "linear"}
_KEYS = {name: name for name in ("backoff", "base", "multiplier", "cap", "step", "delay", "delays")} | {
    "strategy": "backoff",
    "max_delay": "cap",
}
_KINDS: dict[str, tuple[Callable[..., Backoff], tuple[str, ...]]] = {
    "exponential": (exponential, ("base", "multiplier", "cap")),
    "linear": (linear, ("base", "step", "cap")),
    "fixed": (fixed, ("delay",)),
    "delays": (delays, ("delays",)),
    "immediate": (immediate, ()),
}
BACKOFF_KEYS = tuple(_KEYS)
"""The keys of a policy table that describe its backoff."""


def _several(value: object) -> list[Any]:
    if isinstance(value, str):
        return [one.strip() for one in value.split(",")]
    if isinstance(value, list | tuple):
        return list(value)
    raise UsageError(f"delays {value!r} is not a list; write [5, 30, 120, 300]")


def jittered(backoff: Backoff, attempt: int, jitter: Jitter, random: Random) -> int:
    """The delay after this attempt with jitter: never over the cap, never zero unless the backoff is."""
    delay = backoff.after(attempt)
    if jitter == "decorrelated" and delay:
        return _decorrelated(backoff, attempt, random)
    return spread(delay, jitter, random)


def spread(delay: int, jitter: Jitter, random: Random) -> int:
    """A delay with jitter: `full` is anything up to it, `equal` is at least half of it."""
    match jitter:
        case "full":
            return _between(min(delay, SHORTEST), delay, random)
        case "equal":
            return _between((delay + 1) // 2, delay, random)
        case _:
            return delay


def _decorrelated(backoff: Backoff, attempt: int, random: Random) -> int:
    """From the first delay to three times the one before, without remembering what chance made of that one."""
    low = backoff.after(1)
    before = backoff.after(max(1, attempt - 1))
    high = min(backoff.cap, 3 * before)
    return _between(min(low, high), high, random)


def _between(low: int, high: int, random: Random) -> int:
    return min(high, max(low, round(random.uniform(low, high))))


def typical(backoff: Backoff, attempt: int, jitter: Jitter) -> int:
    """The delay after this attempt on average."""
    return jittered(backoff, attempt, jitter, _Middle())


class _Middle:
    """No chance at all: the middle of every range."""

    def random(self) -> float:
        return 0.5

    def uniform(self, a: float, b: float, /) -> float:
        return (a + b) / 2

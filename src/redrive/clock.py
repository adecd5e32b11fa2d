"""Time and chance as arguments: a clock, a random source, and how people write durations.

Points in time are integer microseconds of UTC; durations inside the code are integer microseconds too.
People write `30`, `"30s"`, `"1m30s"`, `"6h"`, `"7d"` or a timedelta.
"""

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

SECOND = 1_000_000
"""Microseconds in a second."""

Duration = int | float | str | timedelta

_PIECE = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w)")
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3_600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 604_800 * SECOND,
}


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> int:
        """Wall-clock UTC in microseconds: for what people read and schedule."""
        ...

    def steady(self) -> int:
        """Microseconds since boot, suspended time included: for leases and durations."""
        ...


class Random(Protocol):
    """Where chance comes from; `random.Random` is one."""

    def random(self) -> float: ...

    def uniform(self, a: float, b: float, /) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000

    def steady(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1_000


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now: int = 1_767_225_600 * SECOND, steady: int = 1_000 * SECOND) -> None:
        self._now = now
        self._steady = steady

    def now(self) -> int:
        return self._now

    def steady(self) -> int:
        return self._steady

    def advance(self, duration: Duration) -> None:
        """Let time pass on both clocks."""
        step = micros(duration)
        self._now += step
        self._steady += step

    def set_wall(self, now: int) -> None:
        """Jump the wall clock alone, as an operator or NTP does."""
        self._now = now


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """What tells this boot of the machine from the one before."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"boot-{round(time.time() - time.monotonic(), -2):.0f}"


def micros(duration: Duration) -> int:
    """A duration as people write it, in microseconds."""
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * SECOND)
    if isinstance(duration, str):
        return _parse(duration)
    if isinstance(duration, bool) or not 0 <= duration < float("inf"):
        raise ValueError(f"{duration!r} is not a duration: write seconds (30) or a text such as '30s', '10m', '6h'")
    return round(duration * SECOND)


def _parse(text: str) -> int:
    compact = text.strip().lower().replace(" ", "")
    pieces = _PIECE.findall(compact)
    if pieces and "".join(number + unit for number, unit in pieces) == compact:
        return round(sum(float(number) * _UNITS[unit] for number, unit in pieces))
    try:
        return micros(float(compact))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a duration: write seconds (30) or a text such as '30s', '10m', '6h'"
        ) from None


def spoken(duration: int) -> str:
    """A duration in microseconds as a person would say it: `5.0s`, `2m30s`, `6h`."""
    seconds = duration / SECOND
    if seconds < 0.0995:
        return f"{duration / 1_000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def moment(when: datetime | int) -> int:
    """A point in time in microseconds of UTC; a datetime without a zone is local time."""
    return when if isinstance(when, int) else round(when.timestamp() * SECOND)


def iso(when: int) -> str:
    """A point in time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(when / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

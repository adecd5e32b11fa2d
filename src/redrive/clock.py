"""Time and chance as arguments: a clock, a random source, and how people write durations.

Points in time are integer microseconds of UTC; durations inside the code are integer microseconds too.
People write `30`, `"30s"`, `"1m30s"`, `"6h"`, `"7d"` or a timedelta.
"""

import ctypes
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Protocol

SECOND = 1_000_000
"""Microseconds in a second."""

Duration = int | float | str | timedelta

LONGEST_DURATION = 100 * 366 * 86_400 * SECOND
"""No duration is longer than this, so that no point in time is beyond what a store can hold."""

_LAST_MOMENT = 253_402_300_799 * SECOND
_FIRST_MOMENT = 10**14
"""Microseconds below this are 1973: whoever writes so few has counted seconds."""

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
    if sys.platform == "darwin":
        return _boot_session() or _boot_time()
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _boot_time()


def _boot_session() -> str:
    """The UUID that macOS gives each boot; empty when it does not tell."""
    text = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(text))
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return "" if failed else text.value.decode("ascii")


def _boot_time() -> str:
    """Good to some minutes and only while nobody sets the clock: for systems that tell nothing better."""
    return f"boot-{round(time.time() - time.monotonic(), -2):.0f}"


def micros(duration: Duration) -> int:
    """A duration as people write it, in microseconds; more than nothing never becomes nothing by rounding."""
    length = _exactly(duration)
    if not length >= 0:
        raise _no_duration(duration)
    if length > LONGEST_DURATION:
        raise ValueError(f"{_shown(duration)} is longer than 100 years")
    return max(round(length), 1 if length > 0 else 0)


def _exactly(duration: object) -> float:
    match duration:
        case bool():
            raise _no_duration(duration)
        case timedelta():
            return duration // timedelta(microseconds=1)
        case str():
            return _parse(duration)
        case int():
            return duration * SECOND
        case Real() | Decimal():
            return float(duration) * SECOND
        case _:
            raise _no_duration(duration)


def _parse(text: str) -> float:
    compact = text.strip().lower().replace(" ", "")
    pieces = _PIECE.findall(compact)
    if pieces and "".join(number + unit for number, unit in pieces) == compact:
        return sum(float(number) * _UNITS[unit] for number, unit in pieces)
    try:
        return float(compact) * SECOND
    except ValueError:
        raise _no_duration(text) from None


def _no_duration(duration: object) -> ValueError:
    return ValueError(f"{_shown(duration)} is not a duration: write seconds (30) or a text such as '30s', '10m', '6h'")


def _shown(value: object) -> str:
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >> 256 else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def spoken(duration: int) -> str:
    """A duration in microseconds as a person would say it: `5.0s`, `2m30s`, `6h`."""
    seconds = duration / SECOND
    if seconds < 0.0995:
        return f"{duration / 1_000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def moment(when: datetime | int | str) -> int:
    """A point in time in microseconds of UTC; a datetime or text without a zone is local time."""
    try:
        read = datetime.fromisoformat(when.strip()) if isinstance(when, str) else when
        point = round(read.timestamp() * SECOND) if isinstance(read, datetime) else read
    except (ValueError, OverflowError, OSError):
        point = None
    if not isinstance(point, int) or isinstance(point, bool) or not _FIRST_MOMENT <= point <= _LAST_MOMENT:
        raise ValueError(
            f"{_shown(when)} is not a point in time: write a datetime, a text such as '2026-01-31T08:00', "
            "or microseconds of UTC"
        )
    return point


def iso(when: int) -> str:
    """A point in time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(when / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

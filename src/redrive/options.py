"""The options of one job: what `using(…)` takes."""

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from redrive import job as jobs
from redrive.backoff import Backoff
from redrive.clock import Duration, micros, moment
from redrive.errors import UsageError
from redrive.retry import encode_limits, limits_of


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may say about one job, checked and in the units of the store."""

    queue: str | None = None
    priority: int | None = None
    delay: int | None = None
    at: int | None = None
    key: str | None = None
    id: str | None = None
    external_id: str | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: int | None = None
    expires: int | datetime | None = None  # after this long, or at this time
    headers: bytes | None = None
    batch: str | None = None
    needs: tuple[str, ...] | None = None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> "Options":
        """Options as people write them, or one sentence about the wrong one."""
        for name in given:
            if name not in _READERS:
                guess = difflib.get_close_matches(name, _READERS, 1)
                hint = f", did you mean {guess[0]}?" if guess else f"; there are {', '.join(_READERS)}"
                raise UsageError(f"unknown option {name!r}{hint}")
        if given.get("delay") is not None and given.get("at") is not None:
            raise UsageError("options delay and at exclude each other: give one of them")
        return cls(**{name: _read(name, value) for name, value in given.items() if value is not None})

    def limits(self, policy: bytes | None) -> bytes | None:
        """The task's limits with what this job overrides."""
        given = {"max_attempts": self.max_attempts, "backoff": self.backoff, "timeout": self.timeout}
        changes = {name: value for name, value in given.items() if value is not None}
        return encode_limits(msgspec.structs.replace(limits_of(policy), **changes)) if changes else policy


def _read(name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"option {name}={reprlib.repr(value)} is wrong: {error}") from None


def _id(value: Any) -> str:
    text = str(value).lower()
    compact = text.replace("-", "")
    if len(compact) != 32 or not set(compact) <= set("0123456789abcdef"):
        raise ValueError("an id is a UUID; use key= or external_id= for other names")
    return f"{compact[:8]}-{compact[8:12]}-{compact[12:16]}-{compact[16:20]}-{compact[20:]}"


def _attempts(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("write a whole number from 1 (once, no retry)")
    return value


def _backoff(value: Any) -> Any:
    if not isinstance(value, Backoff):
        raise ValueError(
            "write exponential(…), linear(…), fixed(…), delays(…) or immediate(); functions stay in the task"
        )
    return value


def _headers(value: Any) -> bytes:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise ValueError("headers are texts by name")
    return jobs.encode(dict(value), limit=64 * 1024, what="the set of headers")


def _some_time(value: Duration) -> int:
    length = micros(value)
    if not length:
        raise ValueError("write more than zero")
    return length


def _expiry(value: Duration | datetime) -> int | datetime:
    if not isinstance(value, datetime):
        return _some_time(value)
    moment(value)
    return value


def _needs(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Iterable):
        raise ValueError("write a name or a list of names")
    return jobs.names(value)


_READERS: dict[str, Any] = {
    "queue": jobs.name_of,
    "priority": jobs.priority_of,
    "delay": micros,
    "at": moment,
    "key": jobs.name_of,
    "id": _id,
    "external_id": jobs.name_of,
    "max_attempts": _attempts,
    "backoff": _backoff,
    "timeout": _some_time,
    "expires": _expiry,
    "headers": _headers,
    "batch": jobs.name_of,
    "needs": _needs,
}

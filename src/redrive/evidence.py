"""What an exception tells about itself, gathered without trusting it.

Its class may lie, its properties may raise, its text may be huge, and it may hold a hundred thousand others.
"""

import sys
from collections.abc import Hashable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar

from redrive.clock import SECOND
from redrive.errors import RetryAfter
from redrive.redact import said, shortened, wellformed

T = TypeVar("T")

MESSAGE_LIMIT = 8192
"""So many characters of a message are looked at."""

GROUP_LIMIT = 100
"""So many exceptions of a group are looked at."""

LONGEST_WISH = 30 * 24 * 3600
"""A Retry-After of more seconds than this is taken for a mistake."""

_STATUS_NAMES = ("status_code", "status", "code")
_bases = type.__dict__["__mro__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_members = BaseExceptionGroup.__dict__["exceptions"].__get__


def is_a(thing: object, cls: type[T]) -> TypeGuard[T]:
    """Whether it really is one, whatever its `__class__` says."""
    return issubclass(type(thing), cls)


def members(group: BaseExceptionGroup[Any]) -> tuple[BaseException, ...]:
    """The exceptions directly inside a group."""
    return _members(group)  # type: ignore[no-any-return]


def essence(error: BaseException) -> BaseException:
    """The one exception inside a group of one, as task groups raise it; else the exception itself."""
    for _ in range(GROUP_LIMIT):
        if not is_a(error, BaseExceptionGroup) or len(members(error)) != 1:
            break
        error = members(error)[0]
    return error


def leaves(error: BaseException) -> list[BaseException]:
    """The first of the exceptions inside a group that are no groups themselves; else the exception itself."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < GROUP_LIMIT:
        one = waiting.pop()
        if is_a(one, BaseExceptionGroup):
            waiting.extend(reversed(members(one)[: GROUP_LIMIT - len(found)]))
        else:
            found.append(one)
    return found


def lineage(error: BaseException) -> tuple[type, ...]:
    """The class of an exception and its bases, nearest first."""
    return _bases(type(error))  # type: ignore[no-any-return]


def class_path(error: BaseException) -> str:
    """The class of an exception as `module.Name`; a built-in one as `Name`."""
    return _path(type(error)).removeprefix("builtins.")


class Facts:
    """What rules look at, gathered once."""

    __slots__ = ("_bases", "errno", "message", "names", "status")

    def __init__(self, error: BaseException) -> None:
        self._bases = lineage(error)
        self.names = _names(self._bases)
        self.status = _status(error)
        self.errno = _number(look(error, "errno"))
        self.message = shortened(said(error), MESSAGE_LIMIT)

    def is_named(self, path: str) -> bool:
        """Whether the class or a base goes by this name: its own, or the one under which its package shows it."""
        if path in self.names:
            return True
        module, _, name = path.rpartition(".")
        public = getattr(sys.modules.get(module), "__dict__", {}).get(name)  # never imports anything
        return public is not None and any(base is public for base in self._bases)


def _path(cls: type) -> str:
    module = _namespace(cls).get("__module__", "builtins")
    return wellformed(f"{module if type(module) is str else '?'}.{_qualname(cls)}")


@lru_cache(maxsize=1024)
def _names(bases: Hashable) -> tuple[str, ...]:
    """The names a rule may use for a class: each of its bases as `module.Name`, then as bare `Name`."""
    known = [base for base in bases if base is not object]  # type: ignore[attr-defined]
    return (*map(_path, known), *(_qualname(base) for base in known))


def look(thing: object, name: str) -> Any:
    """An attribute of somebody else's object; None if it has none or raises."""
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001  a property of somebody's exception; absent is all we need to know
        return None


def _number(value: object) -> int | None:
    return int.__index__(value) if is_a(value, int) and not is_a(value, bool) else None


def _status(error: BaseException) -> int | None:
    if is_a(error, SystemExit):
        return None
    for holder in (error, look(error, "response")):
        for name in _STATUS_NAMES if holder is not None else ():
            number = _number(look(holder, name))
            if number is not None and 400 <= number <= 599:
                return number
    return None


def wish(error: BaseException, now: int) -> int | None:
    """How long the other side asks us to wait, in microseconds; of several failures, the longest."""
    wishes = (_wish(one, now) for one in leaves(error))
    return max((one for one in wishes if one is not None), default=None)


def _wish(error: BaseException, now: int) -> int | None:
    if is_a(error, RetryAfter):
        return _number(look(error, "delay"))
    asked = look(error, "retry_after")
    for headers in (look(look(error, "response"), "headers"), look(error, "headers")):
        seconds = _told(asked, headers, now)
        if seconds is not None and seconds <= LONGEST_WISH:
            return round(max(seconds, 0) * SECOND)
    return None


def _told(asked: object, headers: Any, now: int) -> float | None:
    try:
        if asked is None and headers is not None:
            asked = headers.get("Retry-After") or headers.get("retry-after")
        return _seconds(asked, headers, now)
    except BaseException:  # noqa: BLE001  an answer nobody can read is no wish
        return None


def _seconds(asked: object, headers: Any, now: int) -> float | None:
    match asked:
        case bool():
            return None
        case timedelta():
            return asked.total_seconds()
        case int() | float():
            return float(asked)
        case str() if asked.strip().replace(".", "", 1).isdecimal():
            return float(asked)
        case str():
            return parsedate_to_datetime(asked).timestamp() - _since(headers, now)
        case _:
            return None


def _since(headers: Any, now: int) -> float:
    """The moment a date is compared with: the other side's own clock if it tells it."""
    date = headers.get("Date") if headers is not None else None
    return parsedate_to_datetime(date).timestamp() if date else now / SECOND

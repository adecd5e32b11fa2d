"""Exceptions as libraries raise them and as nobody should, and how they are judged."""

from collections.abc import Callable
from typing import Any

import pytest

from redrive.clock import SECOND
from redrive.errors import Bury
from redrive.reasons import Verdict, classify, rules_from

NOW = 1_767_225_600 * SECOND


class Failed(Exception):
    """An exception with whatever attributes a library might give it."""

    def __init__(self, message: str = "failed", **attributes: Any) -> None:
        super().__init__(message)
        self.__dict__ |= attributes


def named(path: str, *bases: type) -> BaseException:
    """An exception of a library that is not installed here, as its class is called there."""
    module, _, name = path.rpartition(".")
    kind: type[BaseException] = type(name, bases or (Exception,), {"__module__": module})
    return kind("x")


def raised(function: Callable[[], Any]) -> BaseException:
    """The real exception that this raises."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011  any: what becomes of it is what is tested
        function()
    return caught.value


def nested(error: Exception, depth: int, width: int = 1) -> Exception:
    """An exception inside groups inside groups."""
    for _ in range(depth):
        error = ExceptionGroup("g", [error] * width)
    return error


def judged(error: BaseException, *rows: dict[str, Any], by: Any = None) -> Verdict:
    """What is made of an exception under these rules and this classifier."""
    return classify(error, rules_from(rows), by, now=NOW)


class Liar:
    """Something that raises when it is asked for its class."""

    __class__ = property(lambda self: 1 / 0)


class Lying(Exception):
    """It says that it is another, and raises when it is asked anything else."""

    __class__ = property(lambda self: Bury)

    @property
    def status(self) -> int:
        raise SystemExit

    errno = property(lambda self: 1 / 0)
    response = property(lambda self: 1 / 0)
    __notes__ = property(lambda self: 1 / 0)
    __traceback__ = property(lambda self: 1 / 0)
    __cause__ = property(lambda self: 1 / 0)
    __context__ = property(lambda self: 1 / 0)

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Raising(Lying):
    """It raises even when it is asked for its class."""

    __class__ = property(lambda self: 1 / 0)


class Crooked(int):
    """A number that cannot be read."""

    def __int__(self) -> int:
        raise ZeroDivisionError

    __index__ = __int__


class _Meta(type):
    __hash__ = None  # type: ignore[assignment]
    __name__ = property(lambda cls: 1 / 0)

    def __getattribute__(cls, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __eq__(cls, other: object) -> bool:
        raise ZeroDivisionError


class Odd(Exception, metaclass=_Meta):
    """Its very class cannot be looked at."""


class Hiding(ExceptionGroup[Exception]):
    """A group that does not show what it holds."""

    exceptions = property(lambda self: 1 / 0)


LIARS: dict[str, Callable[[], BaseException]] = {
    "a lying class": Lying,
    "a raising class": Raising,
    "a metaclass that raises": lambda: Odd("x"),
    "a crooked status": lambda: Failed(status=Crooked(429)),
    "a crooked errno": lambda: Failed(errno=Crooked(5)),
    "a lying wish": lambda: Failed(retry_after=Liar()),
    "lying headers": lambda: Failed(headers=Liar()),
    "a lying response": lambda: Failed(response=Liar()),
}
"""Makers of them by name; made late, because even a test runner that looks at one falls over."""

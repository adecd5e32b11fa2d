"""The exceptions are as they are drawn, and the signals of a handler say what they mean."""

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from redrive import errors
from redrive.clock import SECOND
from redrive.errors import Bury, Discard, QueueFull, RedriveError, RetryAfter, Signal, Snooze

Row = tuple[str, str, int | None, str]
"""A class, the one it stands under, its exit code, and what it means."""

_DRAWN = re.compile(r"(?P<bars>[│├└─ ]*)(?P<name>[A-Z]\w+) +(?:(?P<code>\d+) +)?(?P<meaning>.+)")


def drawn(text: str) -> Iterator[Row]:
    """The rows of a tree as it is drawn in a docstring."""
    above: list[str] = []
    for line in text.splitlines():
        row = _DRAWN.fullmatch(line)
        if row and (row["bars"] or row["name"] in ("RedriveError", "Signal")):
            depth = len(row["bars"]) // 4
            above[depth:] = [row["name"]]
            code = row["code"]
            yield row["name"], above[depth - 1] if depth else "Exception", int(code) if code else None, row["meaning"]


ROWS = list(drawn(errors.__doc__ or ""))


def written() -> dict[str, type[BaseException]]:
    """The public exceptions of the module."""
    return {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and not name.startswith("_")
    }


def base_of(kind: type[BaseException]) -> str:
    """The nearest public class above it."""
    return next(base.__name__ for base in kind.__mro__[1:] if not base.__name__.startswith("_"))


def test_every_exception_is_drawn_once() -> None:
    assert sorted(name for name, *_ in ROWS) == sorted(written())


@pytest.mark.parametrize(("name", "above", "code", "meaning"), ROWS, ids=[row[0] for row in ROWS])
def test_an_exception_is_as_it_is_drawn(name: str, above: str, code: int | None, meaning: str) -> None:
    """Its place in the tree, its exit code and a sentence; the two roots have none of their own."""
    kind = written()[name]
    assert base_of(kind) == above
    if name != "RedriveError" and issubclass(kind, RedriveError):
        assert kind.exit_code == code
    assert meaning.strip()
    assert (kind.__doc__ or "").strip().endswith(".") or ";" in (kind.__doc__ or "")


def test_exit_codes_are_those_of_the_reference() -> None:
    assert {code for _, _, code, _ in ROWS} - {None} == {1, 2, 4, 5}
    assert RedriveError.exit_code == 1


def test_a_drawing_with_a_planted_mistake_is_read_as_drawn() -> None:
    """The control: another place and another code are seen."""
    text = "RedriveError    exit code\n├── Ape    2   one\n│   └── Bee    3   two\n└── Cow    4   three\n"
    assert list(drawn(text))[1:] == [
        ("Ape", "RedriveError", 2, "one"),
        ("Bee", "Ape", 3, "two"),
        ("Cow", "RedriveError", 4, "three"),
    ]


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RetryAfter, Snooze])
@pytest.mark.parametrize(("written", "delay"), [(30, 30), ("1m", 60), (timedelta(minutes=2), 120), (0.5, 0.5), (0, 0)])
def test_a_pause_is_a_duration_as_people_write_it(kind: Any, written: Any, delay: float) -> None:
    signal = kind(written)
    assert signal.delay == delay * SECOND
    assert str(signal) == f"{kind.__name__} {written}"
    assert str(kind(written, "the bank sleeps")) == "the bank sleeps"


@pytest.mark.parametrize("kind", [RetryAfter, Snooze])
@pytest.mark.parametrize("wrong", ["soon", -1, None, timedelta(-1), float("nan"), 10**18])
def test_a_pause_that_is_none_is_refused_where_it_is_raised(kind: Any, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is longer than"):
        kind(wrong)


@pytest.mark.parametrize("kind", [Discard, Bury])
def test_a_verdict_says_why(kind: Any) -> None:
    assert (kind().message, str(kind())) == ("", "")
    assert (kind("bad input").message, str(kind("bad input"))) == ("bad input", "bad input")


SIGNALS = [RetryAfter("30s"), RetryAfter(5, "later"), Snooze(1), Discard("duplicate"), Bury("bad"), Bury()]


@pytest.mark.parametrize("signal", SIGNALS, ids=repr)
def test_a_signal_comes_through_another_process_unchanged(signal: Signal) -> None:
    """A handler may use a pool of processes, which pickles what is raised in it."""
    for twin in (pickle.loads(pickle.dumps(signal)), copy.copy(signal)):
        assert (type(twin), str(twin), vars(twin)) == (type(signal), str(signal), vars(signal))


def test_a_refusal_says_when_to_come_back_also_from_another_process() -> None:
    twin = pickle.loads(pickle.dumps(QueueFull("full", retry_after=1.5)))
    assert (str(twin), twin.retry_after) == ("full", 1.5)


def test_signals_are_no_errors_of_redrive() -> None:
    """`except RedriveError` in a handler must not swallow what the handler says."""
    assert not issubclass(Signal, RedriveError)
    assert {Signal} == {kind.__mro__[-4] for kind in (Discard, Bury, RetryAfter, Snooze)}

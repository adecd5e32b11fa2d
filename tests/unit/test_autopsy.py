"""Every failure becomes a record: the traps of the failure path, one by one, and a plain failure as the control."""

import asyncio
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive import autopsy
from redrive.autopsy import EXCEPTIONS_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT, TYPE_LIMIT, examine, minimal
from redrive.clock import SECOND
from redrive.job import Job, names
from redrive.letter import Failure
from redrive.reasons import RETRYABLE, Rules, classify
from tests.faults import LIARS, Failed, Hiding, Odd, nested

NOW = 1_767_225_600 * SECOND
JOB = Job(id="j", task="mail.send", payload=b"{}", epoch=2, attempts=4)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)


def caught(function: Callable[[], Any]) -> BaseException:
    """What this raises, as a worker catches it."""
    try:
        function()
    except BaseException as error:  # noqa: BLE001  whatever it is
        return error
    raise AssertionError("nothing was raised")


def raising(error: BaseException) -> BaseException:
    """The exception as it is after it was raised here."""

    def handler() -> None:
        raise error

    return caught(handler)


def recorded(error: BaseException, **circumstances: Any) -> Failure:
    """The record of an exception, which any store can hold."""
    verdict = classify(error, Rules(), now=NOW)
    failure = examine(error, verdict=verdict, job=JOB, at=NOW, **circumstances)
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert len(failure.message) <= MESSAGE_LIMIT + 100
    assert len(failure.traceback or "") <= TRACEBACK_LIMIT + 10
    assert len(failure.type) <= TYPE_LIMIT + 40
    assert len(failure.fingerprint) == 16
    texts = (failure.type, failure.message, failure.traceback or "", failure.title, failure.cause or "")
    assert not [text for text in texts if "\0" in text]
    return failure


# --- the control ------------------------------------------------------------------------------------------------------


def test_a_plain_failure_is_recorded_with_everything_needed_to_understand_it() -> None:
    def look_up(name: str) -> str:
        return {"to": "a@b.c"}[name]

    error = caught(lambda: look_up("user 42"))
    failure = recorded(
        error, duration=7, host="h", process=9, worker="w", release="v2", step="s", cause="signal 11, at the end"
    )
    assert (failure.type, failure.message) == ("KeyError", "'user 42'")
    assert (failure.reason, failure.retryable, failure.truncated) == ("unknown", True, False)
    assert (failure.epoch, failure.attempt, failure.at, failure.duration) == (2, 5, NOW, 7)
    assert (failure.host, failure.process, failure.worker, failure.release) == ("h", 9, "w", "v2")
    assert (failure.step, failure.cause) == ("s", "signal 11, at the end")
    assert failure.title == "KeyError: <text>"
    assert failure.traceback is not None
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert f'  File "{__file__}", line ' in failure.traceback
    assert "in look_up\n    return {" in failure.traceback
    assert failure.traceback.endswith("KeyError: 'user 42'\n")


def test_a_class_of_ones_own_is_named_with_its_module() -> None:
    assert recorded(raising(Failed("x"))).type == f"{Failed.__module__}.Failed"


def test_the_same_place_is_the_same_cause_and_another_place_is_another() -> None:
    def one(number: int) -> None:
        raise ValueError(f"no user {number}")

    def other(number: int) -> None:
        raise ValueError(f"no user {number}")

    first, second, elsewhere = (
        recorded(caught(partial(handler, number))) for handler, number in ((one, 1), (one, 22), (other, 1))
    )
    assert first.fingerprint == second.fingerprint
    assert first.title == second.title == "ValueError: no user <n>"
    assert first.fingerprint != elsewhere.fingerprint


def test_the_cause_is_placed_at_the_users_last_frame_and_not_in_a_library() -> None:
    """A library that moves a line, or fails in another of its functions, does not make a new cause."""

    def broken() -> None:
        asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.001))

    def twin() -> None:
        raise TimeoutError

    found = recorded(caught(broken))
    assert "asyncio/tasks.py" in (found.traceback or "")
    assert found.fingerprint != recorded(caught(twin)).fingerprint
    assert autopsy._user_frame(caught(broken)).endswith("broken")


def test_locals_are_never_shown() -> None:
    def login(password: str) -> None:
        raise ValueError("no")

    typed = "".join(["hunt", "er2"])
    assert typed not in str(recorded(caught(lambda: login(typed))))


def test_notes_of_an_exception_are_kept() -> None:
    error = raising(ValueError("x"))
    error.add_note("while sending mail")
    assert (recorded(error).traceback or "").endswith("ValueError: x\nwhile sending mail\n")


def test_what_led_to_a_failure_stands_before_it() -> None:
    def handler() -> None:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise OSError("second")  # noqa: B904  the context is what is tested
        except OSError as error:
            raise ValueError("third") from error

    told = recorded(caught(handler)).traceback or ""
    lines = [line for line in told.splitlines() if line.startswith(("KeyError", "OSError", "ValueError", "The", "Dur"))]
    assert lines == [
        "KeyError: 'first'",
        "During handling of the above exception, another exception occurred:",
        "OSError: second",
        "The above exception was the direct cause of the following exception:",
        "ValueError: third",
    ]


def test_a_suppressed_context_is_left_out() -> None:
    def handler() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None

    assert "KeyError" not in (recorded(caught(handler)).traceback or "")


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("half \ud800 of it", "half \ufffd of it"),
        ("nul \0 here", "nul \ufffd here"),
        (f"{float('nan')}", "nan"),
        ("naïve 数 🎉", "naïve 数 🎉"),
        ("", ""),
    ],
)
def test_a_message_is_kept_as_any_store_can_hold_it(message: str, kept: str) -> None:
    failure = recorded(raising(ValueError(message)))
    assert (failure.message, failure.truncated) == (kept, False)


@rule
@given(st.text(st.characters(), max_size=100), st.text(st.characters(), max_size=50))
def test_any_text_is_recorded(message: str, note: str) -> None:
    error = ValueError(message)
    error.add_note(note)
    recorded(error)


def test_a_message_of_a_hundred_megabytes_is_cut_and_marked_without_being_copied() -> None:
    error = raising(ValueError("x" * 100_000_000))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    failure = recorded(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert time.process_time() - start < 2
    assert grown < 60_000 * (1024 if sys.platform == "darwin" else 1)
    assert failure.truncated
    assert failure.message.endswith("… (cut, 100000000 characters)")


def test_a_message_at_its_limit_is_whole() -> None:
    assert not recorded(raising(ValueError("x" * MESSAGE_LIMIT))).truncated
    assert recorded(raising(ValueError("x" * (MESSAGE_LIMIT + 1)))).truncated


class Mute(Exception):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __str__(self) -> str:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    __repr__ = __str__


@pytest.mark.parametrize("answer", [ValueError(), SystemExit(), KeyboardInterrupt(), RecursionError(), 5, None, b"x"])
def test_an_exception_without_words_is_named(answer: Any) -> None:
    raised = type(answer).__name__ if isinstance(answer, BaseException) else "TypeError"
    failure = recorded(raising(Mute(answer)))
    assert failure.type == f"{__name__}.Mute"
    assert failure.message == f"(Mute whose str() raised {raised})"
    assert "in handler" in (failure.traceback or "")


@pytest.mark.parametrize("notes", [5, [5, None, "kept"], ["x\0" * 10_000] * 1_000, "text", [Odd()]])
def test_odd_notes_do_not_hurt(notes: Any) -> None:
    error = raising(ValueError("x"))
    error.__notes__ = notes
    assert "ValueError: x" in (recorded(error).traceback or "")


# --- groups and chains ------------------------------------------------------------------------------------------------


def test_a_group_of_a_hundred_thousand_is_recorded_by_its_first() -> None:
    group = raising(ExceptionGroup("many", [ValueError(str(n)) for n in range(100_000)]))
    start = time.process_time()
    failure = recorded(group)
    assert time.process_time() - start < 2
    assert (failure.type, failure.message) == ("ExceptionGroup", "many (100000 sub-exceptions): ValueError")
    assert failure.truncated
    assert "1 of 100000" in (failure.traceback or "")
    assert f"… {100_000 - EXCEPTIONS_LIMIT + 1} more exceptions" in (failure.traceback or "")


def test_a_group_nested_a_thousand_deep_is_recorded() -> None:
    failure = recorded(raising(nested(ValueError("bottom"), 1_000, width=1)))
    assert failure.truncated
    failure = recorded(raising(nested(ValueError("bottom"), 1_000, width=2)))
    assert failure.message == "g (2 sub-exceptions): ValueError"


def test_a_group_of_one_is_recorded_as_what_it_holds() -> None:
    failure = recorded(raising(BaseExceptionGroup("unhandled errors", [raising(PermissionError("not you"))])))
    assert (failure.type, failure.message, failure.reason) == ("PermissionError", "not you", "unauthorized")
    assert "unhandled errors" in (failure.traceback or "")


def test_groups_that_hold_different_failures_are_different_causes() -> None:
    """The words of a task group are always the same."""

    def failing(*errors: Exception) -> str:
        return recorded(raising(ExceptionGroup("unhandled errors in a TaskGroup", errors))).fingerprint

    assert failing(ValueError("1"), OSError("2")) == failing(OSError("3"), ValueError("4"), OSError("5"))
    assert failing(ValueError("1"), OSError("2")) != failing(ValueError("1"), KeyError("2"))


def test_a_group_that_hides_what_it_holds_is_recorded_with_it() -> None:
    assert recorded(raising(Hiding("g", [ValueError(), OSError()]))).message.endswith("OSError, ValueError")


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), OSError("other")
    one.__cause__, other.__cause__ = other, one
    assert (recorded(one).traceback or "").count("OSError: other") == 1
    one, other = ValueError("one"), OSError("other")
    one.__context__, other.__context__ = other, one
    assert (recorded(one).traceback or "").count("OSError: other") == 1


def test_a_group_among_its_own_causes_ends() -> None:
    inner = ValueError("inner")
    group = ExceptionGroup("g", [inner, OSError()])
    inner.__cause__ = group
    assert "ValueError: inner" in (recorded(group).traceback or "")


def test_of_a_long_chain_the_last_are_kept_and_the_cut_is_said() -> None:
    error: BaseException = ValueError("the first")
    for number in range(5_000):
        later = ValueError(f"number {number}")
        later.__context__ = error
        error = later
    failure = recorded(error)
    assert failure.truncated
    told = failure.traceback or ""
    assert told.startswith("… earlier exceptions left out\n\nDuring handling of the above exception")
    assert told.count("ValueError: number") == EXCEPTIONS_LIMIT
    assert told.endswith("ValueError: number 4999\n")
    while error.__context__ is not None:  # taken apart here, because letting go of it at once needs as many frames
        error = error.__context__


# --- depth, lies and exits --------------------------------------------------------------------------------------------


def test_the_traceback_of_a_deep_recursion_keeps_both_ends() -> None:
    def deeper() -> None:
        deeper()

    failure = recorded(caught(deeper))
    assert failure.type == "RecursionError"
    told = failure.traceback or ""
    assert "frames left out" in told
    assert "in caught" in told
    assert told.count("in deeper") < 50


@pytest.mark.parametrize("name", LIARS)
def test_a_lying_exception_is_recorded_as_what_it_is(name: str) -> None:
    failure = recorded(raising(LIARS[name]()))
    assert failure.type == f"tests.faults.{type.__dict__['__qualname__'].__get__(type(LIARS[name]()))}"
    assert failure.traceback is not None
    assert "in handler" in failure.traceback


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("stop")])
def test_what_ends_a_process_is_recorded_like_any_failure(error: BaseException) -> None:
    failure = recorded(raising(error))
    assert failure.type.rpartition(".")[2] == type(error).__name__
    assert failure.message == str(error)
    assert failure.retryable
    assert "in handler" in (failure.traceback or "")


def test_code_without_a_file_is_recorded() -> None:
    code = compile("def f():\n    raise ValueError('x')\nf()", "<half \ufffd>", "exec")
    assert 'File "<half' in (recorded(caught(lambda: exec(code, {}))).traceback or "")


def test_an_exception_that_was_never_raised_is_recorded() -> None:
    failure = recorded(ValueError("x"))
    assert (failure.message, failure.traceback) == ("x", "ValueError: x\n")


def test_when_examining_itself_fails_a_minimal_row_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing known makes it fail; this stands for what nobody has thought of."""

    def broken(error: BaseException) -> BaseException:
        raise MemoryError

    monkeypatch.setattr(autopsy, "essence", broken)
    failure = recorded(raising(ValueError("x")))
    assert (failure.type, failure.message) == ("ValueError", "(could not be examined: MemoryError)")
    assert failure.truncated


def test_when_only_the_traceback_fails_the_rest_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> str:
        raise MemoryError

    monkeypatch.setattr(autopsy, "_line", broken)
    failure = recorded(raising(ValueError("x")))
    assert (failure.type, failure.message, failure.truncated) == ("ValueError", "x", True)
    assert "(the traceback could not be read: MemoryError)" in (failure.traceback or "")


# --- without an exception ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["lost", "crashed", "unknown_task", "mine"])
def test_a_failure_without_an_exception_has_a_record_too(reason: str) -> None:
    failure = minimal(reason, "ProcessDied", "its process died: signal 11", job=JOB, at=NOW, cause="signal 11")
    assert (failure.reason, failure.retryable) == (reason, RETRYABLE.get(reason, True))
    assert (failure.message, failure.cause, failure.traceback) == ("its process died: signal 11", "signal 11", None)
    assert failure.title == "ProcessDied: its process died: signal 11"


def test_the_last_words_of_a_process_are_cut_and_marked() -> None:
    failure = minimal("crashed", "ProcessDied", "x", job=JOB, at=NOW, cause="\ud800" * 100_000)
    assert failure.truncated
    assert len(failure.cause or "") < MESSAGE_LIMIT + 100
    assert (failure.cause or "").encode()


def test_causes_of_death_are_different_groups() -> None:
    deaths = ["signal 11", "signal 9", "exit code 3", "killed for its memory"]
    assert len({minimal("crashed", "D", why, job=JOB, at=NOW).fingerprint for why in deaths}) == len(deaths)


# --- what is left out -------------------------------------------------------------------------------------------------


def test_a_traceback_over_its_limit_is_cut_and_marked() -> None:
    error: BaseException = ValueError("x" * 2_000)
    for _ in range(EXCEPTIONS_LIMIT - 1):
        later = ValueError("x" * 2_000)
        later.__cause__ = error
        error = later
    failure = recorded(error)
    assert failure.truncated
    assert len(failure.traceback or "") == TRACEBACK_LIMIT + len("…\n")


def test_frames_of_redrive_above_the_handler_are_left_out() -> None:
    def handler() -> Iterator[str]:
        yield "a"
        raise ValueError("mine")

    error = caught(lambda: names(handler()))
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is not None
    ours = error.with_traceback(error.__traceback__.tb_next.tb_next)  # as when redrive is who calls
    told = recorded(ours).traceback or ""
    assert "in names" not in told
    assert "in handler\n" in told

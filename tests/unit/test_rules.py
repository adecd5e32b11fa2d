"""A project's own rules: what they recognise, and the sentence about one that is wrong."""

import errno
import sys
from pathlib import Path
from typing import Any

import pytest

from redrive.errors import ConfigError
from redrive.reasons import Rule, Rules, Verdict, classify, rules_from
from tests.faults import Failed, judged, raised


class Declined(Exception):
    class Inner(Exception):
        pass


@pytest.mark.parametrize(
    ("row", "error", "reason"),
    [
        ({"type": f"{__name__}.Declined"}, Declined(), "validation"),
        ({"type": "Declined"}, Declined(), "validation"),
        ({"type": "Declined.Inner"}, Declined.Inner(), "validation"),
        ({"type": "ArithmeticError"}, ZeroDivisionError(), "validation"),
        ({"type": "builtins.OSError"}, TimeoutError(), "validation"),
        ({"type": "Declined", "message": "CARD"}, Declined("the card expired"), "validation"),
        ({"type": "Declined", "message": "card"}, Declined("the bank is closed"), "unknown"),
        ({"status": 409}, Failed(status=409), "validation"),
        ({"status": 409}, Failed(status=410), "unknown"),
        ({"type": "OSError", "errno": errno.ENOENT}, raised(lambda: Path("/no/such/file").stat()), "validation"),
        ({"type": "OSError", "errno": errno.ENOENT}, NotADirectoryError(errno.ENOTDIR, "x"), "unknown"),
        ({"type": "Decline"}, Declined(), "unknown"),
        ({"type": "elsewhere.Declined"}, Declined(), "unknown"),
    ],
)
def test_a_rule_fits_when_all_it_names_fits(row: dict[str, Any], error: BaseException, reason: str) -> None:
    assert judged(error, {**row, "reason": "validation"}).reason == reason


def test_a_rule_may_name_a_class_as_its_package_shows_it() -> None:
    """`msgspec.ValidationError` and `json.JSONDecodeError` are what people import; classes live elsewhere."""
    import json  # here: the rule must find what the handler's code has imported

    error = raised(lambda: json.loads("{"))
    assert type(error).__module__ == "json.decoder"
    assert judged(error, {"type": "json.JSONDecodeError", "reason": "validation"}).reason == "validation"
    assert judged(ValueError(), {"type": "json.JSONDecodeError", "reason": "validation"}).reason == "unknown"


def test_a_rule_imports_nothing() -> None:
    assert "colorsys" not in sys.modules
    assert judged(ValueError(), {"type": "colorsys.Missing", "reason": "validation"}).reason == "unknown"
    assert judged(ValueError(), {"type": "redrive.Redrive", "reason": "validation"}).reason == "unknown"
    assert "colorsys" not in sys.modules


def test_rules_are_asked_in_order_and_before_the_table() -> None:
    rows = [{"type": "TimeoutError", "reason": "network"}, {"type": "OSError", "reason": "unavailable"}]
    assert judged(TimeoutError(), *rows).reason == "network"
    assert judged(PermissionError(), *rows).reason == "unavailable"
    assert judged(ValueError("timed out"), *rows).reason == "timeout"


def test_a_rule_may_have_a_reason_of_its_own() -> None:
    row = {"type": "Declined", "reason": "Card-Declined", "retryable": False}
    assert judged(Declined(), row) == Verdict("card_declined", retryable=False)
    assert judged(Declined(), row | {"retryable": True}) == Verdict("card_declined", retryable=True)


def test_a_rule_may_turn_the_nature_of_a_reason() -> None:
    assert judged(PermissionError(), {"type": "PermissionError", "reason": "FORBIDDEN", "retryable": True}) == Verdict(
        "unauthorized", retryable=True
    )
    assert not judged(TimeoutError(), {"type": "TimeoutError", "reason": "timeout", "retryable": False}).retryable


def test_a_rule_on_a_message_or_errno_may_make_retryable() -> None:
    assert judged(Failed("ORA-00060"), {"message": "ora-00060", "reason": "unavailable"}).reason == "unavailable"
    assert judged(OSError(errno.ENOENT, "x"), {"errno": errno.ENOENT, "reason": "unavailable"}).reason == "unavailable"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"reason": "timeout"}, "the rule for 'timeout' matches nothing: give it type, message, errno or status"),
        ({"reason": "timeout", "message": ""}, "the rule for 'timeout' matches nothing"),
        (
            {"reason": "validation", "message": "bad"},
            "the rule for 'validation' would make failures permanent by message",
        ),
        ({"reason": "timeout", "errno": 5, "retryable": False}, "the rule for 'timeout' would make failures permanent"),
        ({"reason": " ", "type": "X", "retryable": True}, "a rule has an empty reason"),
        ({"type": "X"}, "it has no `reason`; add one of timeout, network"),
        ({"reason": "netwrok", "type": "X"}, "unknown reason 'netwrok'; did you mean 'network'"),
        (
            {"reason": "mine", "type": "X"},
            "unknown reason 'mine'; for a reason of your own say whether it is retryable",
        ),
        ({"reason": "timeout", "kind": "X"}, "unknown key 'kind'; use type, message, errno, status, reason, retryable"),
        ({"reason": "timeout", "status": "429"}, "status = '429' is not a whole number"),
        ({"reason": "timeout", "status": True}, "status = True is not a whole number"),
        ({"reason": "timeout", "type": 5}, "type = 5 is not a text"),
        ({"reason": "timeout", "type": "X", "retryable": 1}, "retryable = 1 is not true or false"),
        ("X", "expected a table with type, message"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_sentence_that_says_which(row: Any, sentence: str) -> None:
    good = {"type": "ValueError", "reason": "timeout"}
    with pytest.raises(ConfigError) as refused:
        rules_from([good, row])
    assert str(refused.value).startswith(f"[[reasons]] number 2: {sentence}")


def test_a_rule_in_code_needs_what_a_rule_in_a_file_needs() -> None:
    with pytest.raises(ConfigError, match="matches nothing"):
        Rule("timeout")
    assert classify(Declined(), Rules((Rule("timeout", type="Declined"),))).reason == "timeout"

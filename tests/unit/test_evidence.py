"""What an exception tells about itself is heard, and nothing of it is trusted."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from redrive import errors
from redrive.clock import SECOND
from redrive.errors import Bury, RetryAfter
from redrive.evidence import GROUP_LIMIT, class_path, essence, is_a, leaves
from redrive.reasons import Verdict
from tests.faults import LIARS, NOW, Failed, Hiding, Lying, Odd, Raising, judged, nested

# --- Retry-After ------------------------------------------------------------------------------------------------------


def date(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(NOW / SECOND + seconds, UTC), usegmt=True)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Failed(status=429, retry_after=30), 30),
        (Failed(retry_after="2.5"), 2.5),
        (Failed(retry_after=timedelta(minutes=1)), 60),
        (Failed(retry_after=-5), 0),
        (Failed(status=503, response=SimpleNamespace(headers={"Retry-After": "120"})), 120),
        (Failed(status=503, response=SimpleNamespace(headers={"retry-after": "7"})), 7),
        (Failed(code=429, headers={"Retry-After": "9"}), 9),
        (Failed(response=SimpleNamespace(headers={"Retry-After": date(90)})), 90),
        (Failed(response=SimpleNamespace(headers={"Retry-After": date(90), "Date": date(80)})), 10),
        (errors.QueueFull("x", retry_after=1.5), 1.5),
        (RetryAfter("1m"), 60),
        (ExceptionGroup("g", [Failed(retry_after=3), Failed(retry_after=8), RetryAfter(5), ValueError()]), 8),
        (Failed(), None),
        (Failed(retry_after=True), None),
        (Failed(retry_after="soon"), None),
        (Failed(retry_after=float("nan")), None),
        (Failed(retry_after=float("inf")), None),
        (Failed(retry_after=10**9), None),
        (Failed(retry_after=lambda: 5), None),
        (Failed(response=SimpleNamespace(headers=5)), None),
        (Failed(status=401, retry_after=30), None),
    ],
)
def test_a_wish_to_wait_is_heard_where_it_can_be_read(error: BaseException, seconds: float | None) -> None:
    """What is permanent has none, and more than a month is a mistake."""
    assert judged(error).retry_after == (None if seconds is None else seconds * SECOND)


# --- groups, and exceptions that lie ----------------------------------------------------------------------------------


def test_a_group_of_one_is_what_it_holds() -> None:
    assert judged(ExceptionGroup("g", [ExceptionGroup("h", [PermissionError()])])).reason == "unauthorized"


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ([TimeoutError(), TimeoutError()], Verdict("timeout", retryable=True)),
        ([PermissionError(), PermissionError()], Verdict("unauthorized", retryable=False)),
        ([TimeoutError(), PermissionError()], Verdict("unknown", retryable=True)),
        ([NotImplementedError(), PermissionError()], Verdict("unknown", retryable=False)),
        ([TimeoutError(), ExceptionGroup("h", [ValueError(), Bury()])], Verdict("buried", retryable=False)),
    ],
)
def test_a_group_heals_if_any_of_it_does_unless_it_was_buried(held: list[Exception], verdict: Verdict) -> None:
    assert judged(ExceptionGroup("g", held)) == verdict


def test_a_group_of_a_hundred_thousand_is_judged_by_its_first() -> None:
    assert judged(ExceptionGroup("g", [TimeoutError()] * 100_000)).reason == "timeout"


def test_a_group_nested_a_thousand_deep_is_judged_by_what_is_at_its_bottom() -> None:
    assert judged(nested(TimeoutError(), 1_000)).reason == "timeout"
    assert judged(nested(TimeoutError(), 100, width=2)).reason == "timeout"


@pytest.mark.parametrize("name", LIARS)
def test_an_exception_may_lie_about_anything(name: str) -> None:
    verdict = judged(LIARS[name](), {"type": "Declined", "reason": "validation"})
    assert verdict.reason in {"unknown", "rate_limited"}
    assert verdict.retryable


def test_a_group_that_hides_what_it_holds_is_judged_by_it() -> None:
    assert judged(Hiding("g", [PermissionError()])).reason == "unauthorized"


def test_what_an_exception_is_does_not_depend_on_what_it_says() -> None:
    assert not is_a(Lying(), Bury)
    assert is_a(Raising(), Lying)
    assert class_path(Odd()) == f"{__name__.replace('unit.test_evidence', 'faults')}.Odd"
    assert class_path(ValueError()) == "ValueError"


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_essence_is_what_one_group_after_another_holds_alone() -> None:
    error = ValueError("x")
    assert essence(error) is error
    assert essence(nested(error, 5)) is error
    several = ExceptionGroup("g", [error, error])
    assert essence(several) is several


def test_the_leaves_of_a_group_are_in_order_and_not_more_than_the_limit() -> None:
    first, second, third = ValueError("1"), ValueError("2"), ValueError("3")
    assert leaves(ExceptionGroup("g", [first, ExceptionGroup("h", [second]), third])) == [first, second, third]
    assert leaves(first) == [first]
    assert len(leaves(ExceptionGroup("g", [first] * 100_000))) == GROUP_LIMIT
    assert leaves(nested(first, 1_000)) == [first]

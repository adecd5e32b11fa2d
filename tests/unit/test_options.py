"""What `using(…)` takes, and the sentence about what it does not."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.backoff import fixed
from redrive.clock import SECOND
from redrive.errors import RedriveError, UsageError
from redrive.limits import Limits, encode_limits, limits_of
from redrive.options import Options

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)

ID = "01890000-0000-7000-8000-00005a1f01c2"
AT = 1_767_225_600 * SECOND


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("queue", "email", "email"),
        ("priority", "high", 8),
        ("priority", 0, 0),
        ("delay", "1m", 60 * SECOND),
        ("delay", 0, 0),
        ("delay", timedelta(seconds=2), 2 * SECOND),
        ("at", datetime(2026, 1, 1, tzinfo=UTC), AT),
        ("at", "2026-01-01T00:00:00Z", AT),
        ("at", AT, AT),
        ("key", "welcome-7", "welcome-7"),
        ("id", ID, ID),
        ("id", UUID(ID), ID),
        ("id", ID.upper().replace("-", ""), ID),
        ("external_id", "order/4711", "order/4711"),
        ("max_attempts", 1, 1),
        ("backoff", fixed(5), fixed(5)),
        ("timeout", "30s", 30 * SECOND),
        ("expires", "1h", 3_600 * SECOND),
        ("expires", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        ("headers", {"traceparent": "00-aa"}, b'{"traceparent":"00-aa"}'),
        ("headers", {}, b"{}"),
        ("batch", "batch-1", "batch-1"),
        ("needs", "payments", ("payments",)),
        ("needs", ["payments", "mail"], ("payments", "mail")),
    ],
)
def test_an_option_is_read_into_the_units_of_the_store(name: str, written: Any, read: Any) -> None:
    assert getattr(Options.checked({name: written}), name) == read


def test_an_option_that_is_none_was_not_given() -> None:
    assert Options.checked(dict.fromkeys(Options.__struct_fields__)) == Options()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"prioriy": 5}, "unknown option 'prioriy', did you mean priority?"),
        ({"colour": 5}, "unknown option 'colour'; there are queue, priority, delay, at, key, id,"),
        ({"delay": 5, "at": AT}, "options delay and at exclude each other: give one of them"),
        ({"queue": ""}, "option queue='' is wrong: write a text of 1 to 512 characters"),
        ({"queue": 5}, "option queue=5 is wrong: write a text"),
        ({"key": "a\0"}, "option key='a\\x00' is wrong: write a text"),
        ({"key": "\ud800"}, "option key='\\ud800' is wrong: write a text"),
        ({"external_id": "x" * 513}, "option external_id='xxxxxxxxxxxx...xxxxxxxxxxxxx' is wrong: write a text"),
        ({"batch": []}, "option batch=[] is wrong: write a text"),
        ({"priority": 10}, "priority 10 is not one of low, normal, high or 0 to 9 (nine first)"),
        ({"delay": "soon"}, "option delay='soon' is wrong: 'soon' is not a duration: write seconds (30)"),
        ({"delay": -1}, "option delay=-1 is wrong: -1 is not a duration"),
        ({"delay": timedelta(-1)}, "option delay=datetime.timedelta(days=-1) is wrong"),
        ({"delay": "101y"}, "option delay='101y' is wrong: '101y' is not a duration"),
        ({"delay": "36600d1s"}, "option delay='36600d1s' is wrong: '36600d1s' is longer than 100 years"),
        ({"at": 1_767_225_600}, "option at=1767225600 is wrong: 1767225600 is not a point in time: write a datetime"),
        ({"at": 1_767_225_600.5}, "option at=1767225600.5 is wrong: 1767225600.5 is not a point in time"),
        ({"at": "tomorrow"}, "option at='tomorrow' is wrong: 'tomorrow' is not a point in time"),
        ({"id": "7"}, "option id='7' is wrong: an id is a UUID; use key= or external_id= for other names"),
        ({"id": "x" * 32}, "option id='xxxxxxxxxxxx...xxxxxxxxxxxxx' is wrong: an id is a UUID"),
        ({"max_attempts": 0}, "option max_attempts=0 is wrong: write a whole number from 1 (once, no retry)"),
        ({"max_attempts": True}, "option max_attempts=True is wrong"),
        ({"max_attempts": "3"}, "option max_attempts='3' is wrong"),
        ({"backoff": lambda attempt: 5}, "option backoff=<function <la"),
        ({"backoff": 5}, "option backoff=5 is wrong: write exponential(…), linear(…), fixed(…), delays(…) or"),
        ({"timeout": 0}, "option timeout=0 is wrong: write more than zero"),
        ({"timeout": None, "expires": 0}, "option expires=0 is wrong: write more than zero"),
        ({"expires": datetime(1, 1, 1, tzinfo=UTC)}, "option expires="),
        ({"headers": {"a": 5}}, "option headers={'a': 5} is wrong: headers are texts by name"),
        ({"headers": "a"}, "option headers='a' is wrong: headers are texts by name"),
        ({"headers": {"a": "\ud800"}}, "the set of headers cannot be written as JSON: it holds half of a character"),
        ({"headers": {"a": "x" * 70_000}}, "the set of headers has 70,008 bytes, over the limit of 65,536"),
        ({"needs": 5}, "option needs=5 is wrong: write a name or a list of names"),
        ({"needs": ["a", 5]}, "option needs=['a', 5] is wrong: write a text of 1 to 512 characters"),
        ({"needs": ""}, "option needs='' is wrong: write a text"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        Options.checked(given)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=40),
    st.binary(max_size=9),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.lists(st.text(max_size=4), max_size=3),
    st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
)


def read(given: dict[str, Any]) -> Options | str:
    """The options, or the sentence about them."""
    try:
        return Options.checked(given)
    except RedriveError as refused:
        return f"{type(refused).__name__}: {refused}"


@rule
@given(st.sampled_from(Options.__struct_fields__), anything)
def test_any_option_is_read_or_refused_and_what_is_read_fits_a_store(name: str, value: Any) -> None:
    match read({name: value}):
        case Options() as options:
            numbers = (options.delay, options.at, options.timeout, options.priority)
            assert all(number is None or 0 <= number < 2**62 for number in numbers)
            for text in (options.queue, options.key, options.external_id, options.batch, options.id):
                assert text is None or text.encode()
        case sentence:
            assert "\n" not in repr(sentence)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_job_that_asks_for_nothing_carries_its_tasks_limits_unchanged() -> None:
    policy = encode_limits(Limits(max_attempts=7))
    assert Options.checked({"queue": "x"}).limits(policy) is policy
    assert Options().limits(None) is None


def test_what_a_job_asks_for_is_laid_over_its_tasks_limits() -> None:
    policy = encode_limits(Limits(max_attempts=7, within=9, timeout=5))
    asked = Options.checked({"max_attempts": 2, "backoff": fixed(3)}).limits(policy)
    assert limits_of(asked) == Limits(max_attempts=2, within=9, timeout=5, backoff=fixed(3))
    assert limits_of(Options.checked({"timeout": 1}).limits(None)) == Limits(timeout=SECOND)

"""Ids, priorities, and a payload on its way to bytes and back."""

import decimal
import enum
import json
import math
import subprocess
import sys
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.errors import BadPayload, PayloadTooLarge, RedriveError, UsageError
from redrive.job import (
    PAYLOAD_LIMIT,
    PRIORITIES,
    Job,
    State,
    check_size,
    decode,
    decode_headers,
    encode,
    name_of,
    names,
    new_id,
    priority_of,
)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_is_a_uuid_of_version_seven_that_holds_the_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [UUID(new_id()) for _ in range(100)]
    after = time.time_ns() // 1_000_000
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}
    assert all(before <= id.int >> 80 <= after + 1 for id in ids)


def test_ids_rise_within_a_thread() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_ids_rise_while_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [new_id()]
    back = time.time_ns() - 3_600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: back)
    ids += [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_ids_are_unique_across_threads() -> None:
    found: list[list[str]] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait(10)
        found.append([new_id() for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({id for ids in found for id in ids}) == 16_000


FORK = """
import os
from redrive.job import new_id
new_id()  # so that neither process starts anew
child = os.fork()
os.write(1, "".join(f"{new_id()}\\n" for _ in range(500)).encode())
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_ids_are_unique_after_a_fork() -> None:
    """In a fresh interpreter, because one with threads should not be forked."""
    told = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True, timeout=30)
    assert len(set(told.stdout.split())) == len(told.stdout.split()) == 1_000


def test_an_id_is_shown_by_its_last_digits_and_keys_effects_until_the_payload_is_edited() -> None:
    job = Job(id=new_id(), task="t", payload=b"{}")
    assert job.short == job.id[-8:]
    assert job.idempotency_key == job.id
    assert msgspec.structs.replace(job, epoch=3, attempts=2).idempotency_key == job.id
    assert msgspec.structs.replace(job, payload_version=2).idempotency_key == f"{job.id}:v2"


# --- payloads ---------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@rule
@given(json_values)
def test_a_json_value_comes_back_as_it_went(value: Any) -> None:
    text = encode(value)
    assert decode(text) == value
    assert json.loads(text) == value


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**300, -(10**4_000), sys.float_info.max, 5e-324])
def test_a_number_of_any_size_comes_back_exactly(number: float) -> None:
    assert decode(encode({"n": number})) == {"n": number}


class Safe(str):
    """What template engines make of a text."""

    __slots__ = ()


class Metres(float):
    """What numeric libraries make of a number."""


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        ({1: "a"}, {"1": "a"}),
        ([Safe("x"), {Safe("k"): Metres(1.5)}], ["x", {"k": 1.5}]),
        (Colour.RED, "red"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (decimal.Decimal("1.10"), "1.10"),
        (None, None),
        ("a\0b", "a\0b"),
        ([None, msgspec.Raw(b"null")], [None, None]),
    ],
)
def test_what_json_has_a_form_for_arrives_in_that_form(value: Any, arrives: Any) -> None:
    assert decode(encode(value)) == arrives


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, Metres("nan")])
@pytest.mark.parametrize("inside", [lambda x: x, lambda x: [None, {"a": (1.5, x)}], lambda x: {"null": [x]}])
def test_nan_and_infinity_are_refused_and_not_silently_made_null(number: float, inside: Callable[[Any], Any]) -> None:
    with pytest.raises(BadPayload) as refused:
        encode(inside(number))
    assert str(refused.value) == (
        "the payload cannot be written as JSON: it holds NaN or an infinity; pass None or a text instead"
    )


class Opaque:
    pass


def circle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("half \ud800", "cannot be written as JSON: it holds half of a character (a lone surrogate); clean the text"),
        ({"\udfff": 1}, "cannot be written as JSON: it holds half of a character (a lone surrogate); clean the text"),
        (Opaque(), "cannot be written as JSON: it holds an object of type Opaque; pass only JSON values"),
        ([lambda: 1], "cannot be written as JSON: it holds an object of type function; pass only JSON values"),
        (iter([1]), "cannot be written as JSON: it holds an object of type list_iterator; pass only JSON values"),
        (1j, "cannot be written as JSON: it holds an object of type complex; pass only JSON values"),
        ({(1, 2): 3}, "cannot be written as JSON: it holds an object of type tuple; pass only JSON values"),
        (circle(), "is nested too deeply to be written as JSON; flatten it"),
    ],
    ids=range(8),
)
def test_what_cannot_be_written_is_refused_in_one_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(BadPayload) as refused:
        encode(value)
    assert str(refused.value).startswith(f"the payload {sentence}")
    assert "\n" not in str(refused.value)


def test_a_number_too_long_to_be_printed_is_refused() -> None:
    with pytest.raises(BadPayload, match=r"^the payload cannot be written as JSON: Exceeds the limit \(4300 digits\)"):
        encode(10**5_000)


def test_a_payload_a_hundred_thousand_deep_is_refused_both_ways() -> None:
    value: Any = None
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadPayload, match=r"^the payload is nested too deeply to be written as JSON; flatten it$"):
        encode(value)
    with pytest.raises(BadPayload, match=r"^the payload is nested too deeply to be read$"):
        decode(b"[" * 100_000 + b"]" * 100_000)
    while value is not None:  # taken apart here, because letting go of it at once needs as many frames
        value = value[0]


def test_a_payload_over_the_limit_is_refused_with_both_sizes() -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        encode("x" * 64 * 1024 * 1024)
    assert str(refused.value) == (
        "the payload has 67,108,866 bytes, over the limit of 1,048,576; store it elsewhere and pass a reference"
    )


def test_the_limit_is_in_bytes_and_is_itself_allowed() -> None:
    assert len(encode("x" * (PAYLOAD_LIMIT - 2))) == PAYLOAD_LIMIT
    with pytest.raises(PayloadTooLarge, match="the result has 12 bytes, over the limit of 11"):
        encode("é" * 5, limit=11, what="the result")
    check_size(b"x" * 11, 11)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"NaN", b"Infinity", b"1e999", b"'x'", b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800"', b"[1,]", b"1 2"],
)
def test_what_is_no_json_is_refused_in_one_sentence(text: bytes) -> None:
    with pytest.raises(BadPayload, match=r"^the payload is not JSON in UTF-8: ") as refused:
        decode(text)
    assert "\n" not in str(refused.value)


@rule
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        value = decode(text)
    except RedriveError as refused:
        assert type(refused) is BadPayload  # noqa: PT017  bytes that are JSON are no failure of this test
    else:
        assert decode(encode(value)) == value


def test_headers_are_texts_by_name() -> None:
    assert decode_headers(None) == decode_headers(b"") == {}
    assert decode_headers(b'{"traceparent":"00-aa"}') == {"traceparent": "00-aa"}


# --- priorities, names, states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "priority"),
    [("low", 2), ("normal", 5), ("high", 8), ("HIGH", 8), (" low ", 2), (0, 0), (9, 9), ("0", 0), ("9", 9)],
)
def test_a_priority_is_a_digit_or_a_name(written: Any, priority: int) -> None:
    assert priority_of(written) == priority


@pytest.mark.parametrize(
    "written", [-1, 10, "10", "-1", "urgent", "", "²", "٣x", 2.5, 5.0, True, None, [5], b"5", 10**30]
)
def test_what_is_no_priority_is_refused_in_one_sentence(written: Any) -> None:
    with pytest.raises(UsageError, match=r"^priority .* is not one of low, normal, high or 0 to 9 \(nine first\)$"):
        priority_of(written)


def test_the_names_of_priorities_are_those_of_the_reference() -> None:
    assert PRIORITIES == {"low": 2, "normal": 5, "high": 8}
    assert Job(id="j", task="t", payload=b"").priority == PRIORITIES["normal"]


def test_one_name_or_several_are_a_tuple() -> None:
    assert names("a") == ("a",)
    assert names(["a", "b"]) == ("a", "b")
    assert names(()) == ()
    with pytest.raises(ValueError, match="these are 101 names, and 100 are the limit"):
        names(map(str, range(101)))


@pytest.mark.parametrize("name", ["", "x" * 513, "a\0b", "\ud800", 5, None, b"x", ["x"]])
def test_a_name_is_one_that_every_store_can_keep(name: Any) -> None:
    for read in (name_of, lambda name: names([name])):
        with pytest.raises(ValueError, match=r"^write a text of 1 to 512 characters, none of them a NUL"):
            read(name)


def test_the_states_are_those_of_the_reference() -> None:
    assert [str(state) for state in State] == ["scheduled", "ready", "leased", "done", "dead", "discarded"]

"""Failures with the same cause are one group, failures with different causes are several."""

import random
import re
import string
import time
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.fingerprint import MESSAGE_LIMIT, TITLE_LIMIT, fingerprint, normalised

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)


def group(message: str, task: str = "t", type: str = "ValueError", frame: str = "app:f") -> str:
    return fingerprint(task, type, frame, message)[0]


# --- what differs from job to job -------------------------------------------------------------------------------------

words = st.text(string.ascii_letters, min_size=1, max_size=12)
names = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=12)
hexes = st.text("0123456789abcdef", min_size=8, max_size=64).filter(lambda text: re.search("[0-9]", text))
moments = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1))  # noqa: DTZ001  hypothesis wants them bare
numbers = st.one_of(st.integers(-(10**20), 10**20).map(str), st.integers(0, 9).map(str))
ids = st.one_of(
    numbers,
    hexes,
    hexes.map(str.upper),
    hexes.map("0x{}".format),
    st.uuids().map(str),
    st.uuids().map(lambda uuid: uuid.hex),
    st.uuids().map(lambda uuid: str(uuid).upper()),
    st.builds("{}{}".format, words, st.integers(0, 10**6)),
)
DETAILS: dict[str, st.SearchStrategy[str]] = {
    "order {} was refused": ids,
    "order_id={}, gone": ids,
    "no rows for ({})": ids,
    "took {}, too long": st.one_of(
        numbers,
        st.floats(0, 1e6).map("{:.3f}".format),
        st.floats(1, 1e6).map("{:.1f}s".format),
        st.integers(0, 10**6).map("{}ms".format),
        st.integers(0, 10**9).map("{:,}".format),
        st.integers(0, 100).map("{}%".format),
    ),
    "batch [{}] is bad": st.lists(ids, min_size=1, max_size=6).map(", ".join),
    "key {} is missing": st.one_of(names.map(repr), names.map('"{}"'.format), names.map("`{}`".format)),
    "it isn't {!r}, is it": st.text("abc \"'0", max_size=12),
    "cannot open {} for reading": st.one_of(
        st.lists(names, min_size=1, max_size=5).map(lambda parts: f"/{'/'.join(parts)}"),
        st.lists(names, min_size=1, max_size=5).map(lambda parts: f"./{'/'.join(parts)}.txt"),
        st.lists(names, min_size=1, max_size=5).map(lambda parts: "C:\\" + "\\".join(parts)),
    ),
    "peer {} hung up": st.one_of(
        st.ip_addresses(v=4).map(str),
        st.ip_addresses(v=4).map("{}:8080".format),
        st.ip_addresses(v=6).filter(lambda address: "." not in str(address)).map(str),
    ),
    "mail to {} bounced": st.builds("{}@{}.example.com".format, words, words),
    "expired at {}, sorry": st.one_of(
        moments.map(str),
        moments.map(datetime.isoformat),
        moments.map(lambda moment: moment.replace(tzinfo=UTC).isoformat()),
        moments.map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
        moments.map(lambda moment: f"{moment:%Y-%m-%d %H:%M:%S},123"),
        moments.map(lambda moment: f"{moment:%H:%M:%S}"),
        moments.map(lambda moment: f"{moment:%Y-%m-%d}"),
    ),
    "GET https://api.example.com{} was refused": st.lists(names, max_size=4).map(
        lambda parts: "".join(f"/{part}" for part in parts) + "?page=2"
    ),
    "<Order object at {}> is closed": st.integers(0, 2**64).map(hex),
}


@pytest.mark.parametrize("sentence", DETAILS)
def test_the_same_cause_with_other_details_is_one_group(sentence: str) -> None:
    @rule
    @given(DETAILS[sentence], DETAILS[sentence])
    def same(one: str, other: str) -> None:
        assert group(sentence.format(one)) == group(sentence.format(other)), (
            normalised(sentence.format(one)),
            normalised(sentence.format(other)),
        )

    same()


def test_the_details_of_one_sentence_are_not_the_whole_of_it() -> None:
    """The control: all these sentences are different causes."""
    one_each = [group(sentence.format("'7'")) for sentence in DETAILS]
    assert len(set(one_each)) == len(DETAILS)


def test_white_space_and_control_characters_do_not_matter() -> None:
    assert group("a b\n\n c\x00\x1bd ") == group("a b c d")


# --- what tells causes apart ------------------------------------------------------------------------------------------

DIFFERENT = [
    "connection refused",
    "connection reset",
    "cannot reach db.example.com",
    "cannot reach mail.example.com",
    "GET https://api.example.com/users/7",
    "GET https://auth.example.com/users/7",
    "GET http://api.example.com/users/7",
    "HTTP 404 for it",
    "HTTP 503 for it",
    "status_code=404",
    "status_code=503",
    "Client error '404 Not Found' for it",
    "Client error '429 Too Many Requests' for it",
    "[Errno 2] failed",
    "[Errno 13] failed",
    "exit code 1",
    "exit code 137",
    "signal 9",
    "signal 11",
    "unknown field",
    "missing field",
    "I/O error",
    "and/or error",
    "",
    "7",
]


def test_different_causes_are_different_groups() -> None:
    sharing: dict[str, list[str]] = {}
    for message in DIFFERENT:
        sharing.setdefault(group(message), []).append(message)
    assert [messages for messages in sharing.values() if len(messages) > 1] == []


@rule
@given(st.lists(st.tuples(words, words, words), min_size=2, max_size=6, unique=True))
def test_task_type_and_frame_tell_causes_apart(causes: list[tuple[str, str, str]]) -> None:
    assert len({group("x", *cause) for cause in causes}) == len(causes)


def test_the_parts_of_a_cause_do_not_run_together() -> None:
    assert group("x", task="ab", type="c") != group("x", task="a", type="bc")


@rule
@given(st.lists(st.sampled_from(["payment", "declined", "by", "bank", "never"]), max_size=5).map(" ".join), words)
def test_another_word_is_another_cause(message: str, word: str) -> None:
    assert group(message) != group(f"{message} {word}")


# --- ids and titles ---------------------------------------------------------------------------------------------------


def test_a_title_says_the_cause_in_words() -> None:
    _, title = fingerprint("t", "KeyError", "app:f", "no user 42 in '/var/x' at 10.0.0.7:80, 1, 2 and 3")
    assert title == "KeyError: no user <n> in <text> at <ip>, <n>… and <n>"
    assert fingerprint("t", "KeyError", "app:f", "")[1] == "KeyError"


def test_a_fingerprint_stays_what_it_is() -> None:
    """Groups are kept for years: a change here makes a new group of every old cause, and needs a migration."""
    assert group("no user 42", "mail.send", "KeyError", "app.mail:send") == "09628a3d5cc0a562"


@rule
@given(st.text(), st.text(max_size=300), st.text(max_size=300), st.text(max_size=2_000))
def test_any_failure_has_a_fingerprint_and_a_short_title(task: str, type: str, frame: str, message: str) -> None:
    id, title = fingerprint(task, type, frame, message)
    assert re.fullmatch("[0-9a-f]{16}", id)
    assert len(title) <= TITLE_LIMIT
    assert (id, title) == fingerprint(task, type, frame, message)


def test_lone_surrogates_have_a_fingerprint_too() -> None:
    assert re.fullmatch("[0-9a-f]{16}", fingerprint("\ud800", "\ud800", "\ud800", "\ud800")[0])


def test_what_comes_late_in_a_message_does_not_count() -> None:
    start = "word " * MESSAGE_LIMIT
    assert group(f"{start} one") == group(f"{start} other")


NASTY = [
    "a-",
    "1",
    "'",
    "a1",
    "1.",
    "a.b@",
    "::",
    "/a",
    "http://",
    "-a1",
    "\\",
    "1:1:",
    "'\\",
    "x1-",
    "status ",
    "C:\\",
]


def test_no_message_takes_long() -> None:
    """The worst of many repetitions, in hundredths of a second each; a pattern that blows up takes minutes."""
    chance = random.Random(7)
    messages = [piece * MESSAGE_LIMIT for piece in NASTY]
    messages += ["".join(chance.choices(NASTY, k=MESSAGE_LIMIT)) for _ in range(20)]
    start = time.process_time()
    for message in messages:
        normalised(message)
    assert time.process_time() - start < 5


def test_a_uuid_is_recognised_in_every_spelling() -> None:
    uuid = UUID("5f2b1c9e-1111-4222-8333-123456789abc")
    for spelled in (str(uuid), uuid.hex, str(uuid).upper()):
        assert normalised(f"job {spelled}") == "job <uuid>"

"""What a filter means, shown on one letter at a time."""

from typing import Any

import msgspec
import pytest

from redrive.clock import SECOND
from redrive.errors import UsageError
from redrive.query import paths
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from tests.unit.query.subjects import NOW

PLAIN = Subject(
    id="0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2",
    task="email.send",
    queue="email",
    priority=8,
    state="open",
    reason="network",
    error="httpx.ConnectError",
    message="Connection REFUSED by höst-1",
    group="3f2a9c0000000001",
    attempts=3,
    epochs=2,
    failed_at=NOW - 3_600 * SECOND,
    first_failed_at=NOW - 7_200 * SECOND,
    host="host-1",
    worker="w1",
    payload=b'{"user":{"tier":"gold","age":40},"items":[{"price":5},{"price":50}],"on":true,"none":null,"n":"5"}',
    headers=b'{"x-id":7}',
)


def meant(text: str, **changes: Any) -> bool:
    """Whether the plain letter, changed so, is meant by a filter."""
    return matcher(parse(text, NOW))(msgspec.structs.replace(PLAIN, **changes))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "queue = email and task = email.send",
        "refused",
        "CONNECTERROR",
        "email.send",
        "message ~ HÖST",
        "error = ConnectError",
        "error = httpx.ConnectError",
        "error ~ connect",
        "id = 5a1f01c2 and id = 01c2 and id = 0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2",
        "group = 3f2a and group = 3f2a9c0000000001",
        "priority = high and priority > normal",
        "attempts >= 3 and attempts <= 3 and not attempts < 3",
        "failed_at > -90m and failed_at < -30m and age > 30m and age < 90m",
        "release is null and workflow is null and workflow != alice",
        "queue in (sms, email) and queue not in (sms)",
        "state = open",
    ],
)
def test_a_letter_is_meant_by_what_it_is(text: str) -> None:
    """By any of its fields."""
    assert meant(text)


@pytest.mark.parametrize(
    "text",
    [
        "Email.send and queue = Email",
        "error = Connect",
        "error = pp.ConnectError",
        "id = 5a1f",
        "group = 2a9c",
        "release = ''",
        "release < 3 or false",
        "host is null",
        "not refused",
    ],
)
def test_a_letter_is_not_meant_by_what_it_is_not(text: str) -> None:
    """A part of a name is not the name, a missing value is not equal, `=` sees case."""
    assert not meant(text.replace("release < 3 or ", ""))


def test_an_empty_host_is_a_missing_one() -> None:
    """What nobody filled in is null to a person."""
    assert meant("host is null", host="")


HOLDS, FAILS = True, False


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("payload.user.tier = gold", HOLDS),
        ("payload.user.tier = Gold", FAILS),
        ("payload.user.tier ~ GOL", HOLDS),
        ("payload.user ~ gold", HOLDS),
        ("payload ~ tier", HOLDS),
        ("payload.user.age = 40", HOLDS),
        ("payload.user.age = 40.0", HOLDS),
        ("payload.user.age = '40'", FAILS),
        ("payload.user.age > 39.5", HOLDS),
        ("payload.user.age > abc", FAILS),
        ("payload.n = 5", HOLDS),
        ("payload.n = '5'", HOLDS),
        ("payload.n > 4", FAILS),
        ("payload.n > '4'", HOLDS),
        ("payload.on = true", HOLDS),
        ("payload.on = True", HOLDS),
        ("payload.on = 1", FAILS),
        ("payload.on = 'true'", FAILS),
        ("payload.none = null", HOLDS),
        ("payload.none is null", HOLDS),
        ("payload.absent is null", HOLDS),
        ("payload.absent = null", FAILS),
        ("payload.absent != gold", HOLDS),
        ("payload.user.tier != gold", FAILS),
        ("payload.items[0].price = 5", HOLDS),
        ("payload.items.1.price = 50", HOLDS),
        ("payload.items[-1].price = 50", HOLDS),
        ("payload.items[2] is null", HOLDS),
        ("payload.user.tier in (silver, gold)", HOLDS),
        ("payload.user.tier in (silver, bronze)", FAILS),
        ("headers.x-id = 7", HOLDS),
        ("$.items[?@.price > 10]", HOLDS),
        ("$.items[?@.price > 100]", FAILS),
        ("$.items[*].price = 50", HOLDS),
        ("$.items[*].price != 50", FAILS),
        ("$.user.tier == 'gold'", HOLDS),
        ("$.absent is null", HOLDS),
        ("$.none", HOLDS),
        ("$.none is null", HOLDS),
    ],
)
def test_values_in_the_payload_compare_so(text: str, holds: bool) -> None:
    """The table of the documentation, line by line."""
    assert meant(text) is holds


@pytest.mark.parametrize("payload", [None, b"", b"{", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_no_json_has_nothing_in_it(payload: bytes | None) -> None:
    """And a filter still has an answer for it."""
    assert meant("payload is null and payload.a is null and not $.a and payload.a != 1", payload=payload)


def test_a_path_that_comes_to_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are looked at one after the other, so that neither time nor memory run out."""
    everywhere, wide = "$.." + f"[{','.join('*' * 50)}] = 7", msgspec.json.encode([list(range(50))] * 50)
    assert meant(everywhere, payload=wide)
    monkeypatch.setattr(paths, "LONGEST", 0)
    with pytest.raises(UsageError, match="name its places more closely"):
        meant(everywhere.replace("7", "none"), payload=wide)

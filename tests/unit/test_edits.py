"""Payloads changed by place and by patch."""

from typing import Any

import pytest

from redrive.edits import difference, patched, with_values
from redrive.errors import UsageError

PAYLOAD: dict[str, Any] = {"user": {"email": "a@b", "tier": "gold"}, "items": [{"n": 1}, {"n": 2}], "a=b": 1}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("payload.user.email=c@d", {"user": {"email": "c@d", "tier": "gold"}}),
        ("item.user.new=5", {"user": {"email": "a@b", "tier": "gold", "new": 5}}),
        ("payload.user=null", {"user": None}),
        ('payload.user="5"', {"user": "5"}),
        ("payload.items[1].n=[1, 2]", {"items": [{"n": 1}, {"n": [1, 2]}]}),
        ("payload.items[-1]=x=y", {"items": [{"n": 1}, "x=y"]}),
        ('payload["a=b"]=2', {"a=b": 2}),
        ("payload.user.email=", {"user": {"email": "", "tier": "gold"}}),
    ],
)
def test_a_value_is_set_at_its_place(setting: str, expected: dict[str, Any]) -> None:
    """A value is JSON where it can be read so; the payload that was read stays as it was."""
    before = repr(PAYLOAD)
    assert with_values(PAYLOAD, [setting]) == PAYLOAD | expected
    assert repr(PAYLOAD) == before


def test_a_deep_payload_is_no_trouble() -> None:
    """Nothing walks down where nothing is to change."""
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    assert with_values({"deep": deep, "n": 1}, ["payload.n=2"]) == {"deep": deep, "n": 2}
    assert patched({"deep": deep, "n": 1}, [{"op": "remove", "path": "/n"}]) == {"deep": deep}


def test_settings_follow_each_other() -> None:
    """The whole payload may be set, and then places in it."""
    assert with_values(5, ["payload={}", "payload.a={}", "payload.a.b=1"]) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("user.email=5", "'user.email=5' names no place in the payload; write payload.user.email=a@b.c"),
        ("payload.user", "names no place"),
        ("queue=5", "names no place"),
        ("headers.x=5", "names no place"),
        ("payload..x=5", "names no place"),
        ("payload.a b=5", "names no place"),
        ("payload.nobody.email=5", "there is nothing at 'nobody' in this payload; set what is around it first"),
        ("payload.items[2]=5", "nothing at '2'"),
        ("payload.items.first=5", "nothing at 'first'"),
        ("payload.user.email.domain=5", "nothing at 'domain'"),
    ],
)
def test_what_is_no_place_is_refused(setting: str, sentence: str) -> None:
    """Nothing is made on the way: a misspelled name would only add something."""
    with pytest.raises(UsageError) as raised:
        with_values(PAYLOAD, [setting])
    assert sentence in str(raised.value)


def test_a_patch_is_applied_in_order() -> None:
    """RFC 6902, on any JSON value, without touching what was read."""
    patch = [
        {"op": "test", "path": "/user/tier", "value": "gold"},
        {"op": "replace", "path": "/user/email", "value": "c@d"},
        {"op": "remove", "path": "/items/0"},
        {"op": "add", "path": "/items/-", "value": "x"},
        {"op": "copy", "from": "/user/tier", "path": "/tier"},
        {"op": "move", "from": "/a=b", "path": "/moved"},
    ]
    before = repr(PAYLOAD)
    assert patched(PAYLOAD, patch) == {
        "user": {"email": "c@d", "tier": "gold"}, "items": [{"n": 2}, "x"], "tier": "gold", "moved": 1
    }  # fmt: skip
    assert repr(PAYLOAD) == before
    assert patched("text", [{"op": "replace", "path": "", "value": [1]}]) == [1]


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ({"op": "remove"}, "a JSON Patch is a list of objects"),
        (["remove"], "a JSON Patch is a list of objects"),
        ([{"path": "/x"}], "the patch is no JSON Patch: missing 'op' member at op 0"),
        ([{"op": "grow", "path": "/x"}], "the patch is no JSON Patch"),
        ([{"op": "remove", "path": 5}], "the patch is no JSON Patch"),
        (
            [{"op": "remove", "path": "/a=b"}, {"op": "remove", "path": "/nobody"}],
            "step 2 of the patch cannot be done to this payload",
        ),
        ([{"op": "test", "path": "/user/tier", "value": "x"}], "step 1 of the patch cannot be done"),
        ([{"op": "add", "path": "/items/9", "value": 1}], "step 1 of the patch cannot be done"),
        ([{"op": "add", "path": "/user/tier/x", "value": 1}], "step 1 of the patch cannot be done"),
    ],
)
def test_a_patch_that_cannot_be_done_is_refused(patch: Any, sentence: str) -> None:
    """In one sentence, with the step."""
    with pytest.raises(UsageError) as raised:
        patched(PAYLOAD, patch)
    assert sentence in str(raised.value)


def test_the_difference_masks_secrets() -> None:
    """Lines of JSON; a change that is masked is told without being shown."""
    lines = difference({"to": "a", "token": "s3cr3t"}, {"to": "b", "token": "s3cr3t"})
    assert [line for line in lines if line[:1] in "+-"] == ['-  "to": "a",', '+  "to": "b",']
    assert "s3cr3t" not in "".join(lines)
    assert difference({"token": "s3cr3t"}, {"token": "other"}) == ["only what is masked here differs"]
    assert difference({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []
    assert difference({"a": True}, {"a": 1}) != []

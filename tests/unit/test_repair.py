"""The same change to many payloads: which kinds of difference that makes."""

from typing import Any

import pytest

from redrive.errors import UsageError
from redrive.job import encode
from redrive.letter import Letter, LetterState
from redrive.repair import SAME, SHAPES, Preview, Workshop, change_from, edit_of, remade, shape, shown
from redrive.reshaping import Reshaper
from redrive.store import Change, Due, Edit, Plan


def a_letter(payload: Any) -> Letter:
    """An open letter with this payload."""
    return Letter(
        id="x", task="t", queue="q", priority=5, state=LetterState.OPEN, reason="", type="", message="", group="",
        attempts=1, epochs=1, first_failed_at=0, failed_at=0, host="", worker="", payload=encode(payload),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ({"a": 1}, {"a": 2}, ["a: another number"]),
        ({"a": 1}, {"a": "x"}, ["a: number to text"]),
        ({"a": {"b": None}}, {"a": {"b": True, "c": []}}, ["a.b: null to truth", "a.c: list added"]),
        ({"a": 1, "b": {}}, {"a": 1}, ["b: object removed"]),
        ([{"n": 1}, {"n": 2}], [{"n": 3}, {"n": 4}], ["[].n: another number"]),
        ([1, 2], [1, 2, 3], [": longer"]),
        (5, {"n": 5}, ["payload: number to object"]),
        ({"a": 1}, {"a": 1.0}, ["a: another number"]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_a_shape_tells_places_and_kinds(before: Any, after: Any, places: list[str]) -> None:
    """Not the values, and not which entry of a list."""
    assert shape(before, after) == tuple(places)


def test_a_preview_counts_by_shape() -> None:
    """Each kind has one sample, and the kinds that are told apart are not without end."""
    seen, change = Preview(), change_from(["payload.n=1"], None)
    for payload in ({"n": 2}, {"n": 3}, {"n": "x"}, {"n": 1}):
        letter = a_letter(payload)
        seen.add(letter, edit_of(letter, change, Workshop()))
    assert [each.n for each in seen.shapes.values()] == [2, 1]
    assert (seen.edits, seen.left) == (3, {SAME: 1})
    for number in range(SHAPES + 3):
        letter = a_letter({f"p{number}": 1})
        seen.add(letter, Edit("x", 1, b"{}"))
    assert (len(seen.shapes), seen.others) == (SHAPES, 5)


def test_a_payload_that_becomes_too_large_is_left() -> None:
    """With the sentence that an enqueue would have got."""
    why = edit_of(a_letter({}), change_from([f"payload.n={'x' * 100}"], None), Workshop(limit=50))
    assert isinstance(why, str)
    assert "50" in why


def test_one_change_is_needed() -> None:
    """Values at places or a patch, each readable before any letter is."""
    for settings, patch in (([], None), (["payload.n=1"], []), (["n"], None), ([], {"op": "remove"})):
        with pytest.raises(UsageError):
            change_from(settings, patch)


def test_what_is_shown_of_a_change_has_no_secrets() -> None:
    """Known by the name of the place, also in a patch."""
    patch = [{"op": "add", "path": "/user/password", "value": "x"}, {"op": "add", "path": "/n", "value": 1}]
    assert [step["value"] for step in shown(change_from([], patch))["patch"]] == ["***", 1]
    assert shown(change_from(["payload.token=x", "payload.n=1"], None))["set"] == {
        "payload.token": "***",
        "payload.n": 1,
    }


def test_a_redrive_changes_a_payload_as_an_edit_does() -> None:
    """What only stands in another order is no change for either."""
    patch: list[dict[str, Any]] = [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/a", "value": 1}]
    due = Due(id="1", task="t", version=1, payload=b'{"a":1,"b":2}')
    assert remade(due.payload, Change(patch=patch), 100) is None
    assert Reshaper()(Plan(filter="", patch=patch), due).payload is None
    assert Reshaper()(Plan(filter="", settings=("payload.a=2",)), due).payload == b'{"a":2,"b":2}'

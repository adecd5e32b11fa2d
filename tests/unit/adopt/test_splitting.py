"""Values out of a stream of JSON: the same ones wherever the stream is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.adopt.splitting import Broken, TooLong, lines, values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{},é\n '),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3)), st.integers(1, 9), st.sampled_from([None, 1]))
def test_a_list_and_values_in_a_row_are_read_whole(found: list[object], size: int, indent: int | None) -> None:
    listed = json.dumps(found, indent=indent).encode()
    rowed = "\n".join(json.dumps(value, indent=indent) for value in found).encode()
    for text in (listed, rowed):
        assert [json.loads(piece) for _, piece in values(cut(text, size))] == found


def test_each_value_knows_its_line() -> None:
    text = b'[\n{"a":\n1},\n\n {"b": 2}, 3\n]\n'
    assert list(values(cut(text, 4))) == [(2, b'{"a":\n1}'), (5, b'{"b": 2}'), (5, b"3")]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (b'[{"a": 1},\n{"b": ', 2, "the middle of a value"),
        (b'[{"a": 1}]\n{"b": 2}', 2, "more after the end"),
        (b'{"a": 1}}', 1, "closed that was not opened"),
        (b'[\n"' + b"x" * 200, 2, "longer than 100 bytes"),
    ],
)
def test_what_cannot_be_read_on_is_said(text: bytes, line: int, why: str) -> None:
    with pytest.raises(Broken, match=why) as broken:
        list(values(cut(text, 16), longest=100))
    assert broken.value.line == line


def test_a_line_that_is_too_long_costs_only_itself() -> None:
    text = b"a\n" + b"x" * 50 + b"\nb\n\nc"
    assert list(lines(cut(text, 7), longest=10)) == [(1, b"a\n"), TooLong(2), (3, b"b\n"), (4, b"\n"), (5, b"c")]

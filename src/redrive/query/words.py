"""A filter cut into words: names, values, operators, brackets, paths; each knows its column."""

import re
from dataclasses import dataclass
from typing import Literal

from redrive.errors import UsageError
from redrive.query.tree import Step

LENGTH_LIMIT = 10_000

Sort = Literal["word", "quoted", "operator", "path", "end"]


class BadFilter(UsageError):
    """A filter that cannot be understood; the message names the column."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} (column {column})")
        self.column = column


@dataclass(frozen=True, slots=True)
class Word:
    """One piece of a filter; `steps` are those of a path such as `payload.user[0]`."""

    sort: Sort
    text: str
    column: int
    steps: tuple[Step, ...] = ()


_SPACE = re.compile(r"\s+")
_OPERATOR = re.compile(r"==|=~|!=|!~|<>|<=|>=|&&|\|\||[=<>~!(),]")
_BARE = re.compile(r"[^\s()\[\],=<>~!\"'&|]+(?:[&|](?![&|])[^\s()\[\],=<>~!\"'&|]*)*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|' + r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INDEX = re.compile(r"\[(-?\d{1,9})\]")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_SAME = {"==": "=", "=~": "~", "<>": "!=", "&&": "and", "||": "or", ",": ",", "!": "not"}
_QUOTES = ("'", '"')
_TYPESET = frozenset("\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb")
_HALF = re.compile("[\ud800-\udfff]")
_PATH_ENDS = frozenset(" \t\r\n),=<>~!&|")
_CLOSING = {"[": "]", "(": ")"}


def words(text: str) -> list[Word]:
    """Every word in order, and the end."""
    if len(text) > LENGTH_LIMIT:
        raise BadFilter(f"the filter has {len(text):,} characters, and {LENGTH_LIMIT:,} are the limit", LENGTH_LIMIT)
    refuse_halves(text, 1)
    found: list[Word] = []
    place = _skip(text, 0)
    while place < len(text):
        word, place = _next(text, place)
        found.append(word)
        place = _skip(text, place)
    return [*found, Word("end", "", len(text) + 1)]


def refuse_halves(text: str, column: int) -> None:
    """What was no UTF-8 when it was typed, or names half a character, can stand in no letter."""
    if half := _HALF.search(text):
        raise BadFilter(f"{half[0]!a} is half a character; type the whole one, in UTF-8", column + half.start())


def _skip(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def _next(text: str, place: int) -> tuple[Word, int]:
    column = place + 1
    if text[place] == "$":
        end = _path_end(text, place)
        return Word("path", text[place:end], column), end
    if operator := _OPERATOR.match(text, place):
        return Word("operator", _SAME.get(operator[0], operator[0]), column), operator.end()
    if text[place] in _QUOTES:
        value, end = _quoted(text, place)
        return Word("quoted", value, column), end
    if text[place] in _TYPESET:
        raise BadFilter(f"{text[place]} is a quote of a typesetter; write ' or \" in its place", column)
    if bare := _BARE.match(text, place):
        return _with_steps(text, bare[0], column, bare.end())
    raise BadFilter(f"{text[place]!r} cannot stand here; put a value with it in quotes", column)


def _quoted(text: str, place: int) -> tuple[str, int]:
    found = _QUOTED.match(text, place)
    if found is None:
        raise BadFilter(f"the quote {text[place]} is not closed", place + 1)
    value = _ESCAPE.sub(_unescaped, found[1] if found[1] is not None else found[2])
    value = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # \ud83d\ude00 is one character
    refuse_halves(value, place + 1)
    return value, found.end()


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPED.get(escape, escape)


def _with_steps(text: str, bare: str, column: int, place: int) -> tuple[Word, int]:
    """A name or value, and the place that its dots and brackets point at: `payload.items[0].price`."""
    names, place = _between_dots(text, bare, place)
    steps: list[Step] = list(names[1:])
    begin, pointed = column - 1, place < column - 1 + len(bare)
    while place < len(text) and (text[place] == "[" or (pointed and text[place] == ".")):
        step, place = _bracket(text, place) if text[place] == "[" else _dotted(text, place)
        steps += step
        pointed = True
    return Word("word", text[begin:place], column, tuple(steps)), place


def _between_dots(text: str, bare: str, end: int) -> tuple[list[str], int]:
    """The names in it, and where it ends: before a dot that has a quoted name behind it."""
    names = bare.split(".")
    return (names[:-1], end - 1) if bare.endswith(".") and text.startswith(_QUOTES, end) else (names, end)


def _bracket(text: str, place: int) -> tuple[list[Step], int]:
    if index := _INDEX.match(text, place):
        return [int(index[1])], index.end()
    if text[place + 1 : place + 2] in ("'", '"'):
        key, end = _quoted(text, place + 1)
        if text[end : end + 1] == "]":
            return [key], end + 1
    raise BadFilter(
        'a bracket holds a number or a quoted name, as in payload.items[0] and payload["a b"]; '
        "for anything else write a path that begins with $, such as $.items[*].price",
        place + 1,
    )


def _dotted(text: str, place: int) -> tuple[list[Step], int]:
    if text.startswith(_QUOTES, place + 1):
        key, end = _quoted(text, place + 1)
        return [key], end
    bare = _BARE.match(text, place + 1)
    if bare is None:
        raise BadFilter("a name is missing behind the dot", place + 1)
    names, end = _between_dots(text, bare[0], bare.end())
    return list(names), end


def _path_end(text: str, place: int) -> int:
    """Where a path that begins with `$` ends: at the first space or sign that is inside no bracket and no quote."""
    open_: list[str] = []
    here = place
    while here < len(text) and (open_ or text[here] not in _PATH_ENDS):
        sign = text[here]
        if sign in "\"'":
            _, here = _quoted(text, here)
            continue
        if sign in _CLOSING:
            open_.append(_CLOSING[sign])
        elif open_ and sign == open_[-1]:
            open_.pop()
        here += 1
    if open_:
        raise BadFilter(f"the path is not closed: {open_[-1]!r} is missing", here + 1)
    return here

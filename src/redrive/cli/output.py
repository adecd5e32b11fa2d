"""What the terminal shows: data on stdout, messages on stderr, all of it printable and without secrets."""

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from redrive.redact import printable, redact, redact_text

GAP = "  "
LEAST = 6
WHOLE = 1_000
"""A table that nobody sees is cut only at so many columns."""

_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
_NOT_ASCII = re.compile("[^\0-\x7f]")


def say(message: str) -> None:
    """One sentence to the person, on stderr."""
    click.echo(f"redrive: {clean(message)}", err=True)


def clean(text: str) -> str:
    """A text on one line, fit to be shown."""
    return printable(redact_text(text))


def show(line: str = "", *, bold: bool = False, colour: str | None = None) -> None:
    """A line of data on stdout; it must be clean."""
    click.echo(paint(line, bold=bold, colour=colour), color=None if coloured() else False)


def paint(text: str, *, bold: bool = False, colour: str | None = None) -> str:
    """The text with colours where they are seen."""
    return click.style(text, bold=bold or None, fg=colour) if text and coloured() and (bold or colour) else text


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `2 jobs`, `12,000 jobs`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def coloured() -> bool:
    """Whether stdout shows colours: a terminal, and nobody asked for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit(value: Any) -> None:
    """One JSON value on one line; secrets are masked, and what could move a terminal is written as an escape."""
    import msgspec  # lazily: `--help` needs no JSON

    click.echo(json_line(redact(msgspec.to_builtins(value)), sys.stdout))


def json_line(value: Any, stream: TextIO) -> str:
    """A value as JSON on one line; what the stream cannot write, or could move a terminal, is an escape."""
    import msgspec

    unicode = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return (_UNSAFE if unicode else _NOT_ASCII).sub(_escaped, msgspec.json.encode(value).decode())


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; only one that may `shrink` is ever cut, and ids never are."""

    title: str
    shrink: bool = False
    right: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Rows under their titles, as wide as the terminal; whole where there is none, for what looks into them."""
    cells = [[clean(cell) for cell in row] for row in rows]
    seen = sys.stdout.isatty() or os.environ.get("COLUMNS")
    widths = fitted(columns, cells, width() if seen else WHOLE)
    show(_line(columns, [column.title for column in columns], widths), bold=True)
    for row in cells:
        show(_line(columns, row, widths))


def width() -> int:
    """How many columns there are to fill."""
    return shutil.get_terminal_size((80, 24)).columns


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column becomes: the widest of those that may shrink gives way first."""
    widths = [max([size(c.title), *(size(row[place]) for row in rows)]) for place, c in enumerate(columns)]
    widths = [min(wide, room) if column.shrink else wide for column, wide in zip(columns, widths, strict=True)]
    room -= len(GAP) * (len(columns) - 1)
    while sum(widths) > room:
        able = [n for n, column in enumerate(columns) if column.shrink and widths[n] > max(LEAST, size(column.title))]
        if not able:
            break
        widths[max(able, key=lambda n: (widths[n], n))] -= 1
    return widths


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    pieces = []
    for column, cell, room in zip(columns, cells, widths, strict=True):
        text = cut(cell, room)
        pad = " " * (room - size(text))
        pieces.append(pad + text if column.right else text + pad)
    return GAP.join(pieces).rstrip()


def folded(text: str, room: int) -> list[str]:
    """The text in lines of at most this many columns; words, and so paths and ids, stay whole."""
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def size(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """At most this many columns of a text, with a mark where it was cut."""
    if size(text) <= room:
        return text
    taken, used = [], 1
    for character in text:
        used += _cells(character)
        if used > room:
            break
        taken.append(character)
    return "".join(taken) + "…"

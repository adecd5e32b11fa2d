"""Values out of a file of JSON, in bounded memory: a list, one value per line, or one value after another."""

import re
from collections.abc import Iterable, Iterator

import msgspec

RECORD_LIMIT = 16 * 1024 * 1024
"""A record may have so many bytes."""

Piece = tuple[int, bytes]
"""What begins on a line."""

_OUTSIDE = re.compile(rb'["\[\]{},]')
_INSIDE = re.compile(rb'["\\]')
_BLANK = b" \t\r\n"


class Broken(Exception):
    """Nothing after this can be read; `line` is where it began."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class TooLong(msgspec.Struct, frozen=True):
    """A line that is too long to be a record; the next one may be well."""

    line: int


def lines(chunks: Iterable[bytes], longest: int = RECORD_LIMIT) -> Iterator[Piece | TooLong]:
    """The lines with their numbers and their ends."""
    number, rest, over = 1, b"", False
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for text in whole:
            yield TooLong(number) if over or len(rest) + len(text) > longest else (number, rest + text + b"\n")
            number, rest, over = number + 1, b"", False
        over = over or len(rest) + len(last) > longest
        rest = b"" if over else rest + last
    if over:
        yield TooLong(number)
    elif rest:
        yield number, rest


def values(chunks: Iterable[bytes], longest: int = RECORD_LIMIT) -> Iterator[Piece]:
    """The values of one list, or those that follow one another; raises `Broken` where they end too soon."""
    scanner = _Scanner(longest)
    for chunk in chunks:
        yield from scanner.feed(chunk)
    yield from scanner.end()


class _Scanner:
    """Finds where values begin and end, by their brackets."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._value = bytearray()
        self._line = 1
        self._begin = 1
        self._depth = 0
        self._base: int | None = None  # how deep values stand: 1 in a list, 0 without one
        self._quoted = False
        self._escaped = False
        self._over = False  # the list has ended

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The values that end in this chunk."""
        at = 0
        while at < len(chunk):
            mark = (_INSIDE if self._quoted else _OUTSIDE).search(chunk, at + self._escaped)
            end = mark.end() if mark else len(chunk)
            self._escaped = self._escaped and at + 1 > len(chunk)
            self._take(chunk[at:end])
            if mark:
                yield from self._meet(mark[0])
            at = end

    def end(self) -> Iterator[Piece]:
        """What is left when there is no more to come."""
        if self._quoted or self._depth > 0:
            raise Broken(self._begin, "the file ends in the middle of a value; is it whole?")
        yield from self._whole()

    def _take(self, text: bytes) -> None:
        if not self._value.strip(_BLANK):
            lead = len(text) - len(text.lstrip(_BLANK))
            self._line += text.count(b"\n", 0, lead)
            self._begin, text = self._line, text[lead:]
            self._value.clear()
        self._line += text.count(b"\n")
        self._value += text
        if len(self._value) > self._longest:
            raise Broken(self._begin, f"a value is longer than {self._longest:,} bytes")
        if self._over and text.strip(_BLANK):
            raise Broken(self._begin, "there is more after the end of the list")

    def _meet(self, mark: bytes) -> Iterator[Piece]:
        match mark:
            case b"\\":
                self._escaped = True
            case b'"':
                self._quoted = not self._quoted
            case b"[" | b"{":
                self._open(mark)
            case b"," if self._depth == self._base:
                self._value.pop()
                yield from self._whole()
            case b"]" | b"}":
                yield from self._close()

    def _open(self, mark: bytes) -> None:
        if self._base is None:
            self._base = int(mark == b"[")
            if self._base:
                self._value.clear()
        self._depth += 1

    def _close(self) -> Iterator[Piece]:
        self._depth -= 1
        if self._depth < 0:
            raise Broken(self._line, "a bracket is closed that was not opened")
        if self._depth == 0 and self._base == 1:
            self._value.pop()
            self._over = True
            yield from self._whole()
        elif self._depth == self._base:
            yield from self._whole()

    def _whole(self) -> Iterator[Piece]:
        if text := bytes(self._value.strip(_BLANK)):
            yield self._begin, text
        self._value.clear()

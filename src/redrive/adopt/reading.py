"""Records out of what people bring: a file of JSON or CSV, or a directory with a file for each item."""

import csv
import os
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from redrive.adopt.keys import is_known
from redrive.adopt.splitting import RECORD_LIMIT, Broken, TooLong, lines, values
from redrive.errors import NotFound, UsageError

CHUNK = 256 * 1024
INDEX = "index.json"
_MARK = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = ",;\t|"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record as it was found, and where."""

    place: str
    value: dict[str, Any]
    size: int
    cells: bool = False  # of a table: every value is a text
    stem: str | None = None  # the name of the file that it fills alone
    workflow: str | None = None  # what the index beside it says


class Bad(msgspec.Struct, frozen=True):
    """What could not be read, where, and why."""

    place: str
    why: str


Found = Iterator[Record | Bad]


def read_path(path: Path) -> Found:
    """The records in a file or a directory."""
    try:
        if path.is_dir():
            yield from _directory(path)
            return
        with path.open("rb") as file:
            yield from read_stream(file)
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else UsageError
        raise kind(f"{error.filename or path} cannot be read: {error.strerror or error}") from None


def read_stream(file: BinaryIO) -> Found:
    """The records in a stream; its first byte that is not blank tells what it is."""
    pieces = _chunks(file)
    head = b""
    for piece in pieces:
        head += piece
        if head.strip() and len(head) > len(_MARK):
            break
    if head.startswith(_WIDE):
        raise UsageError("the file is UTF-16; save it as UTF-8 first")
    head = head.removeprefix(_MARK)
    rest = chain([head], pieces)
    begin = head.lstrip()[:1]
    if begin == b"[" or (begin == b"{" and _is_spread(head.lstrip())):
        yield from _values(rest)
    elif begin == b"{":
        yield from _lines(rest)
    elif begin:
        yield from _table(rest)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _is_spread(head: bytes) -> bool:
    """Whether a value goes on after its first line."""
    line, end, _ = head.partition(b"\n")
    return bool(end) and line.rstrip().endswith((b"{", b"[", b","))


# JSON -----------------------------------------------------------------------------------------------------------------


def _lines(chunks: Iterator[bytes]) -> Found:
    for line in lines(chunks):
        if isinstance(line, TooLong):
            yield Bad(f"line {line.line}", f"it is longer than {RECORD_LIMIT:,} bytes; is it one JSON value?")
        elif line[1].strip():
            yield _of_json(f"line {line[0]}", line[1])


def _values(chunks: Iterator[bytes]) -> Found:
    try:
        for line, text in values(chunks):
            yield _of_json(f"line {line}", text)
    except Broken as broken:
        yield Bad(f"line {broken.line}", f"{broken}; nothing from there on was read")


def _of_json(place: str, text: bytes, **fields: Any) -> Record | Bad:
    value = _decoded(text)
    if isinstance(value, str):
        return Bad(place, value)
    return Record(place=place, value=value, size=len(text), **fields)


def _decoded(text: bytes) -> dict[str, Any] | str:
    """An object, or why it is none."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it is not JSON in UTF-8: {error}"
    except RecursionError:
        return "it is nested too deeply to be read"
    return value if isinstance(value, dict) else "it is not a JSON object"


# CSV ------------------------------------------------------------------------------------------------------------------


def _table(chunks: Iterator[bytes]) -> Found:
    csv.field_size_limit(RECORD_LIMIT)
    texts = _Texts(chunks)
    head = next(iter(texts), "")
    delimiter = max(_DELIMITERS, key=head.count)
    names = _names(head, delimiter)
    rows = csv.reader(texts, delimiter=delimiter, strict=True)
    while True:
        begin = texts.number + 1
        texts.taken = 0
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield Bad(f"line {begin}", f"it is not CSV: {error}")
            continue
        except Broken as broken:
            yield Bad(f"line {begin}", f"{broken}; nothing from there on was read")
            return
        if row is None:
            return
        if any(row):
            yield _of_row(f"line {begin}", names, row)


def _names(head: str, delimiter: str) -> list[str]:
    """The columns that the first line names."""
    try:
        names = [name.strip() for name in next(csv.reader([head], delimiter=delimiter), [])]
    except csv.Error:
        names = []
    if not any(map(is_known, names)):
        raise UsageError(
            "this is neither JSON nor CSV whose first line names columns of failed jobs, such as job_id and last_error"
        )
    return names


def _of_row(place: str, names: list[str], row: list[str]) -> Record | Bad:
    if len(row) > len(names):
        return Bad(place, f"it has {len(row)} cells, and the first line names {len(names)}")
    if not all(map(_is_text, row)):
        return Bad(place, "it is not UTF-8; convert the file first, as with iconv -f latin1 -t utf-8")
    return Record(place=place, value=dict(zip(names, row, strict=False)), size=sum(map(len, row)), cells=True)


def _is_text(cell: str) -> bool:
    """Whether no byte of it had to be escaped."""
    return cell.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in cell)


class _Texts:
    """The lines of a table as text; `number` is the last one that was taken, `taken` what a record has so far."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.number = 0
        self.taken = 0
        self._lines = lines(chunks)

    def __iter__(self) -> "_Texts":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if isinstance(line, TooLong):
            raise Broken(line.line, f"line {line.line} is longer than {RECORD_LIMIT:,} bytes")
        self.number, text = line
        self.taken += len(text)
        if self.taken > RECORD_LIMIT:
            raise Broken(self.number, f"a row is longer than {RECORD_LIMIT:,} bytes; is a quote missing?")
        return text.decode(errors="surrogateescape")


# a directory ----------------------------------------------------------------------------------------------------------


def _directory(path: Path) -> Found:
    """Each file ending in .json of a directory, or of `items` in it; the index says what should be there."""
    folder = path / "items" if (path / "items").is_dir() else path
    index = next((place / INDEX for place in (path, path.parent) if (place / INDEX).is_file()), None)
    workflow: str | None = None
    listed: set[str] = set()
    if index is not None and (index.parent == path or path.name == "items"):
        found = _of_file(index, workflow)
        if isinstance(found, Bad):
            yield found
        else:
            workflow, listed = _told_by(found.value)
    for name in sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".json")):
        if name != INDEX:
            listed.discard(name.removesuffix(".json"))
            yield _of_file(folder / name, workflow)
    for name in sorted(listed):
        yield Bad(INDEX, f"it lists the item {name}, and there is no file {name}.json")


def _told_by(index: dict[str, Any]) -> tuple[str | None, set[str]]:
    """The workflow of an index and the items that it lists."""
    workflow, items = index.get("job_id"), index.get("item_ids")
    return (
        workflow if isinstance(workflow, str) and workflow else None,
        {item for item in items if isinstance(item, str)} if isinstance(items, list) else set(),
    )


def _of_file(path: Path, workflow: str | None) -> Record | Bad:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return Bad(path.name, "it is not a file")
        if status.st_size > RECORD_LIMIT:
            return Bad(path.name, f"it is longer than {RECORD_LIMIT:,} bytes")
        text = path.read_bytes()
    except OSError as error:
        return Bad(path.name, f"it cannot be read: {error.strerror or error}")
    return _of_json(path.name, text.removeprefix(_MARK), stem=path.stem, workflow=workflow)

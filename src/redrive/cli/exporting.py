"""`redrive dlq export`: letters as a stream, for other programs and other places."""

import csv
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec

from redrive.cli.looking import read
from redrive.cli.options import Verb, filter_option, json_option, pass_session
from redrive.cli.output import counted, json_line, say
from redrive.cli.session import Session
from redrive.cli.shapes import of_letter
from redrive.errors import UsageError
from redrive.query.tree import Tree
from redrive.redact import printable, redact
from redrive.triage import meant, whole

Shape = dict[str, Any]
Write = Callable[[Shape], None]

COLUMNS = (
    *("id", "state", "task", "queue", "priority", "reason", "type", "message", "group", "attempts", "epochs"),
    *("first_failed_at", "failed_at", "host", "worker", "release", "workflow", "review", "returns", "rule"),
    *("headers", "payload", "traceback"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@click.command("export", cls=Verb, short_help="Write letters to a file or to stdout.")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@filter_option
@click.option(
    "--format",
    "form",
    metavar="FORM",
    type=click.Choice(["json", "ndjson", "csv"]),
    help="json, ndjson or csv; else what FILE ends in.",
)
@json_option
@click.option("--with-secrets", is_flag=True, help="Write payloads as they are; else what looks secret is masked.")
@pass_session
def command(
    session: Session, file: Path | None, filter: str, form: str | None, as_json: bool, with_secrets: bool
) -> None:
    """Write letters with their payload and every failure as JSON, one JSON object per line, or CSV.

    A file is made whole or not at all, and only you can read it. Without FILE, or with `-`, they go to stdout.
    """
    file = None if file == Path("-") else file
    if as_json and form == "csv":
        raise UsageError("--json and --format csv exclude each other; leave one of them out")
    form = form or ("ndjson" if as_json else _ending(file))
    tree = meant(filter, session.clock.now())
    session.run(_export(session, tree, file, form, with_secrets))


def _ending(file: Path | None) -> str:
    if file is None:
        return "ndjson"
    ending = file.suffix.lstrip(".").lower()
    if ending in ("jsonl", "ndjson"):
        return "ndjson"
    if ending in ("json", "csv"):
        return ending
    raise UsageError(f"{file} does not say by its ending what it is; add --format json, ndjson or csv")


async def _export(session: Session, tree: Tree, file: Path | None, form: str, with_secrets: bool) -> None:
    async with session.opened() as store:
        with _target(file) as stream, _FORMS[form](stream) as write:
            count = 0
            async for letter in whole(store, tree) if file is None else read(store, tree):
                shape = of_letter(letter)
                write(shape if with_secrets else redact(msgspec.to_builtins(shape)))
                count += 1
    if file is not None:
        say(f"wrote {counted(count, 'letter')} to {file}")


@contextmanager
def _target(file: Path | None) -> Iterator[TextIO]:
    """Where to write; a file appears under its name once it is whole."""
    if file is None:
        yield sys.stdout
        return
    named, file = file, file.resolve()  # a link stays a link
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        if named.exists() and not named.is_file():  # a pipe or a device is written as it is, never replaced
            with named.open("w", encoding="utf-8", newline="") as stream:
                yield stream
            return
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            yield stream
        part.replace(file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{named} cannot be written: {error.strerror or error}; name another file") from None
    finally:
        if part.exists():
            part.unlink()


# forms ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _as_lines(stream: TextIO) -> Iterator[Write]:
    def write(shape: Shape) -> None:
        stream.write(f"{json_line(shape, stream)}\n")

    yield write


@contextmanager
def _as_array(stream: TextIO) -> Iterator[Write]:
    """One array, written as it goes."""
    opening = "["

    def write(shape: Shape) -> None:
        nonlocal opening
        stream.write(f"{opening}\n{json_line(shape, stream)}")
        opening = ","

    yield write
    stream.write("[]\n" if opening == "[" else "\n]\n")


@contextmanager
def _as_table(stream: TextIO) -> Iterator[Write]:
    table = csv.writer(stream)
    table.writerow(COLUMNS)

    seen = stream.isatty()

    def write(shape: Shape) -> None:
        cells = [_cell(shape, column) for column in COLUMNS]
        table.writerow([printable(cell, keep_lines=True) for cell in cells] if seen else cells)

    yield write


_FORMS = {"ndjson": _as_lines, "json": _as_array, "csv": _as_table}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _cell(shape: Shape, column: str) -> str:
    """A value as a cell; one that a spreadsheet would take for a formula is quoted."""
    value = (
        shape["failures"][-1].get("traceback") if column == "traceback" and "failures" in shape else shape.get(column)
    )
    if value is None:
        return ""
    text = value if isinstance(value, str) and not (column == "payload" and _is_json(value)) else _json(value)
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def _is_json(text: str) -> bool:
    """Whether a text would be taken for another value when it is read again."""
    if not text:
        return True
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True

"""`redrive dlq edit`: another payload for the job of a letter, by hand, by place or by patch."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from redrive.actor import actor
from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import clean, emit, paint, say, show
from redrive.cli.session import Session
from redrive.cli.story import find_letter
from redrive.edits import FORM, difference, patched, pretty, with_values
from redrive.errors import BadPayload, Outdated, RedriveError, UsageError
from redrive.job import PAYLOAD_LIMIT, decode, encode
from redrive.letter import Letter
from redrive.store import Edit, Store
from redrive.task import Task

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("edit", cls=Verb, short_help="Give the job of a letter another payload.")
@click.argument("id")
@click.option("--set", "settings", metavar="PLACE=VALUE", multiple=True, help=f"A value at a place: {FORM}.")
@click.option("--patch", "patch", metavar="FILE", help="A JSON Patch (RFC 6902); - is stdin.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@json_option
@pass_session
def edit(
    session: Session,
    id: str,
    settings: tuple[str, ...],
    patch: str | None,
    reason: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give the job of an open letter another payload: in your editor, or with --set or --patch.

    With an app (--app, or the project's) it is checked against the task's signature. The original is kept and shown
    by `dlq show`. A value is JSON where it can be read so, else a text.
    """
    if patch is not None and settings:
        raise UsageError("--set and --patch exclude each other; give one of them")
    session.run(_edit(session, id, settings, patch, reason, dry_run, as_json))


async def _edit(
    session: Session, id: str, settings: tuple[str, ...], patch: str | None, reason: str, dry_run: bool, as_json: bool
) -> None:
    async with session.opened() as store:
        letter = await find_letter(store, id)
        before = _payload_of(letter)
        change = _Change(session, store, letter, reason, dry_run, as_json)
        if settings:
            await change.make(before, with_values(before, settings))
        elif patch is not None:
            await change.make(before, patched(before, read_patch(patch)))
        else:
            with _draft(before) as path:
                click.edit(filename=str(path))
                await change.make(before, _written(path))


@dataclass(frozen=True, slots=True)
class _Change:
    """Where another payload goes, and how that is told."""

    session: Session
    store: Store
    letter: Letter
    reason: str
    dry_run: bool
    as_json: bool

    async def make(self, before: Any, after: Any) -> None:
        """Check it, show the difference, write it."""
        letter = self.letter
        app = self.session.app() if self.session.named_app else None
        payload = encode(after, limit=app.config.payload_limit if app else PAYLOAD_LIMIT)
        lines = difference(before, after)
        if lines:
            _check(app.registry.get(letter.task) if app else None, letter, payload)
        if not self.as_json:
            _show(lines)
        changed = bool(lines) and not self.dry_run
        if changed:
            await _write(self.store, letter, payload, self.reason)
        version = letter.payload_version + changed
        if self.as_json:
            emit({"id": letter.id, "payload_version": version, "changed": changed, "difference": lines})
        elif changed:
            say(f"letter {letter.id[-8:]} has payload version {version}")
        else:
            say("nothing was changed" if lines else "the payload is the same; nothing was changed")


def _payload_of(letter: Letter) -> Any:
    if letter.payload is None:
        raise UsageError(f"letter {letter.id[-8:]} is {letter.state} and its job is gone; there is nothing to edit")
    return decode(letter.payload)


def read_patch(file: str) -> Any:
    """The JSON in a file, or on stdin."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; name another file") from None
    try:
        return decode(text)
    except BadPayload:
        raise UsageError(f"{file} holds no JSON; write a JSON Patch into it") from None


@contextmanager
def _draft(before: Any) -> Iterator[Path]:
    """A file to write in; when what was written cannot be used it is kept for another try."""
    if not (sys.stdin.isatty() or os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        raise UsageError("there is no terminal and no $EDITOR; change it with --set or --patch")
    handle, name = tempfile.mkstemp(prefix="redrive-", suffix=".json")
    path = Path(name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(pretty(before))
    try:
        yield path
    except RedriveError:
        say(f"nothing was changed, and what you wrote is still in {path}")
        raise
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _written(path: Path) -> Any:
    try:
        return decode(path.read_bytes())
    except BadPayload:
        raise UsageError("what you wrote is no JSON; correct it, or change single places with --set") from None


def _check(task: Task[..., Any] | None, letter: Letter, payload: bytes) -> None:
    """Whether it fits the task, where that is known."""
    if task is None:
        say(f"not checked against a signature: no app that knows task {letter.task} is named here (--app)")
    else:
        task.bind(payload)


def _show(lines: list[str]) -> None:
    for line in lines:
        show(paint(clean(line), colour=_COLOURS.get(line[:1])))


async def _write(store: Store, letter: Letter, payload: bytes, reason: str) -> None:
    answer = await store.letters.edit([Edit(letter.id, letter.version, payload)], actor(), reason)
    if answer.left:
        raise Outdated(
            f"letter {letter.id[-8:]} was not edited: {answer.left[letter.id]}; look at it again and repeat your edit"
        )

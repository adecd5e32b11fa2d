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
from redrive.cli.operating import detach_option
from redrive.cli.options import Verb, filter_option, json_option, pass_session, yes_option
from redrive.cli.output import emit, say
from redrive.cli.repairing import Asked, read_patch, refuse_contradictions, repaired, show_difference, taken_back
from redrive.cli.session import Session
from redrive.cli.story import find_letter
from redrive.edits import FORM, difference, patched, pretty, with_values
from redrive.errors import BadPayload, Outdated, RedriveError, UsageError
from redrive.job import PAYLOAD_LIMIT, decode, encode
from redrive.letter import Letter
from redrive.store import Edit, Store
from redrive.task import Task


@click.command("edit", cls=Verb, short_help="Give the job of a letter another payload, or thousands of them.")
@click.argument("what", metavar="[WHAT]...", nargs=-1)
@filter_option
@click.option("--all", "every", is_flag=True, help="All open letters.")
@click.option("--set", "settings", metavar="PLACE=VALUE", multiple=True, help=f"A value at a place: {FORM}.")
@click.option("--patch", "patch", metavar="FILE", help="A JSON Patch (RFC 6902); - is stdin.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@click.option("--recipe", metavar="OPERATION", help="The change of an earlier edit.")
@click.option("--undo", metavar="OPERATION", help="Take an edit of many letters back.")
@click.option("--force", is_flag=True, help="Of many: also payloads that do not fit the task.")
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@detach_option
@yes_option
@json_option
@pass_session
def edit(session: Session, /, **given: Any) -> int:
    """Give the job of an open letter another payload: in your editor, or with --set or --patch.

    Several letters, a group (group:3f2a) or those of a filter get the same change: the difference is shown once for
    each kind of it, with how many letters that is; --undo takes it back where nothing has happened since.

    With an app (--app, or the project's) it is checked against the task's signature. The original is kept and shown
    by `dlq show`. A value is JSON where it can be read so, else a text.
    """
    asked = Asked(**given)
    refuse_contradictions(asked)
    if asked.undo is not None:
        return session.run(taken_back(session, asked))
    if asked.is_bulk:
        return session.run(repaired(session, asked))
    [id] = asked.what
    session.run(_edit(session, id, asked.settings, asked.patch, asked.reason, asked.dry_run, asked.as_json))
    return 0


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
            show_difference(lines)
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


async def _write(store: Store, letter: Letter, payload: bytes, reason: str) -> None:
    answer = await store.letters.edit([Edit(letter.id, letter.version, payload)], actor(), reason)
    if answer.left:
        raise Outdated(
            f"letter {letter.id[-8:]} was not edited: {answer.left[letter.id]}; look at it again and repeat your edit"
        )

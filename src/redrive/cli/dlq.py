"""`redrive dlq`: find dead letters, read one, see what they have in common."""

from collections.abc import AsyncIterator

import click

from redrive.cli import (
    analyzing,
    disposing,
    editing,
    exporting,
    importing,
    marking,
    regrouping,
    retrying,
    reviewing,
    ruling,
    stats,
)
from redrive.cli.cause import SHORT, show_group, show_groups
from redrive.cli.events import last_of
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, at_least, filter_option, json_option, pass_session
from redrive.cli.output import Column, counted, emit, say, table
from redrive.cli.repairing import of_recipe, show_recipes
from redrive.cli.session import Session
from redrive.cli.shapes import of_group, of_letter
from redrive.cli.story import find_letter, show_story
from redrive.cli.times import roughly_beside
from redrive.letter import GroupState, Letter
from redrive.query.parsing import saying
from redrive.query.tree import Both, Tree
from redrive.store import Store
from redrive.targets import targets
from redrive.triage import causes, meant, pages

_LIST = (
    Column("ID"),
    Column("FAILED"),
    Column("TASK", shrink=True),
    Column("REASON"),
    Column("TRIES", right=True),
    Column("GROUP"),
    Column("ERROR", shrink=True),
    Column("REVIEW", shrink=True),
)
"""The last one is shown where a letter needs review."""

ENTRIES = 1_000
"""So many entries of the journal are told of one letter."""

limit_option = click.option(
    "--limit", metavar="N", type=at_least(1), default=50, show_default=True, help="At most so many."
)


@click.group("dlq", cls=Group)
def command() -> None:
    """Find dead letters, understand them, edit, end or bring them back.

    A filter that does not speak of the state means open letters.
    """


@command.command("list", cls=Verb)
@filter_option
@limit_option
@json_option
@pass_session
def list_(session: Session, filter: str, limit: int, as_json: bool) -> None:
    """List letters, the last failure first."""
    session.run(_list(session, meant(filter, session.clock.now()), limit, as_json))


@command.command("search", cls=Verb)
@click.argument("text")
@filter_option
@limit_option
@json_option
@pass_session
def search(session: Session, text: str, filter: str, limit: int, as_json: bool) -> None:
    """List letters with this text in the message, the error type or the task, in any case."""
    tree = Both((saying(text), meant(filter, session.clock.now())))
    session.run(_list(session, tree, limit, as_json))


async def _list(session: Session, tree: Tree, limit: int, as_json: bool) -> None:
    async with session.opened() as store:
        if as_json:
            async for letter in _letters(store, tree, limit):
                emit(of_letter(letter))
            return
        now = session.clock.now()
        rows = [_row(letter, now) async for letter in _letters(store, tree, limit + 1)]
        if not rows:
            say(f"there are no such letters in {store.url}")
            return
        held = [cells for cells in rows[:limit] if cells[-1]]
        columns = _LIST if held else _LIST[:-1]
        table(columns, [cells[: len(columns)] for cells in rows[:limit]])
        if len(rows) > limit:
            say(f"these are the last {limit:,}; there are more, and --limit shows them")


async def _letters(store: Store, tree: Tree, limit: int) -> AsyncIterator[Letter]:
    async for page in pages(store, tree, limit):
        for letter in page:
            yield letter


def _row(letter: Letter, now: int) -> list[str]:
    tries = f"{letter.attempts}" if letter.epochs == 1 else f"{letter.attempts}/{letter.epochs}"
    when = roughly_beside(letter.failed_at, now)
    return [
        letter.id[-8:],
        when,
        letter.task,
        letter.reason,
        tries,
        letter.group[:SHORT],
        letter.message or letter.type,
        letter.review or "",
    ]


@command.command("groups", cls=Verb)
@filter_option
@limit_option
@click.option("--muted", is_flag=True, help="Show muted groups too.")
@json_option
@pass_session
def groups(session: Session, filter: str, limit: int, muted: bool, as_json: bool) -> None:
    """Show the causes: letters that failed alike, most of them first; muted ones are only counted."""
    session.run(_show_groups(session, filter, limit, muted, as_json))


async def _show_groups(session: Session, filter: str, limit: int, muted: bool, as_json: bool) -> None:
    now = session.clock.now()
    async with session.opened() as store:
        found = await causes(store, filter, now, limit)
        if as_json:
            for group in found:
                emit(of_group(group))
            return
        shown = [group for group in found if muted or group.state is not GroupState.MUTED]
        if shown:
            show_groups(shown, now)
        if len(shown) < len(found):
            say(f"{counted(len(found) - len(shown), 'muted group')} not shown; --muted shows all")
        elif not found:
            say(f"there are no such letters in {store.url}")


@command.command("show", cls=Verb, short_help="Show the whole story of a letter.")
@click.argument("id")
@click.option("--repro", is_flag=True, help="Print a Python snippet that calls the handler with its payload.")
@json_option
@pass_session
def show_(session: Session, id: str, repro: bool, as_json: bool) -> None:
    """Show a letter: what the job was given, everything that happened to it, and how it failed last.

    `group:3f2a` shows a group instead, with its notes.
    """
    if id.startswith("group:"):
        session.run(_show_group(session, id, as_json))
    else:
        session.run(_show(session, id, repro, as_json))


async def _show_group(session: Session, typed: str, as_json: bool) -> None:
    async with session.opened() as store:
        found = await targets(store, typed, letters=False)
        [group] = await store.letters.named(found.groups[0], 1)
        recipes = await store.operations.recipes(group.fingerprint)
        if as_json:
            emit(of_group(group) | {"recipes": [of_recipe(each) for each in recipes]})
        else:
            show_group(group, session.clock.now())
            show_recipes(group, recipes, session.clock.now())


async def _show(session: Session, id: str, repro: bool, as_json: bool) -> None:
    async with session.opened() as store:
        letter = await find_letter(store, id)
        entries, earlier = await last_of(store, letter.id, ENTRIES)
        if as_json:
            emit(of_letter(letter))
        elif repro:
            from redrive.cli.repro import snippet  # lazily: few ask for it

            click.echo(snippet(letter, session.named_app), nl=False)
        else:
            show_story(letter, entries, session.clock.now())
            if earlier:
                all_of_them = f"redrive events --job {letter.id[-8:]} --limit {earlier + len(entries)}"
                say(f"{counted(earlier, 'earlier entry', 'earlier entries')} left out; `{all_of_them}` has them")


command.add_command(retrying.command)
for verb in (
    marking.assign,
    marking.note,
    marking.mute,
    marking.close,
    editing.edit,
    reviewing.command,
    *disposing.VERBS,
):
    command.add_command(verb)
command.add_command(regrouping.command)
command.add_command(ruling.command)
command.add_command(stats.command)
command.add_command(analyzing.command)
command.add_command(exporting.command)
command.add_command(importing.command)

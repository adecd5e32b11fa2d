"""`redrive dlq`: find dead letters, read one, see what they have in common."""

from collections.abc import AsyncIterator

import click

from redrive.cli import exporting, stats
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import Column, emit, say, table
from redrive.cli.session import Session
from redrive.cli.shapes import of_group, of_letter
from redrive.cli.story import find_letter, show_story
from redrive.cli.times import roughly_beside
from redrive.letter import Group as Cause
from redrive.letter import Letter
from redrive.query.tree import Both, Said, Tree
from redrive.store import Store
from redrive.triage import causes, meant, pages

_LIST = (
    Column("ID"),
    Column("FAILED"),
    Column("TASK", shrink=True),
    Column("REASON"),
    Column("TRIES", right=True),
    Column("GROUP"),
    Column("ERROR", shrink=True),
)
_GROUPS = (
    Column("GROUP"),
    Column("LETTERS", right=True),
    Column("LAST"),
    Column("FIRST"),
    Column("STATE"),
    Column("TASK", shrink=True),
    Column("CAUSE", shrink=True),
)
SHORT = 8
"""So many digits of a group's name are shown; any beginning is understood."""

filter_option = click.option(
    "--filter", "filter", metavar="EXPR", default="", help="Only these, such as 'reason = timeout'."
)
limit_option = click.option(
    "--limit", metavar="N", type=at_least(1), default=50, show_default=True, help="At most so many."
)


@click.group("dlq", cls=Group)
def command() -> None:
    """Find dead letters, read one, see what they have in common.

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
    tree = Both((Said(text), meant(filter, session.clock.now())))
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
        table(_LIST, rows[:limit])
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
    ]


@command.command("groups", cls=Verb)
@filter_option
@limit_option
@json_option
@pass_session
def groups(session: Session, filter: str, limit: int, as_json: bool) -> None:
    """Show the causes: letters that failed alike, most of them first."""
    session.run(_show_groups(session, filter, limit, as_json))


async def _show_groups(session: Session, filter: str, limit: int, as_json: bool) -> None:
    now = session.clock.now()
    async with session.opened() as store:
        found = await causes(store, filter, now, limit)
        if as_json:
            for group in found:
                emit(of_group(group))
        elif found:
            table(_GROUPS, [_group_row(group, now) for group in found])
        else:
            say(f"there are no such letters in {store.url}")


def _group_row(group: Cause, now: int) -> list[str]:
    last, first = roughly_beside(group.last_seen, now), roughly_beside(group.first_seen, now)
    return [group.fingerprint[:SHORT], f"{group.count:,}", last, first, group.state, group.task, group.title]


@command.command("show", cls=Verb, short_help="Show the whole story of a letter.")
@click.argument("id")
@click.option("--repro", is_flag=True, help="Print a Python snippet that calls the handler with its payload.")
@json_option
@pass_session
def show_(session: Session, id: str, repro: bool, as_json: bool) -> None:
    """Show a letter: what the job was given, everything that happened to it, and how it failed last."""
    session.run(_show(session, id, repro, as_json))


async def _show(session: Session, id: str, repro: bool, as_json: bool) -> None:
    async with session.opened() as store:
        letter = await find_letter(store, id)
        entries = await store.journal.events(limit=1_000, job=letter.id)
        if as_json:
            emit(of_letter(letter))
        elif repro:
            from redrive.cli.repro import snippet  # lazily: few ask for it

            click.echo(snippet(letter, session.named_app), nl=False)
        else:
            show_story(letter, entries, session.clock.now())


command.add_command(stats.command)
command.add_command(exporting.command)

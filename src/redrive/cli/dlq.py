"""`redrive dlq`: find dead letters, read one, see what they have in common."""

import click

from redrive.cli.cause import SHORT, show_group, show_groups
from redrive.cli.events import last_of
from redrive.cli.lazy import LazyGroup
from redrive.cli.looking import causes_of, sought
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
from redrive.targets import targets
from redrive.triage import meant

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


VERBS = {
    "Find out what broke": {
        "stats": ("redrive.cli.stats", "Count letters by queue, task, reason and priority."),
        "groups": ("", "Show the causes: letters that failed alike, most of them first."),
        "analyze": ("redrive.cli.analyzing", "See patterns: causes, times, what is new, what failures share."),
        "list": ("", "List letters, the last failure first."),
        "search": ("", "List letters with a text in the message, error type or task."),
        "show": ("", "Show the whole story of a letter, or a group with its notes."),
    },
    "Bring them back": {
        "retry": ("redrive.cli.retrying", "Bring letters back in stages that stop by themselves."),
        "rules": ("redrive.cli.ruling", "List the automatic rules, and how many letters each acts on."),
    },
    "Mend what they hold": {
        "edit": ("redrive.cli.editing:edit", "Give the job of a letter another payload, or thousands of them."),
        "regroup": ("redrive.cli.regrouping", "Apply the rules about causes to what is there."),
    },
    "Look after them": {
        "assign": ("redrive.cli.marking:assign", "Say who looks after groups and letters."),
        "note": ("redrive.cli.marking:note", "Write a note on groups and letters."),
        "review": ("redrive.cli.reviewing", "Hold letters for a person, or say that one has looked."),
        "mute": ("redrive.cli.marking:mute", "Leave groups out of `dlq groups` for a while."),
        "close": ("redrive.cli.marking:close", "Say that the cause of groups is fixed."),
    },
    "End them": {
        "discard": ("redrive.cli.disposing:discard", "End letters whose jobs are not worth doing."),
        "restore": ("redrive.cli.disposing:restore", "Undo a discard."),
        "purge": ("redrive.cli.disposing:purge", "Remove letters for good."),
    },
    "Take them elsewhere": {
        "export": ("redrive.cli.exporting", "Write letters to a file or to stdout."),
        "import": ("redrive.cli.importing", "Take in letters from a file or a directory."),
    },
}
"""Every verb where a person looks for it; those with a module are imported when they are typed."""


@click.group("dlq", cls=LazyGroup, sections=VERBS)
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


@command.command("search", cls=Verb, short_help="List letters with a text in the message, error type or task.")
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
            async for letter in sought(store, tree, limit):
                emit(of_letter(letter))
            return
        now = session.clock.now()
        rows = [_row(letter, now) async for letter in sought(store, tree, limit + 1)]
        if not rows:
            say(f"there are no such letters in {store.url}")
            return
        held = [cells for cells in rows[:limit] if cells[-1]]
        columns = _LIST if held else _LIST[:-1]
        table(columns, [cells[: len(columns)] for cells in rows[:limit]])
        if len(rows) > limit:
            say(f"these are the last {limit:,}; there are more, and --limit shows them")


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


@command.command("groups", cls=Verb, short_help="Show the causes: letters that failed alike, most of them first.")
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
        found = await causes_of(store, filter, now, limit)
        edits = await store.operations.last_edits([group.fingerprint for group in found])
        if as_json:
            for group in found:
                recipe = edits.get(group.fingerprint)
                emit(of_group(group) | ({"recipe": recipe} if recipe else {}))
            return
        shown = [group for group in found if muted or group.state is not GroupState.MUTED]
        if shown:
            show_groups(shown, edits, now)
        if len(shown) < len(found):
            say(f"{counted(len(found) - len(shown), 'muted group')} not shown; --muted shows all")
        elif not found:
            say(f"there are no such letters in {store.url}")


@command.command("show", cls=Verb, short_help="Show the whole story of a letter, or a group with its notes.")
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

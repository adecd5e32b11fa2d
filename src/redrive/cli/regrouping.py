"""`redrive dlq regroup`: the rules about causes, applied to the letters that are there."""

from typing import Any

import click

from redrive.actor import actor
from redrive.cli.asking import confirm
from redrive.cli.cause import SHORT
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.looking import read
from redrive.cli.operating import concluded, detach_option
from redrive.cli.options import Verb, filter_option, json_option, pass_session, yes_option
from redrive.cli.output import Column, counted, emit, say, table
from redrive.cli.session import Session
from redrive.grouping import grouping_from
from redrive.operations import moves, to_regroup
from redrive.query.tree import Tree
from redrive.store import Change

SHOWN = 50
_MOVES = (Column("LETTERS", right=True), Column("FROM"), Column("TO"), Column("CAUSE", shrink=True))

Moves = dict[tuple[str, str], tuple[int, str]]


@click.command("regroup", cls=Verb, short_help="Apply the rules about causes to what is there.")
@filter_option
@click.option("--all", "everything", is_flag=True, help="Every letter but those that are closed.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Only say what would move where.")
@detach_option
@yes_option
@json_option
@pass_session
def command(
    session: Session, filter: str, everything: bool, reason: str, dry_run: bool, detach: bool, yes: bool, as_json: bool
) -> int:
    """Put letters into the groups that `[[fingerprints]]` give them now, and back where a rule was left out.

    What stays where it is is not touched, so that a second time moves nothing.
    """
    tree = to_regroup(filter, session.clock.now(), all=everything)
    return session.run(_regroup(session, tree, filter, reason, dry_run, detach, yes, as_json))


async def _regroup(
    session: Session, tree: Tree, filter: str, reason: str, dry_run: bool, detach: bool, yes: bool, as_json: bool
) -> int:
    config = session.app().config if session.named_app else session.config
    change = Change(rules=config.fingerprints)
    async with session.opened() as store:
        found = await moves(read(store, tree), grouping_from(change.rules))
        n = sum(number for number, _ in found.values())
        if dry_run or not n:
            _tell(found, n, as_json=as_json)
            return 0
        if not as_json:
            _table(found)
        sentence = f"{counted(n, 'letter')} of {store.url} to move by {counted(len(change.rules), 'rule')}"
        if not confirm(sentence, f"Move {counted(n, 'letter')}?", yes=yes):
            say("nothing was changed")
            return EXIT_FAULT
        operation = await store.operations.open("regroup", tree, actor(), reason, filter=filter, change=change)
        return await concluded(session, store, operation, n, detach=detach, as_json=as_json)


def _tell(found: Moves, n: int, *, as_json: bool) -> None:
    if as_json:
        emit({"letters": n, "moves": _of_moves(found)})
        return
    _table(found)
    say(f"{counted(n, 'letter')} would move; nothing was changed" if n else "every letter is in its group already")


def _table(found: Moves) -> None:
    """From where to where, most letters first."""
    rows = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    if rows:
        table(_MOVES, [[f"{n:,}", a[:SHORT], b[:SHORT], title] for (a, b), (n, title) in rows[:SHOWN]])
    if len(rows) > SHOWN:
        say(f"and {len(rows) - SHOWN:,} more; --json --dry-run shows all")


def _of_moves(found: Moves) -> list[dict[str, Any]]:
    rows = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    return [{"group": a, "into": b, "letters": n, "title": title} for (a, b), (n, title) in rows]

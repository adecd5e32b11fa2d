"""`redrive dlq rules`: the automatic rules, and what they would do now."""

from typing import Any

import click

from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import Column, emit, say, table
from redrive.cli.session import Session
from redrive.cli.times import span
from redrive.clock import SECOND
from redrive.rules import Rule, automatic_rules
from redrive.store import OPEN_REDRIVES, Store
from redrive.triage import meant

_COLUMNS = (
    Column("RULE"),
    Column("ACTION"),
    Column("AFTER", right=True),
    Column("LETTERS", right=True),
    Column("DUE", right=True),
    Column("REDRIVE"),
    Column("WHEN", shrink=True),
)


@click.command("rules", cls=Verb, short_help="List the automatic rules, and how many letters each acts on.")
@json_option
@pass_session
def command(session: Session, as_json: bool) -> None:
    """List the automatic rules in their order, how many letters are each one's, and on how many it would act now.

    Nothing is changed: the workers apply the rules. A letter is the first rule's that it fits.
    """
    session.run(_list(session, automatic_rules(session.config), as_json))


async def _list(session: Session, rules: tuple[Rule, ...], as_json: bool) -> None:
    if not rules:
        say("there are no rules; [[rules]] in redrive.toml makes one")
        return
    async with session.opened() as store:
        shapes = [await _shape(store, rule, session.clock.now()) for rule in rules]
    if as_json:
        for shape in shapes:
            emit(shape)
    else:
        table(_COLUMNS, [_row(shape, rule) for shape, rule in zip(shapes, rules, strict=True)])


async def _shape(store: Store, rule: Rule, now: int) -> dict[str, Any]:
    last = next(iter(await store.redrives.find(limit=1, actor=rule.actor)), None)
    return {
        "rule": rule.name,
        "action": rule.action,
        "after": rule.after / SECOND,
        "max_epochs": rule.max_epochs if rule.action == "retry" else None,
        "letters": await store.letters.count(meant(rule.mine, now)),
        "due": await store.letters.count(meant(rule.due, now)),
        "redrive": last.id if last is not None and last.state in OPEN_REDRIVES else None,
        "when": rule.when,
    }


def _row(shape: dict[str, Any], rule: Rule) -> list[str]:
    after = span(rule.after) if rule.after else "at once"
    numbers = [f"{shape['letters']:,}", f"{shape['due']:,}"]
    return [rule.name, rule.action, after, *numbers, (shape["redrive"] or "-")[-8:], rule.when]

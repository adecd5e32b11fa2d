"""`redrive operations`: what was done to many letters at once; carry one on, or end it."""

from collections import Counter

import click

from redrive.actor import actor
from redrive.cli.lazy import Group
from redrive.cli.operating import concluded, find_operation, of_operation, workshop
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import Column, clean, counted, emit, say, show, table
from redrive.cli.session import Session
from redrive.cli.times import at_and_beside, roughly_beside
from redrive.errors import UsageError
from redrive.repair import spoken
from redrive.store import Change, Operation, Part, Store

SHORT = 8
PARTS = 20
_LIST = (
    Column("ID"),
    Column("OPENED"),
    Column("VERB"),
    Column("STATE"),
    Column("DONE", right=True),
    Column("LEFT", right=True),
    Column("BY", shrink=True),
    Column("LETTERS", shrink=True),
)


@click.group("operations", cls=Group)
def command() -> None:
    """See what was done to many letters at once; carry one on, or end it.

    An operation is begun by discard, restore, purge, edit or regroup. Whoever is there carries it on: the command that
    began it, a worker, or `resume`.
    """


@command.command("list", cls=Verb)
@click.option("--limit", metavar="N", type=at_least(1), default=50, show_default=True, help="At most so many.")
@json_option
@pass_session
def list_(session: Session, limit: int, as_json: bool) -> None:
    """List operations, the newest first."""
    session.run(_list(session, limit, as_json))


async def _list(session: Session, limit: int, as_json: bool) -> None:
    async with session.opened() as store:
        found = await store.operations.find(limit=limit)
        if as_json:
            for each in found:
                emit(of_operation(each))
        elif found:
            table(_LIST, [_row(each, session.clock.now()) for each in found])
        else:
            say(f"there are no operations in {store.url}")


def _row(operation: Operation, now: int) -> list[str]:
    left = sum(operation.left.values())
    when = roughly_beside(operation.opened_at, now)
    return [
        operation.id[-8:], when, operation.verb, operation.state, f"{operation.done:,}", f"{left:,}", operation.actor,
        operation.filter or "all",
    ]  # fmt: skip


@command.command("show", cls=Verb, short_help="Show one: which letters, what was done, what was left.")
@click.argument("id")
@json_option
@pass_session
def show_(session: Session, id: str, as_json: bool) -> None:
    """Show an operation: which letters, what was done, what was left and why, which groups."""
    session.run(_show(session, id, as_json))


async def _show(session: Session, id: str, as_json: bool) -> None:
    async with session.opened() as store:
        operation = await find_operation(store, id)
        parts = await store.operations.parts(operation.id)
        if as_json:
            groups = [{"group": each.group, "into": each.into or None, "letters": each.n} for each in parts]
            emit(of_operation(operation) | {"groups": groups})
            return
        _page(operation, parts, session.clock.now())


def _page(operation: Operation, parts: list[Part], now: int) -> None:
    show(f"operation {operation.id[-8:]} {operation.verb} {operation.state}", bold=True)
    show(f"  {clean(operation.actor)} on {at_and_beside(operation.opened_at, now)}")
    show(f"  {'letters':<10}{clean(operation.filter) or 'all'}")
    show(f"  {'reason':<10}{clean(operation.reason) or 'not said'}")
    for line in _change(operation.change):
        show(f"  {'change':<10}{line}")
    show(f"  {'done':<10}{operation.done:,}")
    for why, n in Counter(operation.left).most_common():
        show(f"  {'left':<10}{n:,}: {clean(why)}")
    for part in parts[:PARTS]:
        into = f" to {part.into[:SHORT]}" if part.into else ""
        show(f"  {'group':<10}{part.group[:SHORT]}{into}: {counted(part.n, 'letter')}")
    if len(parts) > PARTS:
        show(f"  {'':<10}and {len(parts) - PARTS:,} more; --json shows all")


def _change(change: Change) -> list[str]:
    """What was done to payloads, a line each."""
    return [*map(clean, spoken(change)), *([f"takes back operation {change.undo[-8:]}"] if change.undo else [])]


@command.command("resume", cls=Verb, short_help="Carry on here what was interrupted.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@json_option
@pass_session
def resume(session: Session, ids: tuple[str, ...], as_json: bool) -> int:
    """Carry operations on here that were interrupted; without an id, all that have not ended."""
    return session.run(_resume(session, ids, as_json))


async def _resume(session: Session, ids: tuple[str, ...], as_json: bool) -> int:
    codes = []
    async with session.opened() as store:
        for operation in await _meant(store, ids):
            if lacked := workshop(session).lacks(operation.change):
                what = f"operation {operation.id[-8:]} checks payloads against task {lacked[0]}"
                raise UsageError(f"{what}; name an app that knows it with --app")
            say(f"{operation.verb} of {clean(operation.filter) or 'all'}, operation {operation.id[-8:]}")
            codes.append(await concluded(session, store, operation, None, detach=False, as_json=as_json))
    if not codes:
        say("there is no operation that has not ended")
    return max(codes, default=0)


async def _meant(store: Store, ids: tuple[str, ...]) -> list[Operation]:
    if not ids:
        return (await store.operations.find(["running"]))[::-1]
    found = [await find_operation(store, id) for id in ids]
    for each in found:
        if each.state != "running":
            raise UsageError(f"operation {each.id[-8:]} is {each.state}; there is nothing to carry on")
    return found


@command.command("cancel", cls=Verb)
@click.argument("id")
@json_option
@pass_session
def cancel(session: Session, id: str, as_json: bool) -> None:
    """End an operation where it is; what it has done stays."""
    session.run(_cancel(session, id, as_json))


async def _cancel(session: Session, id: str, as_json: bool) -> None:
    async with session.opened() as store:
        found = await find_operation(store, id)
        cancelled = await store.operations.cancel(found.id, actor())
        if cancelled is None:
            raise UsageError(f"operation {found.id[-8:]} is {found.state}; it cannot be cancelled")
        if as_json:
            emit(of_operation(cancelled))
        else:
            say(f"operation {cancelled.id[-8:]} is cancelled, after {counted(cancelled.done, 'letter')}")

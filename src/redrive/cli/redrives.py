"""`redrive redrives`: how they stand; pause, resume, cancel one."""

import click

from redrive.cli.driving import SHORT, concluded, driven, of_run, reshaper, summary, warned, watched
from redrive.cli.finding import digits_of
from redrive.cli.holding import tell_waiting
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import Column, clean, emit, say, show, table
from redrive.cli.session import Session, actor
from redrive.cli.times import at_and_beside, roughly_beside
from redrive.cli.wishes import otherwise, pace_asked
from redrive.clock import iso
from redrive.errors import NotFound, UsageError
from redrive.redrives import Run, report
from redrive.serving import tasks_of
from redrive.store import Item, ItemState, Redrive, RedriveState, Store
from redrive.waiting import sentence

KNOWN = 10_000
PAGE = 500
TRIES = 20
_LIST = (
    Column("ID"),
    Column("OPENED"),
    Column("STATE"),
    Column("LETTERS", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("SKIPPED", right=True),
    Column("LEFT", right=True),
    Column("BY", shrink=True),
    Column("REASON", shrink=True),
)
# As each letter is called in its log; `left` and `running` as the report calls them.
_SORTS: dict[str, tuple[ItemState, ...]] = {
    "all": (),
    "pending": ("pending",),
    "left": ("pending",),
    "released": ("released",),
    "running": ("released",),
    "succeeded": ("succeeded",),
    "failed": ("recurred", "otherwise"),
    "skipped": ("skipped", "discarded"),
}


@click.group("redrives", cls=Group)
def command() -> None:
    """See how redrives stand; pause, resume or cancel one."""


@command.command("list", cls=Verb, short_help="List redrives, the newest first: who, why, and how it went.")
@click.option("--limit", metavar="N", type=at_least(1), default=50, show_default=True, help="At most so many.")
@json_option
@pass_session
def list_(session: Session, limit: int, as_json: bool) -> None:
    """List redrives, the newest first: who brought back what, why, and how it went."""
    session.run(_list(session, limit, as_json))


async def _list(session: Session, limit: int, as_json: bool) -> None:
    async with session.opened() as store:
        runs = [await report(store, session.clock, each.id) for each in await store.redrives.find(limit=limit)]
        if as_json:
            for run in runs:
                emit(of_run(run))
        elif runs:
            table(_LIST, [_row(run, session.clock.now()) for run in runs])
        else:
            say(f"there are no redrives in {store.url}; `redrive dlq retry` makes one")


def _row(run: Run, now: int) -> list[str]:
    numbers = (run.total_items, run.successful, run.failed, run.skipped, run.left)
    redrive, when = run.redrive, roughly_beside(run.redrive.opened_at, now)
    why = "; ".join(filter(None, [sentence(redrive) if run.state == "waiting" else "", redrive.reason]))
    return [run.id[-8:], when, run.state, *(f"{n:,}" for n in numbers), redrive.actor, why]


@command.command("show", cls=Verb, short_help="Show one: its numbers, its stages, what failed.")
@click.argument("id")
@click.option("--items", type=click.Choice(list(_SORTS)), help="Print its letters instead, one for each line.")
@json_option
@pass_session
def show_(session: Session, id: str, items: str | None, as_json: bool) -> None:
    """Show how a redrive stands or ended: numbers, stages, stopped groups, error patterns."""
    session.run(_show(session, id, items, as_json))


async def _show(session: Session, id: str, items: str | None, as_json: bool) -> None:
    async with session.opened() as store:
        redrive = await find_redrive(store, id)
        if items is not None:
            await _items(store, redrive, _SORTS[items], as_json)
            return
        run = await report(store, session.clock, redrive.id)
        if as_json:
            emit(of_run(run))
            return
        show(f"{redrive.actor} on {at_and_beside(redrive.opened_at, session.clock.now())}")
        show(f"  {'filter':<13} {redrive.plan.filter or 'every open letter'}")
        show(f"  {'reason':<13} {redrive.reason or 'not said'}")
        for name, words in (*otherwise(redrive.plan), *pace_asked(redrive.plan)):
            show(f"  {name.replace('_', ' '):<13} {clean(words)}")
        if redrive.plan.when_release is not None:
            show(f"  {'when release':<13} {clean(redrive.plan.when_release)}")
        summary(run)


async def _items(store: Store, redrive: Redrive, states: tuple[ItemState, ...], as_json: bool) -> None:
    """Its letters as a stream."""
    after: str | None = None
    while page := await store.redrives.items(redrive.id, states, after, PAGE):
        for item in page:
            if as_json:
                emit(_of_item(item))
            else:
                why = item.why[:SHORT] if item.state == "otherwise" else "" if item.state == "recurred" else item.why
                stage = f"stage {item.stage}" if item.stage else ""
                show(f"{item.id}  {item.state:<9}  {stage:<9} {item.cause[:SHORT]}  {why}".rstrip())
        after = page[-1].id


def _of_item(item: Item) -> dict[str, object]:
    return {
        "id": item.id,
        "state": item.state,
        "group": item.cause,
        "stage": item.stage or None,
        "why": item.why or None,
        "at": iso(item.at),
    }


@command.command("watch", cls=Verb, short_help="Watch one until it ends.")
@click.argument("id")
@json_option
@pass_session
def watch(session: Session, id: str, as_json: bool) -> int:
    """Show how a redrive goes until it ends or is paused, and then its summary; whoever drives it."""
    return session.run(_watch(session, id, as_json))


async def _watch(session: Session, id: str, as_json: bool) -> int:
    async with session.opened() as store:
        redrive = await find_redrive(store, id)
        tell_waiting(redrive)
        return concluded(await watched(store, session.clock, redrive.id), as_json=as_json)


@command.command("pause", cls=Verb, short_help="Release nothing more until it is resumed.")
@click.argument("id")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@json_option
@pass_session
def pause(session: Session, id: str, reason: str, as_json: bool) -> None:
    """Release nothing more until it is resumed; what is released runs on."""
    session.run(_steer(session, id, "paused", reason, as_json))


@command.command("cancel", cls=Verb, short_help="End it; the letters that are left stay dead.")
@click.argument("id")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@json_option
@pass_session
def cancel(session: Session, id: str, reason: str, as_json: bool) -> None:
    """End it: what is released runs on, the others stay dead and untouched."""
    session.run(_steer(session, id, "cancelled", reason, as_json))


async def _steer(session: Session, id: str, state: RedriveState, reason: str, as_json: bool) -> None:
    async with session.opened() as store:
        redrive = await changed(store, await find_redrive(store, id), state, reason)
        if as_json:
            emit(of_run(await report(store, session.clock, redrive.id)))
        else:
            say(f"redrive {redrive.id[-8:]} is {redrive.state}")


@command.command("resume", cls=Verb, short_help="Go on with one that was paused or left alone.")
@click.argument("id")
@click.option("--detach", is_flag=True, help="Leave it to the workers.")
@json_option
@pass_session
def resume(session: Session, id: str, detach: bool, as_json: bool) -> int:
    """Go on with a redrive that was paused, or whose driver has died, and show how it goes."""
    return session.run(_resume(session, id, detach, as_json))


async def _resume(session: Session, id: str, detach: bool, as_json: bool) -> int:
    async with session.opened() as store:
        redrive = await going(store, id)
        tell_waiting(redrive)
        now = session.clock.now()
        await warned(store, redrive.plan, await tasks_of(store, redrive.plan, now), now)
        if not detach:
            return concluded(
                await driven(store, session.clock, redrive.id, reshaper(session, redrive.plan)), as_json=as_json
            )
        if as_json:
            emit(of_run(await report(store, session.clock, redrive.id)))
        else:
            say(f"redrive {redrive.id[-8:]} is {redrive.state}, and left to the workers")
        return 0


async def going(store: Store, typed: str) -> Redrive:
    """One that goes on, resumed if it was paused."""
    redrive = await find_redrive(store, typed)
    if redrive.state in ("freezing", "waiting", "running"):
        return redrive
    return await changed(store, redrive, "running", "")


async def changed(store: Store, redrive: Redrive, state: RedriveState, why: str) -> Redrive:
    """Another state, although others may change it at the same time; one sentence when it cannot become that."""
    for _ in range(TRIES):
        after = await store.redrives.change(redrive.id, redrive.version, state, actor(), why)
        if after is not None:
            return after
        fresh = await store.redrives.get(redrive.id)
        if fresh is None or fresh.version == redrive.version:
            break
        redrive = fresh
    word = {"paused": "paused", "cancelled": "cancelled"}.get(state, "resumed")
    raise UsageError(f"redrive {redrive.id[-8:]} is {redrive.state} and cannot be {word}")


async def find_redrive(store: Store, typed: str) -> Redrive:
    """The one redrive whose id ends like this."""
    digits = digits_of(typed)
    found = [each for each in await store.redrives.find(limit=KNOWN) if each.id.replace("-", "").endswith(digits)]
    if not found:
        raise NotFound(f"no redrive ends with {typed}; `redrive redrives list` shows the last ones")
    if len(found) > 1:
        raise UsageError(f"several redrives end with {typed}; type more of the id")
    return found[0]

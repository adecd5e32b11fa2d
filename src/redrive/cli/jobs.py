"""`redrive jobs`: list them, see one with its history, cancel some."""

from collections.abc import AsyncIterator
from typing import Any

import click
import msgspec

from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.finding import find_job
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import Column, emit, say, table
from redrive.cli.page import show_page
from redrive.cli.session import Session, actor
from redrive.cli.shapes import of_listed, of_record
from redrive.cli.times import roughly_beside
from redrive.cli.why import Scene, why
from redrive.errors import NotFound
from redrive.job import State
from redrive.store import Depth, JobQuery, Listed, Record, Store

PAGE = 500
_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("TASK", shrink=True),
    Column("QUEUE", shrink=True),
    Column("TRIES", right=True),
    Column("WHEN"),
    Column("ERROR", shrink=True),
)


@click.group("jobs", cls=Group)
def command() -> None:
    """List jobs, see why one does not run, cancel it.

    An id may be typed as its last digits, as many as make it the only one.
    """


@command.command("list", cls=Verb)
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    type=click.Choice([state.value for state in State]),
    help="In this state: scheduled, ready, leased, done, dead or discarded; may be given more than once.",
)
@click.option("--queue", metavar="NAME", help="Of this queue.")
@click.option("--task", metavar="NAME", help="Of this task.")
@click.option("--limit", metavar="N", type=at_least(1), default=50, show_default=True, help="At most so many.")
@json_option
@pass_session
def list_(
    session: Session, states: tuple[str, ...], queue: str | None, task: str | None, limit: int, as_json: bool
) -> None:
    """List jobs, newest first."""
    query = JobQuery(states=tuple(State(state) for state in states), queue=queue, task=task, limit=limit)
    session.run(_list(session, query, as_json))


async def _list(session: Session, query: JobQuery, as_json: bool) -> None:
    async with session.opened() as store:
        if as_json:
            async for row in _pages(store, query):
                emit(of_listed(row))
            return
        now = session.clock.now()
        rows = [_row(row, now) async for row in _pages(store, query)]
        if rows:
            table(_COLUMNS, rows)
        else:
            say(f"there are no such jobs in {store.url}")
        if len(rows) == query.limit:
            say(f"these are the newest {len(rows)}; --limit shows more")


async def _pages(store: Store, query: JobQuery) -> AsyncIterator[Listed]:
    """A long list in pages, so that memory does not grow with it."""
    left = query.limit
    while left > 0:
        page = await store.jobs.find(msgspec.structs.replace(query, limit=min(PAGE, left)))
        for row in page:
            yield row
        left -= PAGE
        if len(page) < PAGE:
            return
        query = msgspec.structs.replace(query, before=page[-1].id)


def _row(row: Listed, now: int) -> list[str]:
    when = "" if row.state is State.LEASED or not row.at else roughly_beside(row.at, now)
    return [row.id[-8:], row.state, row.task, row.queue, str(row.attempts), when, row.error or ""]


@command.command("show", cls=Verb, short_help="Show everything about a job, and why it is not running.")
@click.argument("id")
@json_option
@pass_session
def show_(session: Session, id: str, as_json: bool) -> None:
    """Show everything about a job: why it is not running, its payload, failures and result."""
    session.run(_show(session, id, as_json))


async def _show(session: Session, id: str, as_json: bool) -> None:
    async with session.opened() as store:
        found = await find_job(store, id)
        record = await store.jobs.get(found)
        if record is None:
            raise NotFound(f"job {found} was forgotten while it was looked for; its time was over")
        scene = await _scene(session, store, record)
        reasons = why(record, scene)
        if as_json:
            emit({"why": reasons, **of_record(record)})
        else:
            show_page(record, reasons, scene.now)


async def _scene(session: Session, store: Store, record: Record) -> Scene:
    queue = record.job.queue if record.job else ""
    depths = await store.jobs.depth([queue]) if queue else []
    return Scene(
        now=session.clock.now(),
        gates=await store.jobs.gates(),
        workers=await store.workers.find(),
        depth=depths[0] if depths else Depth(queue=queue),
        grace=session.config.unknown_task_grace,
    )


@command.command("cancel", cls=Verb, short_help="Discard jobs that have not ended.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@pass_session
def cancel(session: Session, ids: tuple[str, ...], as_json: bool) -> int:
    """Discard jobs that have not ended, with reason `cancelled`; a running handler is stopped at its next heartbeat."""
    return session.run(_cancel(session, ids, as_json))


async def _cancel(session: Session, typed: tuple[str, ...], as_json: bool) -> int:
    async with session.opened() as store:
        ids = list(dict.fromkeys([await find_job(store, each) for each in typed]))
        cancelled = set(await store.jobs.cancel(ids, actor()))
        for id in ids:
            state = "discarded" if id in cancelled else await _state(store, id)
            if as_json:
                emit({"id": id, "cancelled": id in cancelled, "state": state})
            elif id in cancelled:
                click.echo(f"cancelled {id}")
            if id not in cancelled:
                say(f"job {id[-8:]} has ended already, it is {state}; there is nothing to cancel")
    return _code(len(cancelled), len(ids))


async def _state(store: Store, id: str) -> Any:
    record = await store.jobs.get(id)
    return record.job.state if record and record.job else State.DONE


def _code(done: int, wanted: int) -> int:
    if done == wanted:
        return 0
    return EXIT_PARTLY if done else EXIT_FAULT

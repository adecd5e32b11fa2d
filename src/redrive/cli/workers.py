"""`redrive workers`: who runs jobs, and having them leave."""

import click

from redrive.cli.asking import confirm
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.finding import find_worker
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, json_option, pass_session, yes_option
from redrive.cli.output import Column, counted, emit, say, table
from redrive.cli.session import Session, actor
from redrive.cli.shapes import of_worker
from redrive.cli.times import roughly, roughly_beside
from redrive.errors import NotFound, UsageError
from redrive.store import Store, Worker

_COLUMNS = (
    Column("WORKER"),
    Column("STATE"),
    Column("BUSY", right=True),
    Column("QUEUES", shrink=True),
    Column("TASKS", right=True),
    Column("RELEASE", shrink=True),
    Column("UP", right=True),
    Column("SEEN", shrink=True),
)


@click.group("workers", cls=Group)
def command() -> None:
    """See who runs jobs, and have them leave."""


@command.command("list", cls=Verb, short_help="List the workers.")
@json_option
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List the workers that live, and those that are gone and still hold jobs; each as it was when it was last seen."""
    session.run(_list(session, as_json))


async def _list(session: Session, as_json: bool) -> None:
    async with session.opened() as store:
        workers = sorted(await store.workers.find(), key=lambda worker: (worker.started_at, worker.id))
        if as_json:
            for worker in workers:
                emit(of_worker(worker))
        elif workers:
            now = session.clock.now()
            table(_COLUMNS, [_row(worker, now) for worker in workers])
        else:
            say(f"no worker runs on {store.url}; start one with `redrive worker`")


def _row(worker: Worker, now: int) -> list[str]:
    stuck = f" ({worker.stuck} stuck)" if worker.stuck else ""
    return [
        worker.id,
        of_worker(worker)["state"],
        f"{len(worker.running)}/{worker.slots}{stuck}",
        ", ".join(worker.queues) or "all",
        str(len(worker.tasks)),
        worker.release or "",
        roughly(max(0, now - worker.started_at)),
        roughly_beside(worker.beat_at, now),
    ]


@command.command("drain", cls=Verb, short_help="Have workers finish what they run and end.")
@click.argument("ids", metavar="[WORKER...]", nargs=-1)
@click.option("--all", "everybody", is_flag=True, help="Every worker there is.")
@yes_option
@json_option
@pass_session
def drain(session: Session, ids: tuple[str, ...], everybody: bool, yes: bool, as_json: bool) -> int:
    """Have workers finish what they run and end; they learn of it with their next beat. A part of an id is enough."""
    if bool(ids) == everybody:
        raise UsageError("name the workers to drain, or all of them with --all; `redrive workers list` shows them")
    return session.run(_drain(session, ids, yes, as_json))


async def _drain(session: Session, ids: tuple[str, ...], yes: bool, as_json: bool) -> int:
    async with session.opened() as store:
        workers = await store.workers.find()
        chosen = [find_worker(workers, typed) for typed in ids] or workers
        what = f"{counted(len(chosen), 'worker')} on {store.url}"
        if not ids and chosen and not confirm(what, f"Drain all {len(chosen)}?", yes=yes):
            say("nothing was changed")
            return EXIT_FAULT
        for worker in chosen:
            await _tell(store, worker, as_json)
        if not chosen:
            say(f"no worker runs on {store.url}")
    return 0


async def _tell(store: Store, worker: Worker, as_json: bool) -> None:
    if not await store.workers.tell(worker.id, "drain", actor()):
        raise NotFound(f"worker {worker.id} has left in the meantime; `redrive workers list` shows who is there")
    if as_json:
        emit({"id": worker.id, "order": "drain"})
    else:
        say(f"worker {worker.id} was told to drain; {counted(len(worker.running), 'job')} still running there")

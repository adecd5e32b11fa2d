"""`redrive queues`: how deep they are; pause, resume, limit, move and purge them."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import click
import msgspec

from redrive.cli.asking import confirm
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.lazy import Group
from redrive.cli.options import Verb, json_option, pass_session, yes_option
from redrive.cli.output import Column, counted, emit, say, table
from redrive.cli.session import Session, actor
from redrive.cli.shapes import of_queue, paused_by
from redrive.cli.times import read_end, roughly, roughly_beside
from redrive.errors import NotFound, UsageError
from redrive.store import Depth, Gate, Store, Worker

CHUNK = 1_000
_COLUMNS = (
    Column("QUEUE", shrink=True),
    Column("READY", right=True),
    Column("LATER", right=True),
    Column("RUNNING", right=True),
    Column("DEAD", right=True),
    Column("OLDEST", right=True),
    Column("WORKERS", right=True),
    Column("STATE", shrink=True),
)


@click.group("queues", cls=Group)
def command() -> None:
    """See how deep queues are; pause, limit, move or purge them."""


@command.command("list", cls=Verb, short_help="List queues and how deep they are.")
@json_option
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List queues: jobs ready, scheduled for later, running and dead, the age of the oldest ready one, workers."""
    session.run(_list(session, as_json))


async def _list(session: Session, as_json: bool) -> None:
    async with session.opened() as store:
        now = session.clock.now()
        gates = await _gates(store)
        workers = await store.workers.find()
        depths = _all_queues(await store.jobs.depth(), gates, workers)
        if as_json:
            for depth in depths:
                emit(of_queue(depth, gates.get(depth.queue), _serving(workers, depth.queue), now))
        elif depths:
            table(_COLUMNS, [_row(depth, gates.get(depth.queue), workers, now) for depth in depths])
        else:
            say(f"there are no queues yet in {store.url}; the first job makes one")


def _all_queues(depths: list[Depth], gates: dict[str, Gate], workers: list[Worker]) -> list[Depth]:
    """Those with jobs, and those that somebody has named."""
    known = {depth.queue: depth for depth in depths}
    for queue in (*gates, *(queue for worker in workers for queue in worker.queues)):
        known.setdefault(queue, Depth(queue=queue))
    return [known[queue] for queue in sorted(known)]


def _serving(workers: list[Worker], queue: str) -> int:
    return sum(not worker.queues or queue in worker.queues for worker in workers)


def _row(depth: Depth, gate: Gate | None, workers: list[Worker], now: int) -> list[str]:
    oldest = "" if depth.oldest_ready is None else roughly(max(0, now - depth.oldest_ready))
    numbers = (depth.ready, depth.scheduled, depth.leased, depth.dead)
    return [depth.queue, *map(str, numbers), oldest, str(_serving(workers, depth.queue)), _state(gate, now)]


def _state(gate: Gate | None, now: int) -> str:
    said = ["open"]
    if (paused := paused_by(gate, now)) is not None:
        until = f", opens {roughly_beside(paused.until, now)}" if paused.until else ""
        said = [f"paused{until}{f': {paused.reason}' if paused.reason else ''}"]
    if gate is not None and gate.depth_limit is not None:
        said.append(f"limit {counted(gate.depth_limit, 'job')}")
    return "; ".join(said)


# --- gates ------------------------------------------------------------------------------------------------------------


@command.command("pause", cls=Verb, short_help="Have workers start nothing more of queues.")
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@click.option("--for", "length", metavar="TIME", help="Open again after this long: 10m, 2h.")
@click.option("--until", metavar="TIME", help="Open again at this time: 2026-01-31T14:30, local or with a zone.")
@click.option("--reason", metavar="TEXT", help="Why, for those who will ask.")
@json_option
@pass_session
def pause(
    session: Session, queues: tuple[str, ...], length: str | None, until: str | None, reason: str | None, as_json: bool
) -> None:
    """Have workers start nothing more of these queues; what runs goes on, and jobs are still accepted."""
    end = read_end(until, length, session.clock.now())
    session.run(_set(session, queues, as_json, {"state": "closed", "until": end, "reason": reason}))


@command.command("resume", cls=Verb, short_help="Have workers start jobs of queues again.")
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@json_option
@pass_session
def resume(session: Session, queues: tuple[str, ...], as_json: bool) -> None:
    """Have workers start jobs of these queues again."""
    session.run(_set(session, queues, as_json, {"state": "open", "until": None, "reason": None}))


@command.command("limit", cls=Verb, short_help="Refuse new jobs while so many wait.")
@click.argument("queue")
@click.argument("jobs", metavar="JOBS|none")
@json_option
@pass_session
def limit(session: Session, queue: str, jobs: str, as_json: bool) -> None:
    """Refuse new jobs of a queue while so many wait in it; `none` lifts the limit."""
    if jobs != "none" and not (jobs.isdecimal() and int(jobs) > 0):
        raise UsageError(f"{jobs!r} is not a limit; write how many jobs may wait, from 1, or none")
    session.run(_set(session, (queue,), as_json, {"depth_limit": None if jobs == "none" else int(jobs)}))


async def _set(session: Session, queues: tuple[str, ...], as_json: bool, change: dict[str, object]) -> None:
    """Change one thing of each gate and leave the others as they are."""
    async with session.opened(make=True) as store:
        before = await _gates(store)
        known = {depth.queue for depth in await _every(store, before)}
        for queue in queues:
            gate = msgspec.structs.replace(before.get(queue) or Gate(kind="queue", key=queue), **change)
            gate = await store.jobs.gate(gate, actor())
            if as_json:
                emit(of_queue(await _depth(store, queue), gate, 0, session.clock.now()) | {"workers": None})
            else:
                say(f"queue {queue} is {_state(gate, session.clock.now())}")
            if queue not in known:
                say(f"nobody has used a queue {queue} so far; `redrive queues list` shows the ones there are")


async def _depth(store: Store, queue: str) -> Depth:
    return next(iter(await store.jobs.depth([queue])), Depth(queue=queue))


async def _gates(store: Store) -> dict[str, Gate]:
    return {gate.key: gate for gate in await store.jobs.gates() if gate.kind == "queue"}


async def _every(store: Store, gates: dict[str, Gate]) -> list[Depth]:
    return _all_queues(await store.jobs.depth(), gates, await store.workers.find())


# --- in bulk ----------------------------------------------------------------------------------------------------------


@command.command("purge", cls=Verb, short_help="Discard every waiting job of a queue.")
@click.argument("queue")
@yes_option
@json_option
@pass_session
def purge(session: Session, queue: str, yes: bool, as_json: bool) -> int:
    """Discard every waiting job of a queue, with reason `purged`; what runs is left alone."""

    async def chunk(store: Store) -> int:
        return await store.jobs.purge(queue, actor(), CHUNK)

    return session.run(_bulk(session, queue, Act("discard", "discarded"), chunk, yes=yes, as_json=as_json))


@command.command("move", cls=Verb, short_help="Move every waiting job to another queue.")
@click.argument("queue", metavar="FROM")
@click.argument("to", metavar="TO")
@yes_option
@json_option
@pass_session
def move(session: Session, queue: str, to: str, yes: bool, as_json: bool) -> int:
    """Move every waiting job of a queue to another one."""
    if queue == to:
        raise UsageError(f"{queue} is where the jobs are; name another queue to move them to")

    async def chunk(store: Store) -> int:
        return await store.jobs.move(queue, to, actor(), CHUNK)

    return session.run(_bulk(session, queue, Act("move", "moved", f" to {to}"), chunk, yes=yes, as_json=as_json))


class Act(NamedTuple):
    """What is done to many jobs, in words."""

    verb: str
    done: str
    where: str = ""


async def _bulk(
    session: Session,
    queue: str,
    act: Act,
    chunk: Callable[[Store], Awaitable[int]],
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """Say how many, ask, and do it in chunks, so that no transaction grows with the queue."""
    async with session.opened() as store:
        depth = next((one for one in await _every(store, await _gates(store)) if one.queue == queue), None)
        if depth is None:
            raise NotFound(f"there is no queue {queue} in {store.url}; `redrive queues list` shows those there are")
        waiting = depth.ready + depth.scheduled
        jobs = counted(waiting, "job")
        what = f"queue {queue} of {store.url} has {jobs} to {act.verb}{act.where} ({depth.ready:,} ready)"
        if waiting and not confirm(what, f"{act.verb.capitalize()} {jobs}{act.where}?", yes=yes):
            say("nothing was changed")
            return EXIT_FAULT
        total = 0
        try:
            while waiting and (changed := await chunk(store)):
                total += changed
        finally:  # also when it is interrupted: each chunk is whole
            if as_json:
                emit({"queue": queue, "jobs": total})
            else:
                say(f"{act.done} {counted(total, 'job')} of queue {queue}{act.where}")
    return 0

"""`redrive events`: what happened, off the happy path."""

import asyncio
from collections import deque

import click

from redrive.cli.finding import find_job
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import clean, cut, emit, say, show, width
from redrive.cli.session import Session
from redrive.cli.shapes import of_entry
from redrive.clock import iso
from redrive.store import Entry, Store

PAGE = 1_000
LOOK = 0.5
"""Seconds between two looks for new entries."""


@click.command("events", cls=Verb)
@click.option("--job", "id", metavar="ID", help="Only of this job.")
@click.option("--limit", metavar="N", type=at_least(0), default=50, show_default=True, help="The last so many.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on, until Ctrl-C.")
@json_option
@pass_session
def command(session: Session, id: str | None, limit: int, follow: bool, as_json: bool) -> None:
    """Read what happened: retries, burials, losses, acts of people; newest last.

    A success leaves no entry unless `journal = "all"` is set.
    """
    session.run(_events(session, id, limit, follow, as_json))


async def _events(session: Session, id: str | None, limit: int, follow: bool, as_json: bool) -> None:
    async with session.opened() as store:
        job = await find_job(store, id) if id else None
        after = await _newest(store)
        entries = (await last_of(store, job, limit))[0] if job else await _latest(store, limit)
        for entry in entries:
            _print(entry, as_json)
        if follow:
            await _follow(store, max([after, *(entry.seq for entry in entries)]), job, as_json)
        elif not entries and not as_json:
            say(f"nothing has happened off the happy path {'with this job' if job else f'in {store.url}'}")


async def _newest(store: Store) -> int:
    return max((entry.seq for entry in await store.journal.latest(1)), default=0)


async def _latest(store: Store, limit: int) -> list[Entry]:
    return await store.journal.latest(limit) if limit else []


async def last_of(store: Store, job: str, limit: int) -> tuple[list[Entry], int]:
    """The last entries of a job, oldest first, and how many there are before them; no more are held than those."""
    kept: deque[Entry] = deque(maxlen=limit)
    after = seen = 0
    while page := await store.journal.events(after, PAGE, job):
        kept.extend(page)
        after, seen = page[-1].seq, seen + len(page)
    return list(kept), seen - len(kept)


async def _follow(store: Store, after: int, job: str | None, as_json: bool) -> None:
    while True:
        for entry in await store.journal.events(after, PAGE, job):
            _print(entry, as_json)
            after = entry.seq
        await asyncio.sleep(LOOK)


def _print(entry: Entry, as_json: bool) -> None:
    if as_json:
        emit(of_entry(entry))
        return
    subject = f"{entry.job[-8:]} {entry.task or ''}" if entry.job else (entry.queue or entry.worker or "")
    attempt = f" (attempt {entry.attempt})" if entry.attempt else ""
    reason = f" {entry.reason}:" if entry.reason and entry.text else f" {entry.reason or ''}"
    by = f" by {entry.actor}" if entry.actor else ""
    line = f"{iso(entry.at)} {entry.event} {subject}{attempt}{reason} {entry.text or ''}{by}"
    show(_fitted(clean(" ".join(line.split()))))


def _fitted(line: str) -> str:
    """A terminal shows one line for each entry; a file gets all of it."""
    import sys

    return cut(line, max(40, width())) if sys.stdout.isatty() else line

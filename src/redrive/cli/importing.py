"""`redrive dlq import`: letters out of what other places have kept, each once; what is wrong is said and skipped."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from redrive.adopt.letters import Fault, NotDead, Wanted, letter_of
from redrive.adopt.reading import Bad, Found, Record, read_path, read_stream
from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import counted, emit, say
from redrive.cli.session import Session, actor, path_of
from redrive.errors import NotFound, UsageError
from redrive.redact import MASK
from redrive.store import Accepted, Foreign, Store

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
TOLD = 20
"""So many records that were skipped are named; --json names them all."""

_MASKED = f'"{MASK}"'.encode()


@click.command("import", cls=Verb, short_help="Take in letters from a file or a directory.")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--task", metavar="NAME", help="The task of records that name none, such as those of a directory.")
@click.option("--queue", metavar="NAME", help="Put all of them into this queue; else the one that a record names.")
@click.option("--map", "names", metavar="OLD=NEW", multiple=True, help="Another name for a task; may be given often.")
@click.option("--dry-run", is_flag=True, help="Say what would be taken in, and change nothing.")
@json_option
@pass_session
def command(
    session: Session,
    source: Path,
    task: str | None,
    queue: str | None,
    names: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Take in failed jobs as dead letters, with their payload and every failure that is known.

    SOURCE is what `dlq export` wrote, a directory with a JSON file for each item, rows of failed jobs as CSV or JSON,
    or - for stdin. What is there already stays as it is, so importing twice changes nothing. A record that cannot be
    read is named and skipped: the code is 3 then, and 1 when there was no other.
    """
    if str(source) != "-" and not source.exists():
        raise NotFound(f"there is no {source}; name a file, a directory, or - for stdin")
    wanted = Wanted(
        now=session.clock.now(),
        payload_limit=session.config.payload_limit,
        task=task,
        queue=queue,
        names=dict(map(_renamed, names)),
    )
    importing = Importing(source, wanted, as_json=as_json)
    return session.run(importing.rehearse(session) if dry_run else importing.run(session))


def _renamed(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals or not new:
        raise UsageError(f"--map {text!r} does not rename a task; write old=new")
    return old, new


class Importing:
    """One run of `dlq import`: what it came to so far."""

    def __init__(self, source: Path, wanted: Wanted, *, as_json: bool) -> None:
        self._source = source
        self._wanted = wanted
        self._as_json = as_json
        self._taken = 0
        self._there = 0
        self._skipped = 0
        self._masked = 0
        self._living: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()

    async def run(self, session: Session) -> int:
        """Take everything in, a batch at a time; whatever ends it, say how far it came."""
        async with session.opened(make=True) as store:
            try:
                for letters in self._batches():
                    answers = await store.letters.take_in(letters, actor())
                    self._count(letters, [isinstance(answer, Accepted) for answer in answers])
            finally:
                self._tell("took in", f"into {store.url}")
        return self._code()

    async def rehearse(self, session: Session) -> int:
        """The same without a change; a store that is not there yet is not made."""
        known: set[str] = set()
        async with _looked_into(session) as store:
            for letters in self._batches():
                new = []
                for each in letters:
                    found = store is not None and await store.jobs.get(each.job.id) is not None
                    new.append(not found and each.job.id not in known)
                    known.add(each.job.id)
                self._count(letters, new)
        self._tell("would take in", "and changed nothing")
        return self._code()

    # reading --------------------------------------------------------------------------------------------------------

    def _batches(self) -> Iterator[list[Foreign]]:
        """The letters that could be made, in batches that are small enough for one transaction."""
        batch: list[Foreign] = []
        size = 0
        for found in self._found():
            letter = self._letter(found)
            if letter is None or not isinstance(found, Record):
                continue
            batch.append(letter)
            size += found.size
            if len(batch) >= BATCH or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _found(self) -> Found:
        return read_stream(sys.stdin.buffer) if str(self._source) == "-" else read_path(self._source)

    def _letter(self, found: Record | Bad) -> Foreign | None:
        """The letter of a record; None, and said why, when it makes none."""
        if isinstance(found, Bad):
            self._skip(found.place, found.why)
            return None
        try:
            return letter_of(found, self._wanted)
        except NotDead as living:
            self._living[str(living)] += 1
        except Fault as fault:
            self._skip(found.place, str(fault))
        return None

    def _skip(self, place: str, why: str) -> None:
        self._skipped += 1
        if self._as_json:
            emit({"place": place, "problem": why})
        elif self._skipped <= TOLD:
            say(f"{place} was skipped: {why}")

    # what it came to ------------------------------------------------------------------------------------------------

    def _count(self, letters: list[Foreign], new: list[bool]) -> None:
        for letter, is_new in zip(letters, new, strict=True):
            self._taken += is_new
            self._there += not is_new
            self._tasks[letter.job.task] += is_new
            self._masked += is_new and _MASKED in letter.job.payload

    def _code(self) -> int:
        if not self._skipped:
            return 0
        return EXIT_PARTLY if self._taken or self._there or self._living else EXIT_FAULT

    def _tell(self, did: str, where: str) -> None:
        if self._as_json:
            emit(
                {
                    "taken_in": self._taken,
                    "there_already": self._there,
                    "skipped": self._skipped,
                    "not_failed": dict(self._living),
                    "tasks": {task: n for task, n in self._tasks.items() if n},
                }
            )
            return
        if self._skipped > TOLD:
            say(f"{self._skipped - TOLD:,} more were skipped; --json names them all")
        there = f"; {self._there:,} were there already" if self._there else ""
        skipped = f"; {self._skipped:,} were skipped" if self._skipped else ""
        say(f"{did} {counted(self._taken, 'letter')} {where}{there}{skipped}")
        if self._living:
            states = ", ".join(f"{state} {n:,}" for state, n in self._living.most_common(5))
            say(f"left out {counted(self._living.total(), 'record')} of jobs that are not dead ({states})")
        if self._masked:
            say(
                f"the payload of {counted(self._masked, 'letter')} has {MASK} where a secret was masked; "
                "export with --with-secrets to bring them too"
            )


@asynccontextmanager
async def _looked_into(session: Session) -> AsyncIterator[Store | None]:
    """The store, if there is one."""
    path = path_of(session.store())
    if path is not None and not path.exists():
        yield None
        return
    async with session.opened() as store:
        yield store

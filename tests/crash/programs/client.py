"""A client process: adds jobs, each given as TASK=ID, all at once, and tells the tape what it learned of each.

`--ask-again` adds those whose outcome an earlier client, killed before it knew, left unknown. `--stream SEED` does so
too, and then adds jobs of several tasks, a few at a time, until it is killed. `--from FILE` adds those of its lines, a
thousand at a time.
"""

import asyncio
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from redrive import QueueFull
from redrive.job import new_id
from tests.crash.programs.tasks import app, place, tape
from tests.crash.tape import What, read

MIX = ("steady", "steady", "plain", "twice", "hopeless")
BACKLOG = 40
AT_ONCE = 1_000


async def add(task: str, id: str) -> None:
    """Add a job; until there is an answer its outcome is unknown."""
    tape.write(What.UNKNOWN, id)
    try:
        await app.aenqueue(task, id=id)
    except QueueFull:
        tape.write(What.REFUSED, id)
    else:
        tape.write(What.ACCEPTED, id)


async def add_all(jobs: Iterable[str]) -> None:
    """Add several, written as TASK=ID; the calls share a commit."""
    await asyncio.gather(*(add(*job.split("=")) for job in jobs))


def thousands(file: Path) -> Iterator[list[str]]:
    """The lines of a file, as many at a time."""
    lines = file.read_text(encoding="utf-8").split()
    return (lines[begin : begin + AT_ONCE] for begin in range(0, len(lines), AT_ONCE))


async def ask_again() -> None:
    """The same ids again: a job that is there already is not added twice."""
    last = {record.job: record.what for record in read(place / "tape").of(What.UNKNOWN, What.ACCEPTED, What.REFUSED)}
    await add_all(f"steady={id}" for id, what in last.items() if what is What.UNKNOWN)


async def stream(chance: random.Random) -> None:
    """Add, as long as the workers keep up."""
    while True:
        depths = await (await app.opened()).jobs.depth()
        if sum(depth.ready for depth in depths) < BACKLOG:
            await add_all(f"{chance.choice(MIX)}={new_id()}" for _ in range(chance.randint(1, 4)))
        else:
            await asyncio.sleep(0.01)  # sleep: until the workers have done some of it


async def main(first: str, *rest: str) -> None:
    """Let go of the store whatever was asked for."""
    match first:
        case "--ask-again":
            await ask_again()
        case "--stream":
            await ask_again()
            await stream(random.Random(rest[0]))
        case "--from":
            for jobs in thousands(Path(rest[0])):
                await add_all(jobs)
        case _:
            await add_all([first, *rest])
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

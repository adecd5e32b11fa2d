"""A process beside the test's own: `clerk.py VERB FILE [ARGUMENTS]` does one thing to a store and tells what it did."""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from redrive.clock import SECOND
from redrive.errors import RedriveError
from redrive.store import Accepted, Settings, Want
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_job


def say(word: str, value: Any = None) -> None:
    """One line for the test."""
    print(word, json.dumps(value), flush=True)


def told() -> str:
    """One line from the test; empty at its end."""
    return sys.stdin.readline().strip()


async def opened(file: str, **settings: Any) -> SqliteStore:
    store = SqliteStore(file, settings=Settings(**settings))
    await store.open()
    return store


async def add(file: str, n: str) -> None:
    """Add jobs, many at a time, once told to."""
    store = await opened(file)
    say("ready")
    told()
    jobs = [a_job() for _ in range(int(n))]
    answers = [store.jobs.add(jobs[begin : begin + 5]) for begin in range(0, len(jobs), 5)]
    assert [each for answer in await asyncio.gather(*answers) for each in answer] == [Accepted(job.id) for job in jobs]
    say("added", [job.id for job in jobs])
    await store.close()


async def claim(file: str, n: str) -> None:
    """Claim until so many jobs have been claimed by all, as the depth tells."""
    store = await opened(file)
    say("ready")
    told()
    got: list[str] = []
    while True:
        got += [job.id for job in await store.jobs.claim(Want(worker=str(os.getpid()), limit=7, lease=60 * SECOND))]
        if sum(depth.leased for depth in await store.jobs.depth()) == int(n):
            break
    say("claimed", got)
    await store.close()


async def hold(file: str) -> None:
    """Stop in the middle of a transaction."""
    store = await opened(file)
    # To this very thread: a signal to the process may be taken by another one, while this one commits.
    await store.write(lambda tx: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP))
    say("went on")
    await store.close()


async def crash(file: str, n: str) -> None:
    """Add jobs one after the other, and die without closing anything."""
    store = await opened(file)
    for _ in range(int(n)):
        job = a_job()
        await store.jobs.add([job])
        say("added", job.id)
    os.kill(os.getpid(), signal.SIGKILL)


async def listen(file: str, listener: str) -> None:
    """Rest until a hint comes."""
    store = await opened(file)
    await store.wait(listener, 0)
    say("listening")
    say("woken", await store.wait(listener, 60))
    told()
    await store.close()


async def look(file: str) -> None:
    """Open the store, and say how that went."""
    try:
        store = await opened(file, busy_timeout=2)
    except RedriveError as error:
        say("refused", [type(error).__name__, str(error)])
        return
    say("opened", sorted(path.name for path in Path(file).parent.iterdir()))
    await store.close()


async def look_as_nobody(file: str, other: str) -> None:
    """The same as a user whom permissions bind; all that is imported on the way is imported before, as root."""
    await (await opened(other)).close()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    await look(file)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    asyncio.run(globals()[verb](*arguments))

"""Handlers that tell the tape what they do; the app of every program here and of its child processes."""

import asyncio
import ctypes
import os
import signal
from pathlib import Path

from redrive import Bury, Redrive, Retry, current, immediate
from redrive.events import Event
from redrive.failpoints import reached
from tests.crash.tape import Tape, What, read
from tests.waiting import auntil, until

NEIGHBOURS = 2
PATIENCE = 30

place = Path(os.environ["CRASH_FOLDER"])
tape = Tape(place / "tape")
app = Redrive(f"sqlite:///{place / 'store.db'}")


def gate(number: int = 1) -> Path:
    """Handlers that wait go on when this file is there."""
    return place / f"gate-{number}"


def say(what: What) -> None:
    """Write down where the handler is."""
    ctx = current()
    tape.write(what, ctx.job.id, epoch=ctx.epoch, attempt=ctx.attempt, fence=ctx.fence)


def finish() -> None:
    """Do what the handler is for, and come to its end; a crash in between is a point of its own."""
    reached("handler.effect.before")
    say(What.EFFECT)
    reached("handler.effect")
    say(What.RETURNED)


def is_first_start() -> bool:
    """Later ones do not wait: a test holds back one worker, not the one that takes over from it."""
    return current().job.starts == 1


@app.task(name="steady")
async def steady() -> None:
    """Runs on the loop."""
    say(What.STARTED)
    await asyncio.sleep(0)
    finish()


@app.task(name="plain")
def plain() -> None:
    """Runs in a thread."""
    say(What.STARTED)
    finish()


@app.task(name="apart", isolation="process")
def apart() -> None:
    """Runs in a child process."""
    say(What.STARTED)
    finish()


@app.task(name="twice", retry=Retry(3, backoff=immediate()))
async def twice() -> None:
    """Fails at its first attempt."""
    say(What.STARTED)
    if current().attempt == 1:
        raise ConnectionError("not yet")
    finish()


@app.task(name="hopeless")
async def hopeless() -> None:
    """Is never done."""
    say(What.STARTED)
    raise Bury("it is no use")


@app.task(name="mended")
async def mended(n: int = 0) -> None:
    """Is of no use in its first epoch, and mended afterwards; `n` is what a redrive may change."""
    say(What.STARTED)
    if current().epoch == 1:
        raise Bury("not mended yet")
    finish()


@app.task(name="held")
async def held() -> None:
    """Waits at the gate, and can be stopped there."""
    say(What.STARTED)
    try:
        if is_first_start():
            await auntil(gate().exists, PATIENCE)
    except asyncio.CancelledError:
        say(What.CANCELLED)
        raise
    finish()


@app.task(name="stubborn")
async def stubborn() -> None:
    """Waits, at another gate with each start, without ever letting go of the loop: nothing can stop it there."""
    say(What.STARTED)
    until(gate(current().job.starts).exists, PATIENCE)
    finish()


@app.task(name="slow")
async def slow() -> None:
    """Waits at the gate at every start."""
    say(What.STARTED)
    await auntil(gate().exists, PATIENCE)
    finish()


@app.task(name="guilty")
async def guilty() -> None:
    """Kills its process, the first time when its neighbours run too."""
    say(What.STARTED)
    if is_first_start():
        await auntil(lambda: len(read(place / "tape").of(What.STARTED)) > NEIGHBOURS, PATIENCE)
    os.kill(os.getpid(), signal.SIGSEGV)
    await auntil(lambda: False, PATIENCE)


@app.task(name="null", isolation="process")
def null() -> None:
    """Reads where nothing is."""
    say(What.STARTED)
    ctypes.string_at(0)


def witness(event: Event) -> None:
    """Write down what a worker is told about the ends of its jobs."""
    if event.job is not None and event.name in ("job.succeeded", "job.late"):
        what = What.SETTLED if event.name == "job.succeeded" else What.LATE
        tape.write(what, event.job.id, epoch=event.job.epoch, attempt=event.job.attempts + 1, fence=event.job.fence)

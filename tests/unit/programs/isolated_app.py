"""An app whose tasks run in child processes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redrive
from redrive import Redrive, Retry, fixed
from redrive.clock import ManualClock


@asynccontextmanager
async def lifespan(app: Redrive) -> AsyncIterator[dict[str, int]]:
    """What handlers find as `ctx.state`."""
    print("opened", flush=True)
    yield {"pid": os.getpid()}
    print("closed", flush=True)


app = Redrive("memory://", lifespan=lifespan, clock=ManualClock(), release="r7")


@app.task(name="plain", isolation="process")
def plain(width: int = 200) -> dict[str, int]:
    """A plain function sees its attempt from its thread."""
    context = redrive.current()
    return {"width": width, "attempt": context.attempt, "pid": context.state["pid"]}


@app.task(name="on_loop", isolation="process")
async def on_loop(width: int) -> int:
    """A coroutine runs on the child's loop."""
    await asyncio.sleep(0)
    return width * 2


@app.task(name="extending", isolation="process")
async def extending(wait: float) -> str:
    """One that needs more time than it was given, and says so."""
    redrive.current().extend(30)
    await asyncio.sleep(wait)  # sleep: the handler's own work
    return "done"


@app.task(name="extending_in_a_thread", isolation="process")
def extending_in_a_thread(wait: float) -> str:
    """The same in a plain function."""
    return asyncio.run(extending.function(wait))


@app.task(name="refused", isolation="process", retry=Retry(5, backoff=fixed(60), jitter="none"))
def refused() -> None:
    """A failure that a policy decides about."""
    raise ConnectionError("no route \ud800 to host")


@app.task(name="snoozing", isolation="process")
def snoozing() -> None:
    """A signal is raised as anywhere."""
    raise redrive.Snooze("1m", "not yet")


@app.task(name="odd", isolation="process")
def odd() -> object:
    """A result that cannot be kept."""
    return object()

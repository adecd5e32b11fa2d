"""An app that child processes can import: its handlers die, or do not, as they are told."""

import asyncio
import os
import signal
import time

import redrive
from redrive import Bury, Redrive, Retry, Snooze
from redrive.config import Config
from redrive.config.settings import WorkerSettings

app = Redrive(
    "memory://",
    config=Config(worker=WorkerSettings(poll=20_000, heartbeat=20_000, grace=5_000_000)),
    retry=Retry(3, backoff=redrive.fixed("1s"), jitter="none"),
)


def die(how: str) -> None:
    """End this process."""
    match how:
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "outside":
            os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="on_loop")
async def on_loop(how: str = "") -> int:
    """A handler without isolation: only as a suspect does it come into a child."""
    die(how)
    return os.getpid()


@app.task(name="in_thread")
def in_thread(how: str = "") -> int:
    """The same as a plain function."""
    die(how)
    return os.getpid()


@app.task(name="apart", isolation="process")
def apart(how: str = "", seconds: float = 0) -> int:
    """A handler that always runs in a child."""
    match how:
        case "snooze":
            raise Snooze("1m")
        case "bury":
            raise Bury("bad input")
        case "fail":
            raise ConnectionError("refused")
        case "enqueue":
            on_loop.enqueue()
        case "sleep":
            time.sleep(seconds)  # sleep: the handler is told to take long
    die(how)
    return os.getpid()


@app.task(name="fragile", isolation="process", retry=Retry(2, crash_limit=1))
def fragile() -> None:
    """One that is not tried again when it has killed its process."""
    die("exit")


@app.task(name="aapart", isolation="process", timeout=0.3)
async def aapart() -> None:
    """One that never ends."""
    await asyncio.Event().wait()


@app.task(name="extends", isolation="process", timeout=0.5)
def extends() -> int:
    """One that needs longer than it was given, and says so."""
    redrive.current().extend("1m")
    time.sleep(0.8)  # sleep: longer than its first deadline
    return redrive.current().job.starts

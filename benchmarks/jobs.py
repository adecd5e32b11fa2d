"""The jobs that are measured: they do nothing, or nothing but fail."""

import time

from redrive import Redrive, Retry, immediate

NOTHING, FAIL, ARRIVE = "nothing", "fail", "arrive"
waits: list[float] = []
"""Seconds from before a job was enqueued until its handler began."""


async def nothing() -> None:
    """A job of no work: what is left is the cost of the queue."""


async def fail(number: int) -> None:
    """Fails three times and dies; no two messages are alike."""
    raise ConnectionError(f"host {number} refused the connection")


async def arrive(sent: float) -> None:
    """Knows when it was sent."""
    waits.append(time.monotonic() - sent)


def app_at(url: str | None) -> Redrive:
    """The app, on the store of this URL or of REDRIVE_URL."""
    made = Redrive(url)
    made.task(name=NOTHING)(nothing)
    made.task(name=FAIL, retry=Retry(3, backoff=immediate(), jitter="none"))(fail)
    made.task(name=ARRIVE)(arrive)
    return made


app = app_at(None)

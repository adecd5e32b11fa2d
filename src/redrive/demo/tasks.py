"""The app of the demo: five tasks, each with a trouble of its own. Release 1.1 has a fix for one of them."""

import asyncio
import ctypes
import re
import time
from email.utils import parseaddr

import redrive
from redrive.retry import Retry, exponential, fixed

FIRST, FIXED = "1.0", "1.1"
"""The releases of this app."""

WINDOW = 0.7
CALLS = 10
"""So many calls in a window are let through by those whom `crm.sync` talks to."""

BROKEN = "broken.png"
"""A picture that no decoder survives."""

_BARE_ADDRESS = re.compile(r"[^@\s<>]+@[^@\s<>]+")


app = redrive.Redrive()


# a flaky network that heals -------------------------------------------------------------------------------------------


@app.task(name="payments.charge", queue="payments", retry=Retry(5, backoff=exponential(base=0.2, cap=1)))
async def charge(order: int, cents: int) -> str:
    """Every third order loses its connection once, every sixth once more."""
    await asyncio.sleep(0.1 + order % 7 / 20)
    if redrive.current().attempt <= (order % 3 == 0) + (order % 6 == 0):
        raise ConnectionResetError("payments.example closed the connection")
    return f"charged {cents / 100:.2f}"


# a limit of calls that says when to come back -------------------------------------------------------------------------


class TooManyRequests(Exception):
    """429, with the seconds after which to call again."""

    status_code = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"429 too many requests, Retry-After: {retry_after:.2f}")
        self.retry_after = retry_after


class Gate:
    """The other side of `crm.sync`."""

    def __init__(self) -> None:
        self._opened = -WINDOW
        self._calls = 0

    def call(self) -> None:
        """Let a call through, or say when the next window opens."""
        now = time.monotonic()
        if now - self._opened >= WINDOW:
            self._opened, self._calls = now, 0
        if self._calls >= CALLS:
            raise TooManyRequests(self._opened + WINDOW - now)
        self._calls += 1


_crm = Gate()


@app.task(name="crm.sync", queue="crm", retry=Retry(20, backoff=fixed(0.05)))
async def sync(customer: int) -> None:
    """More calls than the other side takes."""
    _crm.call()
    await asyncio.sleep(0.05)


# input that this release cannot read ----------------------------------------------------------------------------------


class BadAddress(Exception):
    """422: sent again as it is, it would be refused again."""

    status_code = 422


@app.task(name="mail.welcome", queue="mail")
def welcome(to: str) -> str:
    """Release 1.0 knows `ada@example.com`; release 1.1 also knows `Ada <ada@example.com>`."""
    time.sleep(0.08)
    address = parseaddr(to)[1] if app.release == FIXED else to
    if not _BARE_ADDRESS.fullmatch(address):
        raise BadAddress(f"not an address: {to!r}")
    return f"sent to {address}"


# a job that does not end, and one that takes its process with it ------------------------------------------------------


@app.task(name="report.render", queue="reports", isolation="process", timeout="1s", retry=Retry(2, backoff=fixed(0.3)))
def render(month: str, pages: int) -> int:
    """Some have so many pages that they do not end in time; the child process is killed at the deadline."""
    for _ in range(pages):
        time.sleep(0.02)
    return pages


@app.task(name="thumbnail.make", queue="images", isolation="process", retry=Retry(3, crash_limit=3))
def make(picture: str) -> str:
    """A broken picture makes the decoder read where no memory is."""
    if picture == BROKEN:
        ctypes.string_at(0)
    time.sleep(0.05)
    return picture.replace(".png", "-small.png")

"""Handlers that fork and come back in both processes, beside one that does not; each line says who wrote it."""

import asyncio
import os
import sys
from collections.abc import Callable

from redrive.runners.loop import run_on_loop
from redrive.runners.thread import ThreadRunner

WORKER = os.getpid()


def say(text: str) -> None:
    """A line of its own, at once."""
    os.write(1, f"{'worker' if os.getpid() == WORKER else 'fork'}: {text}\n".encode())


def returned() -> None:
    """As a handler that forgets where it is."""


def raised() -> None:
    """As one that fails there."""
    raise ValueError("in the fork")


def left() -> None:
    """As one that ends its fork politely."""
    sys.exit(3)


ENDS: list[Callable[[], None]] = [returned, raised, left]


def fork(end: Callable[[], None]) -> None:
    """Fork, come to an end in the fork, and wait for it."""
    pid = os.fork()
    if pid == 0:
        end()
    else:
        _, status = os.waitpid(pid, 0)
        say(f"{end.__name__}: exit code {os.waitstatus_to_exitcode(status)}")


async def fork_on_loop(end: Callable[[], None]) -> None:
    fork(end)


async def neighbour() -> None:
    say("neighbour")


async def main() -> None:
    """Each end on the loop, with a neighbour whose turn comes next; then each in a thread."""
    threads = ThreadRunner(1)
    for end in ENDS:
        await asyncio.gather(run_on_loop(lambda end=end: fork_on_loop(end), 10), run_on_loop(neighbour, 10))  # type: ignore[misc]
    for end in ENDS:
        outcome = await threads.run(lambda end=end: fork(end), 10)  # type: ignore[misc]
        say(type(outcome).__name__)


asyncio.run(main())

"""Jobs of a redrive run in the command's own process, until it has ended or somebody presses Ctrl-C."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

import click

from redrive.cli.driving import driven
from redrive.cli.output import clean, say
from redrive.redrives import Run
from redrive.reshaping import Reshaper

if TYPE_CHECKING:
    from redrive.app import Redrive as App

SLOTS = 5
"""So many jobs run at once unless `--parallel` says otherwise."""

LAST_WORDS = 5.0
"""Seconds to give back what runs, once it has to end."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Here:
    """What this process is to run."""

    app: "App"
    tasks: Collection[str]
    queues: Sequence[str]
    slots: int | None
    chatty: bool  # whether each job is worth a line


async def driven_here(here: Here, id: str) -> Run:
    """Drive a redrive to its end, and serve the queues of its jobs meanwhile."""
    app, size = here.app, here.slots or SLOTS
    worker = app.worker(list(here.queues), concurrency=size, threads=size)
    say(f"this process runs the jobs of {_named(here.queues)}, {size} at a time; no other worker is needed")
    strange = sorted(set(here.tasks) - set(app.registry.names()))
    if strange:
        say(f"the app has no task {clean(', '.join(strange))}; its jobs wait for a worker that knows it")
    with _quiet(here.chatty), _Leaving().heard():
        async with worker:
            try:
                return await driven(app.store, app.clock, id, Reshaper(app), after=_after(id))
            except asyncio.CancelledError:
                worker.stop_now()
                raise


def _named(queues: Sequence[str]) -> str:
    return f"{'queue' if len(queues) == 1 else 'queues'} {clean(', '.join(queues))}"


def _after(id: str) -> str:
    short = id[-8:]
    return (
        f"redrive {short} stands still unless a worker runs, and what ran here is given back; "
        f"`redrive dlq retry --resume {short} --app …` goes on with it, `redrive redrives cancel {short}` ends it"
    )


class _Leaving:
    """Ctrl-C and SIGTERM: the first gives back what runs, the second leaves at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._heard = 0
        self._timer: threading.Timer | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Handlers of Python's own, which also run while a handler of the user blocks the loop."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            yield
        except asyncio.CancelledError:
            if not self._heard:
                raise
            raise Left(128 + self._heard) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._heard:
            self._end(128 + number)
        self._heard = number
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._timer = threading.Timer(LAST_WORDS, self._end, (128 + number,))
        self._timer.daemon = True
        self._timer.start()

    def _end(self, code: int) -> None:
        """Whatever a handler does to the loop or to a thread: what it holds is taken over by others."""
        os._exit(code)


class Left(Exception):
    """Somebody pressed Ctrl-C, and what ran has been given back."""

    def __init__(self, code: int) -> None:
        self.code = code


@contextmanager
def _quiet(chatty: bool) -> Iterator[None]:
    """What is logged goes above the line of progress; of single jobs the summary tells enough."""
    logger = logging.getLogger("redrive")
    before, handler = (logger.handlers[:], logger.propagate), _Above()
    handler.addFilter(lambda record: chatty or getattr(getattr(record, "event", None), "job", None) is None)
    logger.handlers[:], logger.propagate = [handler], False
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = before


class _Above(logging.Handler):
    """Messages of this program, each on a line of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Free the line first."""
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
        say(record.getMessage())

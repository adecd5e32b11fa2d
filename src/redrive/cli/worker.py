"""`redrive worker`: runs the jobs of an app in this process, or in several under a supervisor."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from redrive.cli.options import Verb, pass_session
from redrive.cli.output import say
from redrive.cli.session import URL, Session
from redrive.cli.times import span
from redrive.clock import SECOND
from redrive.logs import log_event, start_logging
from redrive.supervisor import EXIT_RECYCLE, SUPERVISED, ignored_hangup, supervise

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.config import Config
    from redrive.worker import Worker

MARGIN = 5.0
"""Seconds after the grace period in which a worker settles what it had to give back."""

LAST_WORDS = 2.0
"""Seconds that a worker has to give its jobs back once it was told to leave at once."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@click.command("worker", cls=Verb)
@click.argument("reference", metavar="[APP]", required=False)
@click.option(
    "--queue", "-q", "queues", multiple=True, metavar="NAME[=N]", help="Serve this queue, in N slots at most."
)
@click.option("--concurrency", "-c", metavar="N", help="Async handlers that run at once, per process (20).")
@click.option("--threads", metavar="N", help="Plain functions that run at once, per process (8).")
@click.option("--processes", metavar="N", help="Run N processes, watch over them and restart them.")
@click.option("--burst", is_flag=True, help="End when there is nothing left to do.")
@click.option("--json", "as_json", is_flag=True, help="Log JSON, one object per line, as --log-format json does.")
@pass_session
def command(
    session: Session,
    reference: str | None,
    queues: tuple[str, ...],
    concurrency: str | None,
    threads: str | None,
    processes: str | None,
    burst: bool,
    as_json: bool,
) -> int:
    """Run the jobs of APP: `module:app`, a module with one app in it, or a file.

    Without APP it is the `app` of the project file; without -q every queue is served. What is not given here comes
    from the settings, `redrive config` shows them. SIGTERM and Ctrl-C let running jobs finish within the grace period;
    a second one leaves at once.
    """
    config = session.settings(
        {
            "app": reference,
            "worker.queues": list(queues) or None,
            "worker.concurrency": concurrency,
            "worker.threads": threads,
            "worker.processes": processes,
            "log.format": "json" if as_json else None,
        }
    )
    if SUPERVISED not in os.environ and (processes or config.worker.processes > 1):
        return _supervised(session, config)
    start_logging(config.log.level, config.log.format, sys.stderr)
    if "url" in session.given:  # handlers in child processes enqueue to the same store
        os.environ[URL] = config.resolved_url
    app = session.app(config.app)
    app.subscribe(log_event)
    return _work(app, config, burst=burst)


def _supervised(session: Session, config: "Config") -> int:
    from redrive.cli.deaths import Deaths

    with Deaths(session, config) as deaths:
        return supervise(
            [sys.executable, "-m", "redrive", *session.args],
            config.worker.processes,
            grace=config.worker.grace / SECOND,
            patience=config.worker.watchdog / SECOND,
            report=deaths.report,
        )


def _work(app: "Redrive", config: "Config", *, burst: bool) -> int:
    alone = SUPERVISED not in os.environ
    settings = config.worker
    worker = app.worker(settings.queues, concurrency=settings.concurrency, threads=settings.threads, burst=burst)
    told = Told(worker, settings.grace, alone=alone)
    with told.listening():
        return asyncio.run(told.run())


class Told:
    """What signals have told a worker: the first to drain, the second to leave at once."""

    def __init__(self, worker: "Worker", grace: int, *, alone: bool) -> None:
        self._worker = worker
        self._grace = grace
        self._alone = alone
        self._explains = alone and sys.stderr.isatty()
        self._task: asyncio.Task[int] | None = None
        self._first = 0
        self._forced = 0
        self._timers: list[threading.Timer] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handlers of Python's own: they also run while a handler of the user blocks the loop."""
        heard = [number for number in SIGNALS if not ignored_hangup(number)]
        before = {number: signal.signal(number, self._hear) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._calm()

    def _calm(self) -> None:
        for timer in self._timers:
            timer.cancel()

    async def run(self) -> int:
        """Run the worker to its exit code; what its handlers left on this loop or in its threads keeps nobody."""
        code = await self._code()
        self._calm()
        self._end_after(LAST_WORDS, code, "leaves handlers behind that do not end")
        if code == EXIT_RECYCLE and self._alone:
            why = f"the worker asks to be replaced (exit code {code}) and nobody restarts it"
            say(f"{why}; use --processes, or a service")
        return code

    async def _code(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._worker.run())
        try:
            code = await self._task
        except asyncio.CancelledError:
            if not self._first:
                raise
            return 128 + self._first  # told before it had claimed anything
        if self._forced:
            return 128 + self._forced
        return 0 if self._first else code

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._first:
            self._leave(number)
        else:
            self._drain(number)

    def _drain(self, number: int) -> None:
        self._first = number
        if self._task is None:
            sys.exit(128 + number)
        why = f"did not end within its grace of {span(self._grace)}; its jobs are left to other workers"
        self._end_after(self._grace / SECOND + MARGIN, 128 + number, why)
        if self._worker.claims:
            self._worker.drain()
            self._loop.call_soon_threadsafe(self._explain, number)
        else:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _explain(self, number: int) -> None:
        if number == signal.SIGINT and self._explains:
            say(f"running jobs have {span(self._grace)} to finish; Ctrl-C once more leaves at once")

    def _leave(self, number: int) -> None:
        self._forced = self._forced or number
        why = f"did not leave at once; its grace was {span(self._grace)}; its jobs are left to other workers"
        self._end_after(LAST_WORDS, 128 + number, why)
        if self._worker.claims:
            self._worker.stop_now()

    def _end_after(self, seconds: float, code: int, why: str) -> None:
        """Whatever a handler does to the loop: what it holds is taken over by others."""
        timer = threading.Timer(seconds, self._end, (code, why))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _end(self, code: int, why: str) -> None:
        try:
            os.write(2, f"redrive: worker {self._worker.id} {why}\n".encode())
        finally:
            os._exit(code)

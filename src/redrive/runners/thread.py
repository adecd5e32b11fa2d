"""Handlers that are plain functions: in threads of our own, which never keep the process from ending."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from redrive.outcome import Failed, Outcome, Succeeded
from redrive.runners import forks
from redrive.runners.deadlines import Opened, deadlines, interrupted, too_long


class ThreadRunner:
    """Runs plain functions in at most `size` threads; one beyond its deadline keeps its slot until it returns."""

    def __init__(self, size: int, name: str = "redrive-handler") -> None:
        self.size = size
        self.stuck = 0
        self._name = name
        self._busy = 0
        self._started = 0
        self._waiting: SimpleQueue[_Call | None] = SimpleQueue()
        self._finished: deque[tuple[_Call, Outcome]] = deque()
        self._flushing = False

    @property
    def free(self) -> int:
        """How many more functions can be run now."""
        return self.size - self._busy

    async def run(self, call: Callable[[], object], timeout: float | None, *, opened: Opened | None = None) -> Outcome:
        """Run a function to its outcome; at its deadline it is failed, and its thread counts as stuck."""
        if not self.free:
            raise RuntimeError(f"all {self.size} threads are taken; look at `free` before running more")
        run = _Call(call, self)
        if opened is not None:
            opened(run)
        self._start(run)
        clock = deadlines()
        if timeout is not None:
            clock.add(run, timeout)
        try:
            return await run.ending
        except asyncio.CancelledError as cancelled:
            stopped = interrupted(cancelled)
            return run.ending.result() if run.ended else run.abandon(stopped)
        finally:
            clock.remove(run)

    def _start(self, run: "_Call") -> None:
        if self._started <= self._busy:
            # First of all: where no thread can be started nothing has begun.
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started + 1}", daemon=True).start()
            self._started += 1
        self._busy += 1
        self._waiting.put(run)

    def _serve(self) -> None:
        while (run := self._waiting.get()) is not None:
            began_in = forks.generation
            outcome = _outcome(run.context, run.call)
            if began_in != forks.generation:
                forks.end_fork(outcome)
            self._finished.append((run, outcome))
            if not self._flushing:
                self._flushing = True
                self._announce(run)
            del run, outcome

    def _announce(self, run: "_Call") -> None:
        try:
            run.loop.call_soon_threadsafe(self._flush)
        except RuntimeError:
            if not run.loop.is_closed():
                raise

    def _flush(self) -> None:
        self._flushing = False
        while self._finished:
            run, outcome = self._finished.popleft()
            self._busy -= 1
            self.stuck -= run.abandoned
            if not run.ending.done():
                run.ending.set_result(outcome)

    def close(self) -> None:
        """Let the threads end; those that are stuck end with the process."""
        for _ in range(self._started):
            self._waiting.put(None)
        self._started = 0


class _Call:
    __slots__ = ("abandoned", "call", "context", "ending", "loop", "runner")

    def __init__(self, call: Callable[[], object], runner: ThreadRunner) -> None:
        self.call = call
        self.runner = runner
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.ending: asyncio.Future[Outcome] = self.loop.create_future()
        self.abandoned = False

    @property
    def ended(self) -> bool:
        return self.ending.done() and not self.ending.cancelled()

    def expire(self, limit: float) -> None:
        if not self.ending.done():
            self.ending.set_result(self.abandon(Failed(too_long(limit))))

    def abandon(self, outcome: Outcome) -> Outcome:
        """Nobody waits for this thread any longer, yet it runs on."""
        self.abandoned = True
        self.runner.stuck += 1
        return outcome


def _outcome(context: contextvars.Context, call: Callable[[], object]) -> Outcome:
    """How a call ends; what it raises keeps this frame and its caller's, so nothing there may have the outcome."""
    try:
        return Succeeded(context.run(call))
    except BaseException as error:  # noqa: BLE001 - SystemExit and its like are outcomes too
        return Failed(error)

"""Handlers that are plain functions: in threads of our own, which never keep the process from ending."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from redrive.outcome import Failed, Outcome, Succeeded
from redrive.runners.deadlines import Expiring, deadlines, interrupted, too_long


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

    async def run(
        self, call: Callable[[], object], timeout: float | None, *, opened: Callable[[Expiring], None] | None = None
    ) -> Outcome:
        """Run a function to its outcome; at its deadline it is failed, and its thread counts as stuck."""
        if not self.free:
            raise RuntimeError(f"all {self.size} threads are taken; look at `free` before running more")
        run = _Call(call, self, timeout)
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
        self._waiting.put(run)
        self._busy += 1
        if self._started < self._busy:
            self._started += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._started}", daemon=True).start()

    def _serve(self) -> None:
        while (run := self._waiting.get()) is not None:
            outcome = run.outcome()
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
    __slots__ = ("abandoned", "call", "context", "ending", "limit", "loop", "runner")

    def __init__(self, call: Callable[[], object], runner: ThreadRunner, limit: float | None) -> None:
        self.call = call
        self.runner = runner
        self.limit = limit
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.ending: asyncio.Future[Outcome] = self.loop.create_future()
        self.abandoned = False

    def outcome(self) -> Outcome:
        try:
            return Succeeded(self.context.run(self.call))
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like are outcomes too
            return Failed(error)

    @property
    def ended(self) -> bool:
        return self.ending.done() and not self.ending.cancelled()

    def expire(self) -> None:
        if not self.ending.done() and self.limit is not None:
            self.ending.set_result(self.abandon(Failed(too_long(self.limit))))

    def abandon(self, outcome: Outcome) -> Outcome:
        """Nobody waits for this thread any longer, yet it runs on."""
        self.abandoned = True
        self.runner.stuck += 1
        return outcome

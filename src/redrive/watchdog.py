"""A thread that notices when the event loop no longer answers, because a handler never yields."""

import asyncio
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

EXIT_SILENT = 70
_TICK = 1.0
_WRITING = 1.0


@dataclass(frozen=True, slots=True)
class Silence:
    """The loop has not answered for this long; `stack` is where its thread is."""

    seconds: float
    stack: str


class Watchdog:
    """Calls `on_silence` once, from its own thread, when the loop has not answered for `patience` seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        patience: float,
        on_silence: Callable[[Silence], None],
        tick: float = _TICK,
    ) -> None:
        self._loop = loop
        self._patience = patience
        self._on_silence = on_silence
        self._tick = min(tick, patience / 4)
        self._stopped = threading.Event()
        self._answered = threading.Event()
        self._loop_thread = 0
        self._thread = threading.Thread(target=self._watch, name="redrive-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch; called on the loop's own thread."""
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(self._tick + 1)

    def _watch(self) -> None:
        silent, asked_at = 0.0, time.monotonic()
        while self._ask() and not self._stopped.wait(self._tick):
            now = time.monotonic()
            # A process that was itself paused proves nothing, so no look counts for more than one tick.
            silent += min(now - asked_at, self._tick)
            asked_at = now
            if self._answered.is_set():
                silent = 0.0
            elif silent >= self._patience:
                self._on_silence(Silence(silent, stack_of(self._loop_thread)))
                return

    def _ask(self) -> bool:
        self._answered.clear()
        try:
            self._loop.call_soon_threadsafe(self._answered.set)
        except RuntimeError:
            return False  # the loop is closed: there is nothing left to watch
        return True


def stack_of(thread: int) -> str:
    """Where a thread is, as a traceback would show it."""
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)) if frame else "(its thread has ended)\n"


def end_process(running: Callable[[], Iterable[str]]) -> Callable[[Silence], None]:
    """What to do about silence by default: say which jobs ran, show where the loop stands, and end at once."""

    def end(silence: Silence) -> None:
        try:
            named = ", ".join(running()) or "no job"
            _write(
                f"redrive: the event loop has not answered for {silence.seconds:.0f}s while it ran {named}; "
                f"ending this process. It stands here:\n{silence.stack}"
            )
        finally:
            os._exit(EXIT_SILENT)

    return end


def _write(text: str) -> None:
    """To stderr, as far as somebody reads it: nothing must keep this process from its end."""
    left = text.encode("utf-8", "replace")
    while left and select.select((), (2,), (), _WRITING)[1]:
        left = left[os.write(2, left[: select.PIPE_BUF]) :]

"""The synchronous face: one background loop per process, on which plain-named calls run their asynchronous selves."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from redrive.errors import WrongLoop

T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no loop; started at first use, anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, call: Callable[[], Coroutine[Any, Any, T]], name: str, twin: str | None = None) -> T:
        """The answer of the coroutine that `call` makes; `twin` is the asynchronous one of the method `name`."""
        self.refuse_inside_a_loop(name, twin)
        future = asyncio.run_coroutine_threadsafe(call(), self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in the caller: what it asked for must not go on behind its back
            raise

    def refuse_inside_a_loop(self, name: str, twin: str | None = None) -> None:
        """A loop that waits for itself would stand still."""
        if _inside_loop():
            raise WrongLoop(
                f"{name}() would block the event loop that runs here; write `await ….{twin or f'a{name}'}(…)` instead"
            )

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="redrive-portal", daemon=True).start()
            return self._loop

    def forked(self) -> None:
        """In a child process the parent's thread is not there, and its lock may be held for ever."""
        self.__init__()  # type: ignore[misc]


def _inside_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


portal = Portal()
os.register_at_fork(after_in_child=portal.forked)

"""The synchronous face: one background loop per process, on which plain-named calls run their asynchronous selves."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from redrive.errors import UsageError, WrongLoop

T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no loop; started at first use, anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, call: Callable[[], Coroutine[Any, Any, T]], name: str, twin: str | None = None) -> T:
        """The answer of the coroutine that `call` makes; `twin` is the asynchronous one of the method `name`."""
        self.refuse_inside_a_loop(name, twin)
        loop = self._loop_for(name)
        future = asyncio.run_coroutine_threadsafe(call(), loop)
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

    def _loop_for(self, name: str) -> asyncio.AbstractEventLoop:
        if sys.is_finalizing():  # in a `__del__` at the very end: no other thread runs any more, and none would answer
            raise UsageError(f"{name}() comes too late: the program has ended; call it before")
        try:
            return self._running_loop()
        except RuntimeError as error:
            raise UsageError(f"{name}() has no thread to run in ({error}); call it before the program ends") from error

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="redrive-portal", daemon=True).start()
                self._loop = loop
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

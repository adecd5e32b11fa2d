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
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, call: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """The answer of the coroutine that `call` makes; `name` is the plain method asked for."""
        if _inside_loop():
            raise WrongLoop(f"{name}() would block the running event loop; write `await … .a{name}(…)` here")
        return asyncio.run_coroutine_threadsafe(call(), self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._lock = threading.Lock()
            self._loop, self._pid = None, os.getpid()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="redrive-portal", daemon=True).start()
            return self._loop


def _inside_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


portal = Portal()

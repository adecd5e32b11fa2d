"""The store in memory: for tests of users' own code; it ends with its process."""

import asyncio
import itertools

from redrive.clock import Clock, SystemClock, boot_id
from redrive.store import Check, Settings, Traits
from redrive.stores.memory.jobs import MemoryJobs
from redrive.stores.memory.journal import MemoryJournal
from redrive.stores.memory.letters import MemoryLetters
from redrive.stores.memory.operations import MemoryOperations
from redrive.stores.memory.redrives import MemoryRedrives
from redrive.stores.memory.rows import Hint, Memory, Rows
from redrive.stores.memory.workers import MemoryWorkers

_numbers = itertools.count(1)


class MemoryStore:
    """A store that lives in this process; threads and event loops may share it.

    `beside` opens another view of the same jobs, as a second process would have of a file.
    """

    traits = Traits(
        engine="memory",
        durable="nothing beyond this process",
        shared="process",
        wakeups="at once, in every loop of this process",
    )
    home = None

    def __init__(
        self,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
        boot: str | None = None,
        beside: "MemoryStore | None" = None,
    ) -> None:
        self.url: str = beside.url if beside else f"memory://{name or next(_numbers)}"
        self._rows: Rows = beside._rows if beside else Rows()
        memory = Memory(self._rows, clock or SystemClock(), settings or Settings(), boot or boot_id())
        self.jobs = MemoryJobs(memory)
        self.letters = MemoryLetters(memory)
        self.operations = MemoryOperations(memory, self.letters)
        self.redrives = MemoryRedrives(memory)
        self.workers = MemoryWorkers(memory)
        self.journal = MemoryJournal(memory)

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def wait(self, listener: str, timeout: float) -> bool:
        """Rest until a hint says that jobs may be ready, at most `timeout` seconds; polling is the truth."""
        woken = asyncio.Event()
        waiter = (asyncio.get_running_loop(), woken)
        with self._rows.lock:
            hint = self._rows.hints.setdefault(listener, Hint())
            if not hint.given:
                hint.waiters.append(waiter)
        try:
            if waiter in hint.waiters:
                async with asyncio.timeout(timeout):  # `wait_for` of Python 3.11 loses a cancellation that meets a hint
                    await woken.wait()
        except TimeoutError:
            pass  # what counts is whether a hint was given, even in the last moment
        finally:
            given = self._stop_waiting(hint, waiter)
        return given

    def _stop_waiting(self, hint: Hint, waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> bool:
        with self._rows.lock:
            given, hint.given = hint.given, False
            if waiter in hint.waiters:
                hint.waiters.remove(waiter)
        return given

    async def check(self) -> list[Check]:
        """What the doctor wants to know of this engine."""
        return [
            Check(
                name="durability",
                ok=False,
                found="jobs are kept in the memory of this process only",
                advice="use sqlite:///redrive.db for work that must not be lost",
            )
        ]

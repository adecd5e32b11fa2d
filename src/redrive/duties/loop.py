"""The loop of every duty: take the duty, poll, rest as long as the poll said."""

from typing import Protocol

from redrive.clock import Clock
from redrive.store import Store


class Duty(Protocol):
    """Something that one process does for all."""

    name: str

    async def poll(self) -> int:
        """Do a share of it, and answer how many microseconds to rest."""
        ...


class Duties:
    """The duties of one process, each polled when its rest is over and the duty is ours."""

    def __init__(self, store: Store, clock: Clock, holder: str, duties: list[Duty]) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._next = {duty.name: (duty, clock.steady()) for duty in duties}

    async def poll(self) -> None:
        """Poll the duties whose time has come."""
        now = self._clock.steady()
        for name, (duty, due) in self._next.items():
            if due > now:
                continue
            rest = 10_000_000
            if await self._store.workers.duty(name, self._holder, 2 * rest):
                rest = await duty.poll()
            self._next[name] = (duty, self._clock.steady() + rest)

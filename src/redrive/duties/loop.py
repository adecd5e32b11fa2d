"""The loop of every duty: take the duty, poll, rest as long as the poll said."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redrive.clock import SECOND, Clock
from redrive.store import Store

LONGEST_TERM = 20 * SECOND
"""A duty is taken for this long at the most, and kept when half of it is over."""


class Duty(Protocol):
    """Something that one process does for all."""

    name: str

    async def poll(self) -> int:
        """Do a share of it, and answer how many microseconds to rest."""
        ...


@dataclass(slots=True)
class _Turn:
    duty: Duty
    due: int
    ours_until: int = 0


class Duties:
    """The duties of one process, each polled when its rest is over and the duty is ours."""

    def __init__(self, store: Store, clock: Clock, holder: str, duties: Sequence[Duty], lease: int) -> None:
        self._store = store
        self._clock = clock
        # When the holder dies or stands still, another one is at it by the time that the holder's leases end.
        self._term = min(LONGEST_TERM, lease * 2 // 3)
        self._holder = holder
        self._turns = [_Turn(duty, clock.steady()) for duty in duties]

    async def poll(self) -> None:
        """Poll the duties whose time has come."""
        for turn in self._turns:
            now = self._clock.steady()
            if turn.due <= now:
                turn.due = now + (await turn.duty.poll() if await self._ours(turn) else self._term // 2)

    async def _ours(self, turn: _Turn) -> bool:
        now = self._clock.steady()
        if turn.ours_until - now > self._term // 2:
            return True
        ours = await self._store.workers.duty(turn.duty.name, self._holder, self._term)
        turn.ours_until = now + self._term if ours else 0
        return ours

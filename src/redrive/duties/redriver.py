"""Drives the open redrives, so that each comes to its end whoever began it."""

from redrive.clock import SECOND, Clock
from redrive.redrives import LOOK, drive
from redrive.store import Store

REST = 2 * SECOND
STEPS = 20
"""So many for each redrive at one time, so that the keeper's heartbeat is not late."""


class Redriver:
    """Does for each open redrive what can be done now."""

    name = "redriver"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def poll(self) -> int:
        """A few steps of each; come back soon while one is open."""
        rests = [await self._drive(each.id) for each in await self._store.redrives.find(("freezing", "running"))]
        return min((rest for rest in rests if rest is not None), default=REST)

    async def _drive(self, id: str) -> int | None:
        for _ in range(STEPS):
            rest = await drive(self._store, self._clock, id)
            if rest is None or rest > 0:
                return rest
        return LOOK

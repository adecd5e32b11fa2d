"""Drives the open redrives, so that each comes to its end whoever began it."""

from redrive.clock import SECOND, Clock
from redrive.redrives import LOOK, drive
from redrive.reshaping import Reshape
from redrive.store import Store

REST = 5 * SECOND
LONGEST = 2 * SECOND
"""So long at one time for all of them, so that the keeper's heartbeat is not late."""


class Redriver:
    """Does for each open redrive what can be done now."""

    name = "redriver"

    def __init__(self, store: Store, clock: Clock, reshape: Reshape) -> None:
        self._store = store
        self._clock = clock
        self._reshape = reshape

    async def poll(self) -> int:
        """As many steps of each in turn as there is time for; come back soon while one is open."""
        until = self._clock.steady() + LONGEST
        open_ = [each.id for each in await self._store.redrives.find(("freezing", "waiting", "running"))]
        rests: list[int] = []
        while open_ and self._clock.steady() < until:
            answers = {id: await drive(self._store, self._clock, id, self._reshape) for id in open_}
            rests += [rest for rest in answers.values() if rest]
            open_ = [id for id, rest in answers.items() if rest == 0]
        return min([LOOK] if open_ else rests, default=REST)

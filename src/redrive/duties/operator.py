"""Carries on bulk operations that nobody is at, so that each comes to its end whoever began it."""

from redrive.clock import SECOND, Clock
from redrive.operations import STILL, advance
from redrive.repair import Workshop
from redrive.store import Store

REST = 5 * SECOND
LONGEST = 2 * SECOND
"""So long at one time, so that the keeper's heartbeat is not late."""


class Operator:
    """Does the next chunks of each operation that waits."""

    name = "operator"

    def __init__(self, store: Store, clock: Clock, workshop: Workshop) -> None:
        self._store = store
        self._clock = clock
        self._workshop = workshop
        self._ours: set[str] = set()

    async def poll(self) -> int:
        """As many chunks as there is time for; come back at once while there are more."""
        until = self._clock.steady() + LONGEST
        found = await self._store.operations.find(("running",))
        before = self._clock.now() - STILL
        waiting = [each for each in found if each.id in self._ours or max(each.opened_at, each.moved_at) <= before]
        waiting = [each for each in waiting if not self._workshop.lacks(each.change)]  # others wait for who can check
        self._ours = {each.id for each in waiting}
        while waiting and self._clock.steady() < until:
            after = [await advance(self._store, each, self._workshop) for each in waiting]
            waiting = [each for each in after if each.state == "running"]
        return 0 if waiting else REST

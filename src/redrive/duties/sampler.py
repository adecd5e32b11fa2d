"""Samples how deep the queues are, once a minute."""

from redrive.clock import SECOND, Clock
from redrive.store import Store

MINUTE = 60 * SECOND


class Sampler:
    """Takes its sample in the middle of each minute, so that a rest a little too long misses none."""

    name = "sampler"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def poll(self) -> int:
        """Sample this minute, and rest until the middle of the next."""
        await self._store.journal.sample()
        return MINUTE + MINUTE // 2 - self._clock.now() % MINUTE

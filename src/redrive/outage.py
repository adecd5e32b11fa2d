"""A store that is away: said once, asked again a little later each time, and said once more when it is back."""

import asyncio

from redrive.events import Events

RESTS = (0.1, 0.2, 0.5, 1.0, 2.0)


class Outage:
    """What a worker knows of its store's absence."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._misses = 0
        self.lasts = False

    def noticed(self, error: Exception) -> None:
        """The store did not do what it was asked."""
        if not self.lasts:
            self.lasts = True
            self._events.emit("store.unavailable", error=str(error))

    async def rest(self, most: float) -> None:
        """Before it is asked again."""
        await asyncio.sleep(min(RESTS[min(self._misses, len(RESTS) - 1)], most))
        self._misses += 1

    def over(self) -> None:
        """It answered."""
        self._misses = 0
        if self.lasts:
            self.lasts = False
            self._events.emit("store.returned")

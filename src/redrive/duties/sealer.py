"""Seals what people did, so that it cannot be changed unseen."""

from redrive.clock import SECOND
from redrive.store import Store

LIMIT = 1_000
REST = 5 * SECOND


class Sealer:
    """Seals in shares, so that no transaction grows with the data and nobody who acts waits for it."""

    name = "sealer"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def poll(self) -> int:
        """Seal a share; come back soon while there is more."""
        return 100_000 if await self._store.journal.seal(LIMIT) == LIMIT else REST

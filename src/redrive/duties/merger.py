"""Merges the counts that each worker writes apart, once their minute is over."""

from redrive.store import Store

LIMIT = 1_000
REST = 60_000_000


class Merger:
    """Merges in shares, so that no transaction grows with the data."""

    name = "merger"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def poll(self) -> int:
        """Merge a share; come back soon while there is more."""
        return 100_000 if await self._store.journal.merge(LIMIT) == LIMIT else REST

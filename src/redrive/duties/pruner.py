"""Forgets finished rows whose time is over."""

from redrive.store import Store

LIMIT = 1_000
REST = 60_000_000


class Pruner:
    """Prunes in shares, so that no transaction grows with the data."""

    name = "pruner"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def poll(self) -> int:
        """Prune a share; come back soon while there is more."""
        return 100_000 if await self._store.jobs.prune(LIMIT) == LIMIT else REST

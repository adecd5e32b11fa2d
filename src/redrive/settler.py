"""Gathers what attempts ended with, and writes it in batches; a store that is away loses nothing of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.errors import StoreError
from redrive.store import AnySettlement, Turn, Want

if TYPE_CHECKING:
    from redrive.store import Store

BATCH = 500


class Settler:
    """The settlements of one worker on their way to the store."""

    def __init__(self, store: "Store", settled: Callable[[AnySettlement, bool], None]) -> None:
        self._store = store
        self._settled = settled
        self._waiting: list[AnySettlement] = []
        self._unsure: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, settlement: AnySettlement) -> None:
        """An attempt has ended."""
        self._waiting.append(settlement)

    async def turn(self, want: Want | None) -> Turn:
        """Write what has gathered and claim the next in one round trip; on failure all of it stays gathered."""
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        try:
            turn = await self._store.jobs.turn(batch, want)
        except StoreError:
            self._unsure.update(settlement.job.id for settlement in batch)
            self._waiting[:0] = batch
            raise
        self._report(batch, turn.late)
        return turn

    def _report(self, batch: list[AnySettlement], late: frozenset[str]) -> None:
        """One that is late only because its first try did arrive is not late."""
        for settlement in batch:
            self._settled(settlement, settlement.job.id in late and settlement.job.id not in self._unsure)
        if self._unsure:
            self._unsure.difference_update(settlement.job.id for settlement in batch)

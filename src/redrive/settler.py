"""Gathers what attempts ended with, and writes it in batches; a store that is away loses nothing of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.clock import Clock
from redrive.conclusion import unwritable
from redrive.errors import StoreError, StoreUnavailable
from redrive.store import AnySettlement, Turn, Want

if TYPE_CHECKING:
    from redrive.store import Store

BATCH = 500


class Settler:
    """The settlements of one worker on their way to the store."""

    def __init__(self, store: "Store", clock: Clock, settled: Callable[[AnySettlement, bool], None]) -> None:
        self._store = store
        self._clock = clock
        self._settled = settled
        self._waiting: list[AnySettlement] = []
        self._unsure: set[str] = set()
        self._singly = 0
        """So many go one by one, because one of them is what the store choked on."""
        self._replaced: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pressed(self) -> bool:
        """Whether more waits than went with the last turn."""
        return self._singly > 0 or len(self._waiting) >= BATCH

    def add(self, settlement: AnySettlement) -> None:
        """An attempt has ended."""
        self._waiting.append(settlement)

    async def turn(self, want: Want | None) -> Turn:
        """Write what has gathered and claim the next in one round trip; on failure all of it stays gathered."""
        size = 1 if self._singly else BATCH
        batch, self._waiting = self._waiting[:size], self._waiting[size:]
        try:
            turn = await self._store.jobs.turn(batch, None if self._singly else want)
        except StoreError as error:
            if isinstance(error, StoreUnavailable):  # the answer may have been lost after the commit
                self._unsure.update(settlement.job.id for settlement in batch)
            self._waiting[:0] = batch
            raise
        except Exception as error:  # noqa: BLE001 - whatever a driver raises about a value it cannot write
            self._choked(batch, error)
            return Turn(frozenset(), [])
        self._singly = max(0, self._singly - len(batch))
        self._report(batch, turn.late)
        return turn

    def _choked(self, batch: list[AnySettlement], error: Exception) -> None:
        """One of these cannot be written as it is: it is found alone, and a minimal row takes its place."""
        if not batch:
            raise error
        self._singly = len(batch)
        if len(batch) == 1:
            [settlement] = batch
            if settlement.job.id in self._replaced:
                self._replaced.discard(settlement.job.id)
                self._settled(settlement, True)
                raise error
            self._replaced.add(settlement.job.id)
            batch = [unwritable(settlement, error, self._clock.now())]
        self._waiting[:0] = batch

    def _report(self, batch: list[AnySettlement], late: frozenset[str]) -> None:
        """One that is late only because its first try did arrive is not late."""
        for settlement in batch:
            self._settled(settlement, settlement.job.id in late and settlement.job.id not in self._unsure)
        if self._unsure:
            self._unsure.difference_update(settlement.job.id for settlement in batch)
        if self._replaced:
            self._replaced.difference_update(settlement.job.id for settlement in batch)

"""The store in memory keeps every rule."""

from pathlib import Path

from redrive.clock import Clock
from redrive.store import Settings, Store
from redrive.stores.memory import MemoryStore
from redrive.testing.contract import StoreContract


class TestMemoryStore(StoreContract):
    first: MemoryStore | None = None

    def make(self, place: Path, clock: Clock, settings: Settings, boot: str) -> Store:
        store = MemoryStore(name=place.name, clock=clock, settings=settings, boot=boot, beside=self.first)
        self.first = self.first or store
        return store

"""The SQLite store keeps every rule."""

from pathlib import Path

from redrive.clock import Clock
from redrive.store import Settings, Store
from redrive.stores.sqlite import SqliteStore
from redrive.testing.contract import StoreContract


class TestSqliteStore(StoreContract):
    def make(self, place: Path, clock: Clock, settings: Settings, boot: str) -> Store:
        return SqliteStore(place.with_suffix(".db"), clock=clock, settings=settings, boot=boot)

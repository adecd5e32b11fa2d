"""What every rule may use: stores to exercise, and a clock that moves only when told to."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from redrive.clock import Clock, ManualClock
from redrive.store import Settings, Store

BOOT = "this-boot"


class Opener(Protocol):
    """Opens the test's store once more, as another process would."""

    async def __call__(self, *, boot: str = BOOT, **settings: Any) -> Store: ...


class Rules(ABC):
    """Rules for a store; a subclass says how one is made."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    def make(self, place: Path, clock: Clock, settings: Settings, boot: str) -> Store:
        """A store that is not open yet; the same place is the same store."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def opener(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Opener]:
        stores: list[Store] = []

        async def opened(*, boot: str = BOOT, **settings: Any) -> Store:
            store = self.make(tmp_path / "store", clock, Settings(**settings), boot)
            await store.open()
            stores.append(store)
            return store

        yield opened
        for store in stores:
            await store.close()

    @pytest.fixture
    async def store(self, opener: Opener) -> Store:
        return await opener()

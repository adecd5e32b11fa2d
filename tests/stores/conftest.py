"""What tests of the SQLite store may use: stores that are closed at the end, and processes that are ended."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from redrive.clock import Clock
from redrive.store import Settings
from redrive.stores.sqlite import SqliteStore
from tests.stores.children import Child


class Open(Protocol):
    """Opens the test's file, once more if asked again."""

    async def __call__(self, *, clock: Clock | None = None, **settings: Any) -> SqliteStore: ...


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test lies."""
    return tmp_path / "store.db"


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[Open]:
    """Open stores."""
    stores: list[SqliteStore] = []

    async def one(*, clock: Clock | None = None, **settings: Any) -> SqliteStore:
        store = SqliteStore(path, clock=clock, settings=Settings(**settings))
        stores.append(store)
        await store.open()
        return store

    yield one
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened: Open) -> SqliteStore:
    """The test's store, open."""
    return await opened()


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start programs."""
    children: list[Child] = []

    def one(*command: object, **environment: str) -> Child:
        child = Child("clerk", *command, **environment)
        children.append(child)
        return child

    yield one
    for child in children:
        child.gone()

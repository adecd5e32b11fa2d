"""What every rule of the flow may use: an app on each store, a clock that moves only when told to, what was told."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.clock import Clock, ManualClock, SystemClock
from redrive.config import Config
from redrive.config.settings import WorkerSettings
from redrive.events import Recorder
from redrive.portal import portal
from redrive.store import Settings, Store
from redrive.stores.memory import MemoryStore
from redrive.stores.sqlite import SqliteStore

QUICK: dict[str, Any] = {"poll": 20_000, "heartbeat": 20_000, "grace": 5_000_000}
"""Settings of a worker that looks often, so that no test waits for a second."""

MakeApp = Callable[..., Redrive]


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engines on which a rule is the same."""
    return str(request.param)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when told to."""
    return ManualClock()


@pytest.fixture
def make_store(engine: str, tmp_path: Path) -> Callable[[Clock], Store]:
    """Makes a store of the engine; on SQLite each is another view of the same file."""
    stores: list[MemoryStore] = []

    def make(clock: Clock) -> Store:
        if engine == "sqlite":
            return SqliteStore(tmp_path / "jobs.db", clock=clock, settings=Settings())
        stores.append(MemoryStore(clock=clock, beside=stores[0] if stores else None))
        return stores[-1]

    return make


@pytest.fixture
def make_app(make_store: Callable[[Clock], Store]) -> Iterator[MakeApp]:
    """Makes an app on the test's store, which is open; `worker` are settings of its workers."""
    apps: list[Redrive] = []

    def make(clock: Clock | None = None, worker: dict[str, Any] | None = None, **options: Any) -> Redrive:
        settings = options.pop("config", Config(worker=WorkerSettings(**(QUICK | (worker or {})))))
        clock = clock or SystemClock()
        store = options.pop("store", None) or make_store(clock)
        app = Redrive(store=store, clock=clock, rng=random.Random(7), config=settings, **options)
        apps.append(app)
        with ThreadPoolExecutor(1) as aside:  # a test may call this inside its loop
            aside.submit(portal.run, app.opened, "opened").result()
        return app

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(make_app: MakeApp, clock: ManualClock) -> Redrive:
    """An app whose time stands still until it is moved."""
    return make_app(clock)


@pytest.fixture
def told(app: Redrive) -> Recorder:
    """Every event of the app."""
    recorder = Recorder()
    app.subscribe(recorder)
    return recorder

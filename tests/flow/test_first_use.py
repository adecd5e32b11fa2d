"""The first use of an app, wherever it happens: in many threads at once, or when the program ends."""

import asyncio
import threading
from pathlib import Path

import pytest

from redrive import Redrive

CALLERS = 12


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_many_loops_that_use_an_app_first_at_the_same_time_share_its_store(engine: str, tmp_path: Path) -> None:
    """One store is opened, whoever comes first: a second one in memory would take jobs that nobody ever finds."""
    app = Redrive("memory://" if engine == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    together, stores = threading.Barrier(CALLERS, timeout=10), []

    def caller() -> None:
        together.wait()
        asyncio.run(app.aenqueue("elsewhere"))
        stores.append(app.store)

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    before = _writers()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(stores) == CALLERS
    assert [depth.ready for depth in asyncio.run(app.store.jobs.depth())] == [CALLERS]
    assert _writers() - before == (engine == "sqlite")
    app.close()


def _writers() -> int:
    return sum(thread.name == "redrive-writer" for thread in threading.enumerate())

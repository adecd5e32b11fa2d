"""A job that has ended is gone: what is left in circles would cost every worker the time of the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from redrive import Redrive, Retry, current

pytestmark = pytest.mark.anyio
JOBS = 100


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected but what is asked for."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("fails", [False, True], ids=["well", "failing"])
@pytest.mark.parametrize("plain", [False, True], ids=["loop", "thread"])
async def test_a_job_leaves_nothing_for_the_garbage_collector(
    app: Redrive, uncollected: None, plain: bool, fails: bool
) -> None:
    """Whether it ends well or fails, on the loop or in a thread: less than one object in circles for each job."""

    def end() -> int:
        if fails:
            raise ConnectionError(f"attempt {current().attempt}")
        return current().attempt

    async def aend() -> int:
        return end()

    app.task(name="end", retry=Retry(1))(end if plain else aend)
    for _ in range(JOBS):
        await app.aenqueue("end")
    await app.adrain()
    gc.collect()
    for _ in range(JOBS):
        await app.aenqueue("end")
    gc.collect()
    async with app.worker(burst=True) as worker:
        before = gc.collect()
        await worker._pump
        assert gc.collect() - before < JOBS
    assert worker.done + worker.failed == JOBS

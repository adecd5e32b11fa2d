"""Results: kept for a day if they can be, and a clear word when they were not."""

import asyncio
from typing import Any

import pytest

from redrive import Bury, Discard, JobFailed, NotFound, NotReady, Redrive
from redrive.events import Recorder
from redrive.job import State
from tests.flow.conftest import MakeApp
from tests.flow.seen import state
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1, {"b": None}]}, 2**63, "ü\n"])
async def test_a_result_comes_back_as_it_was(app: Redrive, value: Any) -> None:
    """Any JSON value; a handler that returns False has simply returned False."""

    @app.task
    async def work() -> Any:
        return value

    job = await work.aenqueue()
    await app.adrain()
    assert await job.aresult() == value
    assert type(await job.aresult()) is type(value)


class Evil:
    """An object that resists."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * 70_000, "over the limit of 65,536"),
        (object(), "cannot be written as JSON"),
        (Evil(), "cannot be written as JSON"),
        (float("nan"), "NaN"),
        ("\ud800", "surrogate"),
        (lambda: None, "cannot be written as JSON"),
    ],
    ids=["size", "object", "evil", "nan", "surrogate", "function"],
)
async def test_a_result_that_cannot_be_kept_leaves_the_job_done_and_is_said(
    app: Redrive, told: Recorder, value: Any, why: str
) -> None:
    """Who asks for it gets a sentence, not a None."""

    @app.task
    async def work() -> Any:
        return value

    job = await work.aenqueue()
    assert await app.adrain() == 1
    assert await state(app, job) == State.DONE
    with pytest.raises(NotFound, match=f"is done, but what it returned was not kept: .*{why}"):
        await job.aresult()
    [succeeded] = [event for event in told.events if event.name == "job.succeeded"]
    assert why in succeeded.fields["note"]


async def test_a_result_nested_beyond_reason(app: Redrive) -> None:
    """A hundred thousand lists deep."""

    @app.task
    async def work() -> Any:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        return deep

    job = await work.aenqueue()
    await app.adrain()
    with pytest.raises(NotFound, match="nested too deeply"):
        await job.aresult()


async def test_before_the_end_there_is_none(app: Redrive) -> None:
    """It says how to wait for it, and waiting ends at its timeout."""

    @app.task
    async def work() -> int:
        return 1

    job = await work.aenqueue()
    with pytest.raises(NotReady, match="is ready and has no result yet"):
        await job.aresult()
    with pytest.raises(NotReady, match=r"is ready and has no result yet; its time to wait is over"):
        await job.await_(0.02)


async def test_waiting_ends_with_the_job(make_app: MakeApp) -> None:
    """However it ends."""
    app = make_app()

    @app.task
    async def work(how: str) -> str:
        await asyncio.sleep(0)
        match how:
            case "bury":
                raise Bury("bad input")
            case "discard":
                raise Discard("duplicate")
        return how

    good, bad, dropped = [await work.aenqueue(how) for how in ("good", "bury", "discard")]
    async with app.worker():
        assert await good.await_(10) == "good"
        with pytest.raises(JobFailed, match=r"is dead: .*Bury: bad input"):
            await bad.await_(10)
        with pytest.raises(JobFailed, match="is discarded: discarded"):
            await dropped.await_(10)


def test_waiting_in_a_script(make_app: MakeApp) -> None:
    """The plain names, from a thread without a loop."""
    app = make_app()

    @app.task
    def work(n: int) -> int:
        return n * 2

    job = work.enqueue(4)
    assert app.drain() == 1
    assert job.wait(10) == job.result() == 8


async def test_a_job_that_is_forgotten_says_so(app: Redrive) -> None:
    """After its retention."""

    @app.task
    async def work() -> None: ...

    job = await work.aenqueue()
    await app.adrain()
    app.clock.advance("49h")  # type: ignore[attr-defined]
    await auntil(lambda: app.store.jobs.prune(10))
    with pytest.raises(NotFound, match="finished jobs are kept for 24h"):
        await job.aresult()

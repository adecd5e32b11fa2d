"""Leaving: what runs may finish, what does not is given back, and a second word ends it at once."""

import asyncio
import threading
from typing import Any

import pytest

from redrive import Redrive
from redrive.errors import UsageError
from redrive.events import Recorder
from redrive.job import State
from tests.flow.conftest import MakeApp
from tests.flow.seen import journal, live, names, state
from tests.waiting import auntil, set_in_the_end

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(make_app: MakeApp) -> Redrive:
    """A worker's grace runs on the loop's own time."""
    return make_app()


async def test_what_runs_may_finish_and_nothing_more_is_claimed(app: Redrive, told: Recorder) -> None:
    """Within the grace period."""
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await release.wait()

    async with app.worker(concurrency=1) as worker:
        first, second = await work.aenqueue(), await work.aenqueue()
        await started.wait()
        worker.drain()
        await auntil(lambda: "worker.draining" in names(told))
        release.set()
    assert (await state(app, first), await state(app, second)) == (State.DONE, State.READY)
    assert names(told)[-1] == "worker.stopped"


@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_what_does_not_finish_is_given_back_and_spends_nothing(make_app: MakeApp, plain: bool) -> None:
    """After the grace period; the journal has it."""
    app = make_app(worker={"grace": 50_000})
    started, release = threading.Event(), threading.Event()

    if plain:

        @app.task(name="long")
        def long() -> None:
            started.set()
            release.wait(10)
    else:

        @app.task(name="long")
        async def along() -> None:
            started.set()
            await asyncio.Event().wait()

    job = await app.aenqueue("long")
    async with app.worker():
        await auntil(started.is_set)
    release.set()
    back = await live(app, job)
    assert (back.state, back.attempts, back.starts, back.suspect) == (State.READY, 0, 1, 0)
    assert await journal(app, job) == ["job.released"]


async def test_a_drained_worker_does_not_ask_to_be_replaced(make_app: MakeApp) -> None:
    """Although a thread that ignores its end has taken all of its slots: who drained it wants none."""
    app, told = make_app(worker={"grace": 50_000}), Recorder()
    app.subscribe(told)
    started, release = threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        started.set()
        release.wait(10)

    await long.aenqueue()
    worker = app.worker(threads=1)
    running = asyncio.create_task(worker.run())
    await auntil(started.is_set)
    worker.drain()
    assert await running == 0
    release.set()
    assert {"worker.stuck", "worker.recycled"}.isdisjoint(names(told))


async def test_a_second_word_leaves_at_once(app: Redrive) -> None:
    """Even beside a handler that will not end: it is given back over its head."""
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn() -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await stubborn.aenqueue()
    with set_in_the_end(release):
        async with asyncio.timeout(20), app.worker() as worker:
            await started.wait()
            worker.drain()
            worker.stop_now()
        assert await state(app, job) == State.READY
        assert [entry.text for entry in await app.store.journal.events(job=job.id)] == [
            "its worker left while it ran",
        ]


async def test_a_drain_ordered_through_the_store_is_obeyed(app: Redrive) -> None:
    """By the next heartbeat."""
    async with app.worker() as worker:
        assert await app.store.workers.tell(worker.id, "drain", "alice")
        await asyncio.wait_for(asyncio.wait({worker._pump}), 20)


async def test_the_row_says_what_it_does(app: Redrive) -> None:
    """Tasks, queues, slots, what runs, and that it drains."""
    started, release = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        started.set()
        await release.wait()

    job = await work.aenqueue()
    async with app.worker(["default"], concurrency=3) as worker:
        await started.wait()
        await auntil(lambda: _row(app, running=(job.id,), state="running", tasks=("work",), slots=3))
        worker.drain()
        await auntil(lambda: _row(app, state="draining", queues=("default",)))
        release.set()


async def _row(app: Redrive, **expected: Any) -> bool:
    [row] = await app.store.workers.find()
    return all(getattr(row, name) == value for name, value in expected.items())


async def test_a_burst_ends_when_nothing_is_left_to_do_now(app: Redrive) -> None:
    """What is scheduled for later stays."""
    ran = []

    @app.task
    async def work(n: int) -> None:
        ran.append(n)
        if n:
            await work.aenqueue(n - 1)

    await work.aenqueue(3)
    later = await work.using(delay="1h").aenqueue(9)
    assert await app.worker(burst=True).run() == 0
    assert (ran, await state(app, later)) == ([3, 2, 1, 0], State.SCHEDULED)


async def test_a_worker_runs_once(app: Redrive) -> None:
    """A second use says what to do."""
    worker = app.worker(burst=True)
    await worker.run()
    with pytest.raises(UsageError, match=r"make another one with app.worker\(\)"):
        await worker.run()


async def test_told_to_leave_before_it_began(app: Redrive) -> None:
    """It starts, claims nothing, and leaves."""

    @app.task
    async def work() -> None: ...

    job = await work.aenqueue()
    worker = app.worker()
    worker.drain()
    await asyncio.wait_for(worker.run(), 20)
    assert await state(app, job) == State.READY


async def test_a_cancelled_run_gives_back_what_it_has(make_app: MakeApp) -> None:
    """As when the program around it ends."""
    app = make_app(worker={"grace": 50_000})
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await long.aenqueue()
    running = asyncio.create_task(app.worker().run())
    await started.wait()
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()
    assert await state(app, job) == State.READY


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"threads": -1}, {"concurrency": True}, {"queues": "email"}, {"queues": {"a": "x"}}]
)
async def test_wrong_arguments_are_refused(app: Redrive, wrong: dict[str, Any]) -> None:
    """In one sentence."""
    with pytest.raises(UsageError):
        app.worker(**wrong)

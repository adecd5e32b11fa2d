"""Every handler has a deadline; what is over it fails as a timeout, and says what becomes of its slot."""

import asyncio
import threading
from typing import Any

import pytest

import redrive
from redrive import Redrive, Retry
from redrive.errors import UsageError
from redrive.events import Recorder
from redrive.supervisor import EXIT_RECYCLE
from tests.flow.conftest import MakeApp
from tests.flow.seen import letter, names
from tests.waiting import auntil, set_in_the_end

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(make_app: MakeApp) -> Redrive:
    """Deadlines run on the loop's own time."""
    return make_app()


async def test_a_handler_on_the_loop_is_cancelled(app: Redrive) -> None:
    """It can clean up, and has failed as a timeout."""
    cleaned = []

    @app.task(timeout=0.05, retry=Retry(1))
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    job = await slow.aenqueue()
    await app.adrain()
    dead = await letter(app, job)
    assert (dead.reason, cleaned) == ("timeout", [True])
    assert "0.05s" in dead.message


async def test_a_handler_in_a_thread_fails_and_keeps_its_slot(app: Redrive) -> None:
    """The slot is free again when the thread comes back, and not before."""
    told = Recorder()
    app.subscribe(told)
    release, ran = threading.Event(), []

    @app.task(timeout=0.05, retry=Retry(1))
    def slow() -> None:
        release.wait(10)

    @app.task
    def quick() -> None:
        ran.append(True)

    job = await slow.aenqueue()
    async with app.worker(threads=3) as worker:
        await auntil(lambda: "job.buried" in names(told))
        assert (await letter(app, job)).reason == "timeout"
        await auntil(lambda: worker._slots.free("thread") == 2)
        await auntil(lambda: "worker.stuck" in names(told))
        await auntil(lambda: _stuck(app))
        await quick.aenqueue()
        await auntil(lambda: ran)
        release.set()
        await auntil(lambda: worker._slots.free("thread") == 3)
    [stuck] = [event for event in told.events if event.name == "worker.stuck"]
    assert (stuck.fields["stuck"], stuck.fields["slots"]) == (1, 3)


async def test_half_of_the_slots_stuck_recycles_the_process(app: Redrive) -> None:
    """It drains and asks to be replaced; what waits is left to the next one."""
    told = Recorder()
    app.subscribe(told)
    release = threading.Event()

    @app.task(timeout=0.05, retry=Retry(1))
    def slow() -> None:
        release.wait(10)

    for _ in range(4):
        await slow.aenqueue()
    code = await app.worker(threads=4).run()
    release.set()
    assert code == EXIT_RECYCLE
    assert "worker.recycled" in names(told)


async def test_a_handler_that_ignores_its_end_keeps_a_slot_of_the_loop(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has failed, and is counted as stuck until it ends."""
    monkeypatch.setattr("redrive.straight.Straight.patience", 0.02)
    told, release = Recorder(), asyncio.Event()
    app.subscribe(told)

    @app.task(timeout=0.05, retry=Retry(1))
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job = await stubborn.aenqueue()
    async with app.worker(concurrency=3) as worker:
        with set_in_the_end(release):
            await auntil(lambda: "job.buried" in names(told))
            assert (await letter(app, job)).reason == "timeout"
            await auntil(lambda: worker._slots.free("loop") == 2)
        await auntil(lambda: worker._slots.free("loop") == 3)


@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_a_handler_can_move_its_deadline(app: Redrive, plain: bool) -> None:
    """From wherever it runs."""
    ended = threading.Event()

    def moved() -> float:
        context = redrive.current()
        before = context.deadline
        context.extend("1m")
        return (context.deadline - before) / 1e6

    if plain:

        @app.task(name="long", timeout=0.2)
        def long() -> float:
            later = moved()
            ended.wait(0.4)
            return later
    else:

        @app.task(name="long", timeout=0.2)
        async def along() -> float:
            later = moved()
            await asyncio.sleep(0.4)  # sleep: the handler takes longer than its first deadline
            return later

    job = await app.aenqueue("long")
    await app.adrain()
    assert 59 < await job.aresult() < 61


async def test_hooks_have_a_deadline_too(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never ends does not hold its job for ever."""
    monkeypatch.setattr("redrive.scope.HOOK_GRACE", 0.05)

    @app.task(timeout=0.05, retry=Retry(1))
    async def work() -> None: ...

    @app.around_attempt
    async def endless(ctx: Any, run: Any) -> Any:
        await run()
        await asyncio.Event().wait()

    job = await work.aenqueue()
    await app.adrain()
    assert (await letter(app, job)).reason == "timeout"


async def test_a_hook_sees_the_timeout_and_can_clean_up(app: Redrive) -> None:
    """The handler's deadline comes first, as an exception like any other."""
    seen = []

    @app.task(timeout=0.05, retry=Retry(1))
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.around_attempt
    async def hook(ctx: Any, run: Any) -> Any:
        try:
            return await run()
        except TimeoutError as error:
            await asyncio.sleep(0)
            seen.append(str(error))
            raise

    job = await slow.aenqueue()
    await app.adrain()
    assert len(seen) == 1
    assert (await letter(app, job)).reason == "timeout"


def test_a_deadline_of_nothing_is_refused(app: Redrive) -> None:
    """Where it is written."""
    with pytest.raises(UsageError, match="timeout"):
        app.task(timeout=0)(lambda: None)


async def _stuck(app: Redrive) -> bool:
    return [row.stuck for row in await app.store.workers.find()] == [1]

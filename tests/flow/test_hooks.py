"""Users' own code beside the flow: after events, around attempts, and once per process."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import redrive
from redrive import Redrive, Retry
from redrive.clock import ManualClock
from redrive.errors import UsageError
from redrive.events import Event
from redrive.job import State
from tests.flow.conftest import MakeApp
from tests.flow.seen import letter, state
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


async def test_a_hook_is_told_after_the_fact(app: Redrive) -> None:
    """Plain and asynchronous ones; when the worker has left they have been told all."""
    plain, other = [], []

    @app.on("job.succeeded")
    def on_success(event: Event) -> None:
        assert event.job is not None
        plain.append((event.job.task, event.fields["attempt"]))

    @app.on("job.succeeded")
    async def aon_success(event: Event) -> None:
        await asyncio.sleep(0)
        other.append(event.name)

    @app.task(name="work")
    async def work() -> None: ...

    await work.aenqueue()
    await app.adrain()
    assert (plain, other) == ([("work", 1)], ["job.succeeded"])


async def test_an_unknown_event_gets_a_guess(app: Redrive) -> None:
    """At registration."""
    with pytest.raises(UsageError, match=r"unknown event 'job\.succeded', did you mean 'job\.succeeded'"):
        app.on("job.succeded")(print)


@pytest.mark.parametrize("error", [RuntimeError("mine"), SystemExit(1)])
async def test_a_hook_that_raises_touches_no_job(
    app: Redrive, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the next event is told all the same."""
    told = []

    @app.on("job.succeeded")
    def plain(event: Event) -> None:
        told.append(1)
        raise error

    @app.on("job.succeeded")
    async def other(event: Event) -> None:
        told.append(2)
        raise error

    @app.task
    async def work() -> None: ...

    jobs = [await work.aenqueue() for _ in range(2)]
    with caplog.at_level(logging.ERROR, "redrive"):
        await app.adrain()
    assert sorted(told) == [1, 1, 2, 2]
    assert [await state(app, job) for job in jobs] == [State.DONE] * 2
    assert len([line for line in caplog.records if "raised on job.succeeded" in line.getMessage()]) == 4


async def test_a_slow_hook_holds_up_nothing(make_app: MakeApp) -> None:
    """Jobs are done while it still has the first event."""
    app, release, told = make_app(), threading.Event(), []

    @app.on("job.succeeded")
    def slow(event: Event) -> None:
        release.wait(10)
        told.append(event)

    @app.task
    async def work() -> None: ...

    async with app.worker():
        for _ in range(50):
            job = await work.aenqueue()
        await job.await_(10)
        assert told == []
        release.set()
    assert len(told) == 50


async def test_too_many_waiting_events_are_said(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a hook cannot follow is not kept without bound; one line tells of it."""
    monkeypatch.setattr("redrive.hooks.WAITING_LIMIT", 3)
    release, told = threading.Event(), []

    @app.on("store.returned")
    def slow(event: Event) -> None:
        release.wait(10)
        told.append(event)

    with caplog.at_level(logging.ERROR, "redrive"):
        for _ in range(20):
            app.events.emit("store.returned")
    release.set()
    await app.hooks.told(10)
    assert 3 <= len(told) <= 4
    assert len([line for line in caplog.records if "hooks are too slow" in line.getMessage()]) == 1


@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_hooks_surround_an_attempt(app: Redrive, plain: bool) -> None:
    """They see the context, the result and the failure; `current()` works in them too."""
    seen: list[Any] = []

    @app.around_attempt
    async def inner(ctx: redrive.Context, run: Any) -> Any:
        assert redrive.current() is ctx
        try:
            result = await run()
        except ValueError as error:
            seen.append(str(error))
            raise
        seen.append(result)
        return result * 2

    @app.around_attempt
    async def outer(ctx: redrive.Context, run: Any) -> Any:
        seen.append((ctx.job.task, ctx.attempt))
        return await run()

    def body(n: int) -> int:
        if not n:
            raise ValueError("nothing")
        return n

    if plain:
        task: Any = app.task(name="work", retry=Retry(1))(body)
    else:

        async def abody(n: int) -> int:
            return body(n)

        task = app.task(name="work", retry=Retry(1))(abody)
    good, bad = await task.aenqueue(4), await task.aenqueue(0)
    await app.worker(concurrency=1, threads=1, burst=True).run()
    assert seen == [("work", 1), 4, ("work", 1), "nothing"]
    assert await good.aresult() == 8
    assert (await letter(app, bad)).message == "nothing"


async def test_a_hook_that_swallows_a_failure_decides(app: Redrive) -> None:
    """What the outermost hook returns is the result; it answers for it."""

    @app.task
    async def broken() -> None:
        raise RuntimeError("no")

    @app.around_attempt
    async def forgiving(ctx: Any, run: Any) -> str:
        with suppress(RuntimeError):
            await run()
        return "forgiven"

    job = await broken.aenqueue()
    await app.adrain()
    assert await job.aresult() == "forgiven"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_raises_is_a_failed_attempt(app: Redrive, when: str) -> None:
    """It is retried by the same policy, and its traceback shows the hook."""

    @app.task(retry=Retry(2))
    async def work() -> None: ...

    @app.around_attempt
    async def broken_hook(ctx: Any, run: Any) -> Any:
        if when == "after":
            await run()
        raise ConnectionError("in the hook")

    job = await work.aenqueue()
    await app.adrain()
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts) == ("network", 2)
    assert "broken_hook" in (dead.failures[0].traceback or "")


class Pool:
    """What a lifespan might open."""

    open = 0
    opened = 0

    @asynccontextmanager
    async def lifespan(self, app: Redrive) -> AsyncIterator["Pool"]:
        self.open += 1
        self.opened += 1
        async with asyncio.TaskGroup():  # a cancel scope: it must be left by the task that entered it
            yield self
        self.open -= 1


async def test_a_lifespan_is_entered_once_per_process(make_app: MakeApp, clock: ManualClock) -> None:
    """Two workers on one loop share it; the last one out ends it; handlers find it in their context."""
    pool, seen = Pool(), []
    app = make_app(clock, lifespan=pool.lifespan)

    @app.task
    async def work() -> None:
        seen.append(redrive.current().state)

    async with app.worker(), app.worker():
        assert (pool.open, pool.opened) == (1, 1)
        job = await work.aenqueue()
        await job.await_(10)
    assert (pool.open, pool.opened, seen) == (0, 1, [pool])
    await work.aenqueue()
    await app.adrain()
    assert (pool.open, pool.opened) == (0, 2)


async def test_a_lifespan_that_fails_is_the_workers_failure(make_app: MakeApp, clock: ManualClock) -> None:
    """Nothing is claimed, and no row of a worker is left."""

    @asynccontextmanager
    async def broken(app: Redrive) -> AsyncIterator[None]:
        if not app.tasks:
            raise ConnectionError("no database")
        yield

    app = make_app(clock, lifespan=broken)
    with pytest.raises(ConnectionError, match="no database"):
        await app.worker(burst=True).run()
    assert await app.store.workers.find() == []


async def test_an_end_of_a_lifespan_that_fails_is_not_swallowed(make_app: MakeApp, clock: ManualClock) -> None:
    """Whoever runs the worker learns of it."""

    @asynccontextmanager
    async def broken(app: Redrive) -> AsyncIterator[None]:
        yield
        raise ConnectionError("at the end")

    app = make_app(clock, lifespan=broken)
    with pytest.raises(ConnectionError, match="at the end"):
        await app.worker(burst=True).run()


async def test_a_subscriber_that_raises_touches_no_job(app: Redrive, caplog: pytest.LogCaptureFixture) -> None:
    """It stands on the flow's own way, and still cannot stop it."""

    def broken(event: Event) -> None:
        raise RuntimeError("no")

    app.subscribe(broken)

    @app.task
    async def work() -> None: ...

    job = await work.aenqueue()
    with caplog.at_level(logging.ERROR, "redrive"):
        await app.adrain()
    assert await state(app, job) == State.DONE
    await auntil(lambda: "a subscriber of" in caplog.text)

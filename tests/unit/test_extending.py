"""A handler that needs more time asks for it through its context, wherever it runs."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import redrive
from redrive import Redrive
from redrive.attempt import attempt
from redrive.bench import Bench, Identity
from redrive.clock import SECOND
from redrive.limits import Limits, encode_limits
from redrive.runners.thread import ThreadRunner
from redrive.store import AnySettlement, Done, Retried
from redrive.testing.factories import a_job
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A worker's bench with threads."""
    threads = ThreadRunner(2)
    yield Bench(Redrive("memory://"), Identity("w1"), threads=threads)
    threads.close()


async def tried(bench: Bench, handler: Any, milliseconds: int = 30) -> AnySettlement:
    """What follows from running a handler that is given so long."""
    task = bench.app.task(name=handler.__name__)(handler)
    policy = encode_limits(msgspec.structs.replace(Limits(), timeout=milliseconds * SECOND // 1000))
    return await attempt(bench, a_job(task=task.name, payload=b"{}", policy=policy))


async def test_a_coroutine_moves_its_deadline(bench: Bench) -> None:
    """In its first step, before it has yielded."""

    async def longer() -> str:
        redrive.current().extend(30)
        await asyncio.sleep(0.08)  # sleep: the handler's own, past its first deadline
        return "done"

    assert isinstance(await tried(bench, longer), Done)


async def test_a_plain_function_moves_its_deadline_from_its_thread(bench: Bench) -> None:
    """The loop's thread is asked to do it."""

    def longer() -> str:
        redrive.current().extend("30s")
        time.sleep(0.08)  # sleep: the handler's own, past its first deadline
        return "done"

    assert isinstance(await tried(bench, longer), Done)


async def test_a_deadline_moved_nearer_ends_the_handler_then(bench: Bench) -> None:
    """Its context tells the new one."""
    seen: list[int] = []

    async def shorter() -> None:
        context = redrive.current()
        seen.append(context.deadline)
        context.extend(0.01)
        seen.append(context.deadline)
        await asyncio.Event().wait()

    settlement = await tried(bench, shorter, 60_000)
    assert isinstance(settlement, Retried)
    assert settlement.failure.reason == "timeout"
    assert seen[1] < seen[0]


async def test_a_thread_that_outlived_its_attempt_moves_nothing(bench: Bench) -> None:
    """It asks too late: its slot stays the only thing it has."""
    over, asked = threading.Event(), threading.Event()
    seen: list[int] = []

    def stuck() -> None:
        context = redrive.current()
        over.wait()
        seen.append(context.deadline)
        context.extend(3600)
        seen.append(context.deadline)
        asked.set()

    assert isinstance(await tried(bench, stuck), Retried)
    over.set()
    await auntil(asked.is_set)
    assert seen[0] == seen[1]

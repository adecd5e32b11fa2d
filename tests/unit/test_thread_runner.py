"""Handlers in threads: outcomes as on the loop, and slots that stay taken as long as their thread does."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from redrive.outcome import Failed, Interrupted, Succeeded
from redrive.runners.deadlines import Expiring, deadlines
from redrive.runners.thread import ThreadRunner
from tests.waiting import auntil

pytestmark = pytest.mark.anyio

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


@pytest.fixture
async def threads() -> AsyncIterator[ThreadRunner]:
    """Two threads."""
    runner = ThreadRunner(2, name="under-test")
    yield runner
    runner.close()


def named() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("under-test")]


def raising(error: BaseException) -> Callable[[], object]:
    def handler() -> object:
        raise error

    return handler


async def test_a_function_that_returns_has_succeeded(threads: ThreadRunner) -> None:
    """It ran in a thread that is not the loop's."""
    assert await threads.run(threading.get_ident, 10) != Succeeded(threading.get_ident())
    assert await threads.run(lambda: "fine", 10) == Succeeded("fine")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
async def test_whatever_a_function_raises_is_its_failure(threads: ThreadRunner, kind: type[BaseException]) -> None:
    """And its thread takes the next one."""
    error = kind("mine")
    assert await threads.run(raising(error), 10) == Failed(error)
    assert await threads.run(lambda: "fine", 10) == Succeeded("fine")
    await auntil(lambda: len(named()) == 1)  # those of tests before may just be ending


async def test_a_function_sees_the_context_it_was_called_in(threads: ThreadRunner) -> None:
    """Context variables go along, and what it sets in them stays with it."""
    place.set("the task")
    assert await threads.run(place.get, 10) == Succeeded("the task")
    await threads.run(lambda: place.set("the thread"), 10)
    assert place.get() == "the task"


async def test_a_function_beyond_its_deadline_fails_and_keeps_its_slot(threads: ThreadRunner) -> None:
    """The thread cannot be ended: it counts as stuck until it returns."""
    over = threading.Event()
    outcome = await threads.run(over.wait, 0.02)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, TimeoutError)
    assert (threads.stuck, threads.free) == (1, 1)
    assert await threads.run(lambda: "fine", 10) == Succeeded("fine")
    over.set()
    await auntil(lambda: threads.stuck == 0)
    assert threads.free == 2


async def test_more_than_fits_is_refused(threads: ThreadRunner) -> None:
    """A stuck thread is a taken one."""
    over = threading.Event()
    await asyncio.gather(threads.run(over.wait, 0.01), threads.run(over.wait, 0.01))
    with pytest.raises(RuntimeError, match="all 2 threads are taken"):
        await threads.run(lambda: None, 10)
    over.set()


async def test_a_cancellation_interrupts_and_leaves_the_thread_to_itself(threads: ThreadRunner) -> None:
    """What its worker gives back may still run here: the slot stays taken."""
    over, running = threading.Event(), threading.Event()

    def waiting() -> None:
        running.set()
        over.wait()

    task = asyncio.create_task(threads.run(waiting, 10))
    await auntil(running.is_set)
    task.cancel("its worker stops")
    assert await task == Interrupted("its worker stops")
    assert (threads.stuck, threads.free) == (1, 1)
    over.set()
    await auntil(lambda: threads.stuck == 0)


async def test_the_deadline_can_be_moved_from_inside_the_thread(
    threads: ThreadRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, as a handler that needs more time asks for it; the loop's own thread does it."""
    loop, ahead, opened = asyncio.get_running_loop(), [0.0], list[Expiring]()
    usual = loop.time
    monkeypatch.setattr(loop, "time", lambda: usual() + ahead[0])

    def on_the_loop(call: Callable[[], object]) -> None:
        done = threading.Event()
        loop.call_soon_threadsafe(call)
        loop.call_soon_threadsafe(done.set)
        assert done.wait(60)

    def extending() -> str:
        on_the_loop(lambda: deadlines().move(opened[0], 600))
        ahead[0] = 61.0  # past its first deadline
        on_the_loop(lambda: None)
        on_the_loop(lambda: None)  # the loop has looked at its timers in between
        return "fine"

    assert await threads.run(extending, 60, opened=opened.append) == Succeeded("fine")
    assert threads.stuck == 0


async def test_threads_are_started_when_needed_and_end_when_closed() -> None:
    """One for one function after the other, more for several at once, none when it is over."""
    runner = ThreadRunner(3, name="under-test")
    await auntil(lambda: not named())
    for _ in range(5):
        await runner.run(lambda: None, 10)
    assert len(named()) == 1
    barrier = threading.Barrier(3)
    await asyncio.gather(*(runner.run(barrier.wait, 10) for _ in range(3)))
    assert len(named()) == 3
    runner.close()
    await auntil(lambda: not named())


async def test_many_results_come_back_to_their_callers() -> None:
    """None is lost or mixed up when threads finish together."""
    runner = ThreadRunner(8, name="under-test")
    free = asyncio.Semaphore(8)

    async def run(number: int) -> object:
        async with free:
            return await runner.run(lambda: number, 10)

    assert await asyncio.gather(*map(run, range(500))) == [Succeeded(number) for number in range(500)]
    assert runner.free == 8
    runner.close()


async def test_where_no_thread_can_be_started_nothing_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function does not run later, when nobody waits for it any more."""
    runner = ThreadRunner(1, name="under-test")
    ran: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            await runner.run(lambda: ran.append("the first"), 10)
    await runner.run(lambda: ran.append("the second"), 10)
    assert ran == ["the second"]
    assert runner.free == 1
    runner.close()


def test_a_stuck_thread_does_not_keep_the_process_from_ending() -> None:
    """A real process with a handler that never returns ends when its work is over."""
    program = """
import asyncio, threading
from redrive.runners.thread import ThreadRunner
async def main():
    print(type((await ThreadRunner(1).run(threading.Event().wait, 0.01)).error).__name__)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "TimeoutError\n"

"""Handlers on the loop: whatever one does, an outcome comes back, and nothing else does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from redrive.errors import Snooze
from redrive.outcome import Failed, Interrupted, Outcome, Succeeded
from redrive.runners.deadlines import Expiring, deadlines
from redrive.runners.loop import run_on_loop
from tests.waiting import auntil, set_in_the_end

pytestmark = pytest.mark.anyio


async def returning() -> str:
    await asyncio.sleep(0)
    return "fine"


async def waiting() -> None:
    await asyncio.Event().wait()


def raising(error: BaseException) -> Callable[[], Awaitable[object]]:
    """A handler that raises this after its first step."""

    async def handler() -> None:
        await asyncio.sleep(0)
        raise error

    return handler


async def timed_out(call: Callable[[], Awaitable[object]], seconds: float = 0.02) -> Failed:
    """The outcome of a handler that was ended at its deadline."""
    outcome = await run_on_loop(call, seconds, patience=5)
    assert isinstance(outcome, Failed)
    return outcome


async def test_a_handler_that_returns_has_succeeded() -> None:
    """Its result comes along."""
    assert await run_on_loop(returning, 10) == Succeeded("fine")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_whatever_a_handler_raises_is_its_failure(kind: type[BaseException]) -> None:
    """The loop, and the task that waits, go on."""
    error = kind("mine")
    assert await run_on_loop(raising(error), 10) == Failed(error)
    assert await run_on_loop(returning, 10) == Succeeded("fine")


async def test_a_handler_that_cancels_itself_has_failed() -> None:
    """Nobody else stopped it, so it was not interrupted."""

    async def cancelling_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("by myself")
        await asyncio.sleep(0)

    outcome = await run_on_loop(cancelling_itself, 10)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, asyncio.CancelledError)


async def test_a_handler_that_cancels_itself_with_its_last_step_has_succeeded() -> None:
    """It returned, and the cancellation found nothing to end."""

    async def cancelling_late() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "fine"

    assert await run_on_loop(cancelling_late, 10) == Succeeded("fine")


async def test_a_handler_is_cancelled_at_its_deadline() -> None:
    """It can clean up, and has failed with a timeout that names the limit."""
    seen: list[str] = []

    async def cleaning_up() -> None:
        try:
            await waiting()
        finally:
            seen.append("cleaned up")

    outcome = await timed_out(cleaning_up)
    assert isinstance(outcome.error, TimeoutError)
    assert str(outcome.error) == "ran longer than its limit of 0.02s"
    assert seen == ["cleaned up"]


async def test_what_a_handler_raises_when_ended_is_the_cause_of_its_timeout() -> None:
    """The stack of where it stood is not lost."""

    async def failing_to_clean_up() -> None:
        try:
            await waiting()
        finally:
            raise OSError("disk gone")

    outcome = await timed_out(failing_to_clean_up)
    assert isinstance(outcome.error, TimeoutError)
    assert str(outcome.error.__cause__) == "disk gone"


async def test_a_handler_that_returns_after_its_deadline_has_failed() -> None:
    """To swallow the cancellation does not count as having done the work."""

    async def swallowing() -> str:
        with suppress(asyncio.CancelledError):
            await waiting()
        return "fine"

    assert isinstance((await timed_out(swallowing)).error, TimeoutError)


async def test_a_handler_may_say_at_its_deadline_how_to_go_on() -> None:
    """A signal on purpose is stronger than the timeout."""
    wish = Snooze(60)

    async def snoozing() -> None:
        try:
            await waiting()
        except asyncio.CancelledError:
            raise wish from None

    assert await run_on_loop(snoozing, 0.02) == Failed(wish)


async def test_a_handler_that_ignores_its_end_is_listed_and_left() -> None:
    """Its slot is free after its patience; it leaves the list when it ends after all."""
    listed: set[asyncio.Task[None]] = set()
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    with set_in_the_end(over):
        outcome = await run_on_loop(stubborn, 0.02, patience=0.02, listed=listed)
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, TimeoutError)
        assert len(listed) == 1
    await auntil(lambda: not listed)


async def test_a_cancellation_from_outside_interrupts_the_handler() -> None:
    """The task that waits is not ended by it: it reports why."""
    seen: list[str] = []

    async def cleaning_up() -> None:
        try:
            await waiting()
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    assert await stopped(cleaning_up) == Interrupted("its lease was lost")
    assert seen == ["cleaned up"]


async def test_a_handler_cancelled_before_its_first_step_was_interrupted() -> None:
    """It never began, and nobody waits for it."""

    async def cancel_at_once() -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("too late")
        return await run_on_loop(waiting, 10)

    assert await asyncio.wait_for(asyncio.create_task(cancel_at_once()), 5) == Interrupted("too late")


async def test_an_error_in_an_interrupted_handler_is_not_its_failure() -> None:
    """It was stopped by us: the job runs again and has spent nothing."""

    async def falling_over() -> None:
        try:
            await waiting()
        finally:
            raise OSError("disk gone")

    assert await stopped(falling_over) == Interrupted("its lease was lost")


async def test_an_outcome_that_is_there_is_stronger_than_a_cancellation() -> None:
    """What was done is not done again."""
    done = asyncio.Event()

    async def finishing() -> str:
        await asyncio.sleep(0)
        done.set()
        return "fine"

    task = asyncio.create_task(run_on_loop(finishing, 10))
    await done.wait()
    task.cancel("its worker stops")
    assert await task == Succeeded("fine")


async def test_a_second_cancellation_changes_nothing() -> None:
    """The first reason stays, and the handler keeps its patience."""
    running = asyncio.Event()
    told = asyncio.Event()

    async def slow_to_end() -> None:
        running.set()
        for _ in range(2):
            try:
                await waiting()
            except asyncio.CancelledError:
                told.set()

    task = asyncio.create_task(run_on_loop(slow_to_end, 10))
    await running.wait()
    task.cancel("its worker stops")
    await told.wait()
    task.cancel("its worker was told to leave")
    assert await task == Interrupted("its worker stops")


async def test_a_moved_deadline_lets_the_handler_go_on() -> None:
    """Moved later it is not ended at the first deadline; moved earlier it ends before it."""
    opened: list[Expiring] = []

    async def extending() -> str:
        deadlines().move(opened[0], 30)
        await asyncio.sleep(0.06)  # sleep: the handler's own, past its first deadline
        return "fine"

    async def shortening() -> None:
        deadlines().move(opened[-1], 0.01)
        await waiting()

    assert await run_on_loop(extending, 0.02, opened=opened.append) == Succeeded("fine")
    outcome = await run_on_loop(shortening, 60, opened=opened.append)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, TimeoutError)


async def test_the_deadline_can_be_moved_in_the_first_step() -> None:
    """Also where tasks begin eagerly, before whoever started them goes on."""
    opened: list[Expiring] = []

    async def extending() -> str:
        assert opened
        deadlines().move(opened[0], 30)
        await asyncio.sleep(0.06)  # sleep: the handler's own, past its first deadline
        return "fine"

    assert await run_on_loop(extending, 0.02, opened=opened.append) == Succeeded("fine")


async def test_a_handler_without_a_deadline_is_not_given_one() -> None:
    """What keeps the deadline of an isolated handler is its parent."""
    opened: list[Expiring] = []

    async def extending() -> str:
        deadlines().move(opened[0], 0)
        await asyncio.sleep(0.06)  # sleep: the handler's own, past its first deadline
        return "fine"

    assert await run_on_loop(extending, None, opened=opened.append) == Succeeded("fine")


async def test_a_hundred_handlers_end_at_their_own_deadlines() -> None:
    """One timer serves them all."""
    outcomes = await asyncio.gather(*(timed_out(waiting, 0.001 * number) for number in range(1, 101)))
    assert all(isinstance(outcome.error, TimeoutError) for outcome in outcomes)


async def stopped(call: Callable[[], Awaitable[object]]) -> Outcome:
    """The outcome of a handler whose worker stops it while it runs."""
    running = asyncio.Event()

    async def announced() -> object:
        running.set()
        return await call()

    task = asyncio.create_task(run_on_loop(announced, 10))
    await running.wait()
    task.cancel("its lease was lost")
    return await task

"""One timer for all deadlines of a loop, and what it says when they are over."""

import asyncio
import threading

import pytest

from redrive.outcome import Interrupted
from redrive.runners.deadlines import Deadlines, deadlines, interrupted, too_long
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


class Run:
    """Remembers that its time was over, and how much it had been given."""

    def __init__(self) -> None:
        self.limits: list[float] = []

    def expire(self, limit: float) -> None:
        self.limits.append(limit)


async def test_a_run_expires_once_and_learns_what_it_was_given() -> None:
    """A deadline that has come is forgotten."""
    run = Run()
    deadlines().add(run, 0.01)
    await auntil(lambda: run.limits)
    deadlines().move(run, 0)
    await asyncio.sleep(0)
    await turned()
    assert run.limits == [pytest.approx(0.01)]


async def test_runs_expire_in_the_order_of_their_deadlines() -> None:
    """Whatever the order in which they were added."""
    order: list[str] = []

    class Named(Run):
        def __init__(self, name: str) -> None:
            self.name = name

        def expire(self, limit: float) -> None:
            order.append(self.name)

    for name, seconds in (("third", 0.09), ("first", 0.01), ("second", 0.05)):
        deadlines().add(Named(name), seconds)
    await auntil(lambda: len(order) == 3)
    assert order == ["first", "second", "third"]


async def test_a_run_that_ended_in_time_does_not_expire() -> None:
    """Removing one leaves the others."""
    ended, late = Run(), Run()
    deadlines().add(ended, 0.01)
    deadlines().add(late, 0.02)
    deadlines().remove(ended)
    await auntil(lambda: late.limits)
    assert ended.limits == []


async def test_a_moved_deadline_is_the_one_that_counts() -> None:
    """Later, earlier, and several times; the limit is what it had in all."""
    moved, mark = Run(), Run()
    deadlines().add(moved, 0.01)
    deadlines().move(moved, 60)
    deadlines().add(mark, 0.03)
    await auntil(lambda: mark.limits)
    assert moved.limits == []
    deadlines().move(moved, 30)
    deadlines().move(moved, 0.01)
    await auntil(lambda: moved.limits)
    assert 0.03 < moved.limits[0] < 10


async def test_what_never_had_a_deadline_gets_none_by_moving() -> None:
    """A late request to extend does not revive a run."""
    ended, mark = Run(), Run()
    deadlines().add(ended, 60)
    deadlines().remove(ended)
    deadlines().move(ended, 0)
    deadlines().add(mark, 0.01)
    await auntil(lambda: mark.limits)
    assert ended.limits == []


async def test_each_loop_has_deadlines_of_its_own() -> None:
    """Asked from another thread's loop, they are that loop's; within one loop they are the same."""
    other: list[Deadlines] = []

    async def ask() -> None:
        other.append(deadlines())

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert deadlines() is deadlines()
    assert other[0] is not deadlines()


@pytest.mark.parametrize(
    ("limit", "said"),
    [(0.05, "0.05s"), (30.0000004, "30s"), (12.3456789, "12.346s"), (900, "15m"), (5400, "1h30m")],
)
def test_a_limit_is_said_as_people_write_it(limit: float, said: str) -> None:
    """Without the noise of a clock."""
    assert str(too_long(limit)) == f"ran longer than its limit of {said}"


async def test_an_interrupted_task_goes_on_and_keeps_the_reason() -> None:
    """The cancellation is used up, so that what awaits it later is not cancelled again."""

    async def reporting() -> tuple[Interrupted, int]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            why = interrupted(cancelled)
        task = asyncio.current_task()
        assert task is not None
        return why, task.cancelling()

    task = asyncio.create_task(reporting())
    await asyncio.sleep(0)
    task.cancel("its lease was lost")
    assert await task == (Interrupted("its lease was lost"), 0)


async def turned() -> None:
    """The loop has run all timers that are due now."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_later(0.005, reached.set_result, None)
    await reached

"""A hint and the end of a listener may meet: a worker that is woken as it leaves must leave."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from redrive.stores.memory import MemoryStore
from redrive.stores.sqlite.wakeups import Bell, Ear

pytestmark = pytest.mark.anyio

STEPS = range(8)
"""So many turns of the loop a hint may take to its listener, and more."""


async def meets(wait: Callable[[], Awaitable[bool]], ring: Callable[[], None], step: int) -> None:
    """Ring, and end the listener so many turns later."""
    listener = asyncio.ensure_future(wait())
    for _ in STEPS:
        await asyncio.sleep(0)
    ring()
    for _ in range(step):
        await asyncio.sleep(0)
    if listener.cancel():
        await asyncio.wait({listener})
        assert listener.cancelled()


@pytest.mark.parametrize("step", STEPS)
async def test_who_listens_at_a_pipe_can_be_ended_at_any_moment(tmp_path: Path, step: int) -> None:
    """A cancellation that meets a hint is not lost."""
    ear, bell = Ear(tmp_path, "w1"), Bell(tmp_path)
    await meets(lambda: ear.wait(60), bell.ring, step)
    ear.close()
    bell.close()


@pytest.mark.parametrize("step", STEPS)
async def test_who_listens_in_memory_can_be_ended_at_any_moment(step: int) -> None:
    """The same between the threads of one process."""
    store = MemoryStore()
    await meets(lambda: store.wait("w1", 60), store._rows.wake, step)

"""The synchronous face: one loop behind all plain calls."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from redrive.errors import WrongLoop
from redrive.portal import Portal
from tests.waiting import until


async def double(n: int) -> int:
    await asyncio.sleep(0)
    return n * 2


async def fail() -> None:
    raise KeyError("inside")


def test_the_answer_and_the_error_come_back() -> None:
    """As if it had been called here."""
    portal = Portal()
    assert portal.run(lambda: double(4), "double") == 8
    with pytest.raises(KeyError, match="inside"):
        portal.run(fail, "fail")


def test_all_threads_share_one_loop() -> None:
    """However many ask first."""
    portal, loops = Portal(), set()

    async def here() -> None:
        loops.add(asyncio.get_running_loop())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: portal.run(here, "here"), range(32)))
    assert len(loops) == 1


def test_inside_a_loop_it_refuses_and_names_the_twin() -> None:
    """The plain name's own, unless another is given; what would have been called is not even made."""
    portal, made = Portal(), []

    async def inside() -> None:
        with pytest.raises(WrongLoop, match=r"drain\(\) would block .* write `await ….adrain\(…\)` instead"):
            portal.run(lambda: made.append(1) or double(1), "drain")  # type: ignore[func-returns-value]
        with pytest.raises(WrongLoop, match=r"….await_\(…\)"):
            portal.run(lambda: double(1), "wait", "await_")

    asyncio.run(inside())
    assert made == []


def test_a_caller_that_gives_up_takes_its_call_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it waits must not leave a worker running behind its back."""
    portal, began, cancelled = Portal(), threading.Event(), threading.Event()

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupted(self: object, timeout: float | None = None) -> None:
        began.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        portal.run(endless, "endless")
    monkeypatch.undo()
    assert until(cancelled.is_set)

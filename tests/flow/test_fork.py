"""Forks: a server that loads the app before it forks can enqueue on both sides of it."""

import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.clock import SystemClock
from redrive.portal import portal
from redrive.store import JobQuery
from tests.flow.conftest import MakeApp


@pytest.fixture
def engine() -> str:
    """Only a file is shared with a fork."""
    return "sqlite"


def forked(body: Any) -> int:
    """Run something in a fork; answers how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException:  # noqa: BLE001 - whatever it is, it must not run on as a second pytest
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def ids(app: Redrive) -> set[str]:
    """Every job there is."""

    async def found() -> set[str]:
        return {row.id for row in await (await app.opened()).jobs.find(JobQuery(limit=100))}

    return portal.run(found, "ids")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_enqueueing_before_and_after_a_fork(make_app: MakeApp, tmp_path: Path) -> None:
    """In the parent and in the children, with hooks that have a thread of their own."""
    app, note = make_app(), tmp_path / "told"

    @app.task(name="work")
    def work(n: int) -> None: ...

    @app.on("job.enqueued")
    def hook(event: object) -> None:
        with note.open("a") as file:
            file.write("told\n")

    made = {work.enqueue(0).id}

    def child() -> None:
        work.enqueue(1)
        app.enqueue_many(work.job(n) for n in range(3))
        portal.run(lambda: app.hooks.told(10), "told")

    assert [forked(child), forked(child)] == [0, 0]
    made.add(work.enqueue(2).id)
    found = ids(app)
    assert made <= found
    assert len(found) == 2 + 2 * 4
    portal.run(lambda: app.hooks.told(10), "told")
    assert note.read_text().count("told") == len(found)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_an_app_that_was_never_used_before_the_fork(make_store: Any) -> None:
    """As gunicorn's preload does: nothing is open yet."""
    app = Redrive(store=make_store(SystemClock()))

    @app.task(name="work")
    def work() -> None: ...

    assert forked(work.enqueue) == 0
    assert forked(lambda: app.drain(20)) == 0
    work.enqueue()
    assert len(ids(app)) == 2
    app.close()

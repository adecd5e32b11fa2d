"""Isolated jobs from end to end: the real child program, a real app, and what its parent is told."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from redrive import calls
from redrive.clock import SECOND
from redrive.config import Config
from redrive.runners.process import ChildPool, Reply, StartFailed
from redrive.store import AnySettlement, Done, Released, Retried, Snoozed
from redrive.testing.factories import a_job

pytestmark = pytest.mark.anyio

PROGRAMS = Path(__file__).with_name("programs")
NOW = 1_900_000_000 * SECOND


@asynccontextmanager
async def children(
    monkeypatch: pytest.MonkeyPatch, app: str = "isolated_app:app", config: Config | None = None
) -> AsyncIterator[ChildPool]:
    """A pool of real children for an app that only this process's import path leads to."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(PROGRAMS)])
    pool = ChildPool([sys.executable, "-m", "redrive.child"], calls.hello(app, "worker-1", config), 1)
    try:
        yield pool
    finally:
        await pool.close()


async def settled(pool: ChildPool, task: str, timeout: float = 20.0, **arguments: object) -> AnySettlement:
    """What the child answers to a job of this task."""
    job = a_job(task=task, payload=msgspec.json.encode(arguments), attempts=1, fence=3)
    answer = await pool.run(calls.encode(job, NOW), timeout=timeout)
    assert isinstance(answer, Reply), answer
    settlement = calls.decode_settlement(answer.frame, job)
    assert settlement.job is job
    return settlement


def kept(settlement: AnySettlement) -> object:
    """The result of a job that is done."""
    assert isinstance(settlement, Done), settlement
    assert settlement.result is not None
    return msgspec.json.decode(settlement.result)


async def test_jobs_run_in_a_child_that_has_its_own_lifespan(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread of it or on its loop, with their context, one child for all; an answer is a settlement."""
    async with children(monkeypatch) as pool:
        assert kept(await settled(pool, "plain", width=5)) == {"width": 5, "attempt": 2, "pid": pool.pids[0]}
        assert kept(await settled(pool, "on_loop", width=5)) == 10
        assert pool.pids[0] != os.getpid()
        assert isinstance(await settled(pool, "odd"), Done)


async def test_a_child_decides_by_its_parents_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows from a failure is decided where the policy's functions are, at the time told with the job."""
    async with children(monkeypatch) as pool:
        retried = await settled(pool, "refused")
        snoozed = await settled(pool, "snoozing")
    assert isinstance(retried, Retried)
    assert abs(retried.at - NOW - 60 * SECOND) < 10 * SECOND
    assert retried.failure.worker == "worker-1"
    assert retried.failure.release == "r7"
    assert abs(retried.failure.at - NOW) < 10 * SECOND
    assert isinstance(snoozed, Snoozed)
    assert abs(snoozed.until - NOW - 60 * SECOND) < 10 * SECOND


@pytest.mark.parametrize("task", ["extending", "extending_in_a_thread"])
async def test_a_handler_extends_the_deadline_that_its_parent_keeps(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Through its context, from the loop and from a thread."""
    async with children(monkeypatch) as pool:
        assert kept(await settled(pool, "on_loop", width=1)) == 2
        assert kept(await settled(pool, task, timeout=0.3, wait=0.5)) == "done"


async def test_a_task_that_the_child_does_not_know_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is newer than its parent's; the parent judges."""
    async with children(monkeypatch) as pool:
        released = await settled(pool, "gone")
    assert isinstance(released, Released)
    assert released.unknown_task


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        ("no_such_module:app", "BadApp: there is no module 'no_such_module'"),
        ("isolated_app:nothing", "BadApp: isolated_app has no app named 'nothing'"),
    ],
)
async def test_an_app_that_cannot_be_imported_is_said(monkeypatch: pytest.MonkeyPatch, app: str, sentence: str) -> None:
    """In the sentence that the command line would say."""
    async with children(monkeypatch, app) as pool:
        answer = await pool.run(b"", timeout=20)
    assert isinstance(answer, StartFailed)
    assert answer.sentence.startswith(sentence)

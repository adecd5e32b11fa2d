"""Sixteen kinds of poison among a thousand good jobs, for handlers on the loop, in threads and in child processes."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.conclusion import SUSPECT_RUNS
from redrive.job import Job, State
from redrive.portal import portal
from redrive.store import JobQuery
from redrive.stores.sqlite import SqliteStore
from tests.flow.apps import poison
from tests.flow.seen import letter, live
from tests.waiting import until

ROOT = Path(__file__).parents[2]
GOOD = 1_000
CRASH_LIMIT = 3


@contextmanager
def workers(url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Two supervised worker processes, as a shell would start them."""
    settings = {
        "URL": url,
        "WORKER__WATCHDOG": "2s",
        "WORKER__GRACE": "2s",
        "UNKNOWN_TASK_GRACE": "1s",
        "WORKER__CHILDREN": "3",
    }
    command = [sys.executable, "-m", "redrive", "worker", "tests.flow.apps.poison:app", "--processes", "2"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {f"REDRIVE_{name}": value for name, value in settings.items()},
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def jobs_of(app: Redrive, runner: str) -> list[Job]:
    """A thousand good ones and one of each poison, shuffled."""
    jobs = [app.job(f"{runner}.good", {"n": n}, queue=runner) for n in range(GOOD)]
    for kind in poison.POISONS:
        name = f"{runner}.poison" if kind != "unknown task" else f"{runner}.nobody.knows"
        jobs.append(app.job(name, {"kind": kind}, queue=runner, external_id=kind, max_attempts=1))
    random.Random(runner).shuffle(jobs)
    return jobs


def test_sixteen_are_dead_and_a_thousand_are_done(tmp_path: Path) -> None:
    """On each kind of runner, with each reason as it has to be, and no job started more often than it may."""
    store = SqliteStore(tmp_path / "jobs.db")
    app = Redrive(store=store)
    for runner in poison.RUNNERS:
        app.enqueue_many(jobs_of(app, runner))
    with workers(store.url, tmp_path / "log") as process:
        until(lambda: process.poll() is not None or left(app) == 0, 120)
    assert process.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-4_000:]
    for runner in poison.RUNNERS:
        told = portal.run(lambda runner=runner: ending(app, runner), "ending")  # type: ignore[misc]
        assert told == (16, GOOD, {kind: reason for kind, (_, reason) in poison.POISONS.items()})
    app.close()


def left(app: Redrive) -> int:
    """How many have not ended."""

    async def counted() -> int:
        depths = await app.store.jobs.depth()
        return sum(depth.ready + depth.leased + depth.scheduled for depth in depths)

    return portal.run(counted, "counted")


async def ending(app: Redrive, queue: str) -> tuple[int, int, dict[str, str]]:
    """How many of a queue are dead and done, and with what reason each poison has ended."""
    listed = await app.store.jobs.find(JobQuery(queue=queue, limit=2 * GOOD))
    states = Counter(row.state for row in listed)
    reasons = {}
    for row in listed:
        if row.state is State.DEAD:
            job = await live(app, row.id)
            assert job.starts <= 1 + CRASH_LIMIT + SUSPECT_RUNS + len(await given_back(app, row.id))
            reasons[str(job.external_id)] = (await letter(app, row.id)).reason
    assert states.total() == GOOD + 16
    return states[State.DEAD], states[State.DONE], reasons


async def given_back(app: Redrive, id: str) -> list[str]:
    """The releases that the journal has of a job."""
    return [entry.event for entry in await app.store.journal.events(job=id) if entry.event == "job.released"]


def test_the_table_has_sixteen_kinds() -> None:
    """No more, no less."""
    assert len(poison.POISONS) == 16


@pytest.mark.parametrize("n", poison.ODD_RESULTS)
def test_an_odd_result_is_one_of_the_good_jobs(n: int) -> None:
    """What it returns cannot be kept, and still it has succeeded."""
    assert 0 <= n < GOOD

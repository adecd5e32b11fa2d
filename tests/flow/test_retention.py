"""What workers do beside running jobs: they seal what people did, and announce which open letters they will remove."""

import pytest

from redrive import Redrive
from redrive.clock import ManualClock
from redrive.config import Config, Retention, WorkerSettings
from redrive.events import Recorder
from redrive.job import Job
from redrive.testing.factories import a_failure, buried
from tests.flow.conftest import QUICK, MakeApp
from tests.waiting import auntil

pytestmark = pytest.mark.anyio
DAY = 24 * 3_600 * 1_000_000


@pytest.fixture
def app(make_app: MakeApp, clock: ManualClock) -> Redrive:
    """An app whose open letters go after 30 days."""
    return make_app(clock, config=Config(worker=WorkerSettings(**QUICK), retention=Retention(open=30 * DAY)))


async def dead(app: Redrive, clock: ManualClock) -> Job:
    """A job that has just died."""
    return await buried(app.store, failure=a_failure(at=clock.now()))


async def test_a_worker_announces_what_will_be_removed(app: Redrive, clock: ManualClock, told: Recorder) -> None:
    """At its start, in its log and in the journal; a week later the letter is gone and everything adds up."""
    job = await dead(app, clock)
    clock.advance("31d")
    async with app.worker():
        await auntil(lambda: "retention.announced" in names(told))
    [what] = [event.fields["what"] for event in told.events if event.name == "retention.announced"]
    assert what.startswith("open letters of every queue go 30d after they failed, 1 by now, from 2026-02-08T")
    assert await app.letters.acount() == 1
    clock.advance("7d")
    async with app.worker():
        await auntil(lambda: "retention.applied" in names(told))
    assert await app.letters.acount() == 0
    assert await app.store.jobs.get(job.id) is None
    assert (await app.aprove()).adds_up


async def test_a_worker_seals_what_people_did(app: Redrive, clock: ManualClock) -> None:
    """Within seconds, without anybody asking for it."""
    job = await dead(app, clock)
    assert await app.letters.adiscard(ids=[job.id], reason="a test") == 1

    async def sealed() -> bool:
        clock.advance(1)
        return not (await app.aprove()).trail.unsealed

    async with app.worker():
        await auntil(sealed)
    assert (await app.aprove()).trail.sealed >= 1


def names(told: Recorder) -> set[str]:
    """What was told by now."""
    return {event.name for event in told.events}

"""Rolling deploys: a job whose task or signature a worker lacks waits for one that has it, and is never lost."""

from typing import Any

import pytest

from redrive import Redrive
from redrive.clock import SECOND, ManualClock
from redrive.events import Recorder
from redrive.job import State
from redrive.store import Worker
from redrive.testing.flaky import FlakyStore
from tests.flow.conftest import MakeApp
from tests.flow.seen import letter, live, names, record, state

pytestmark = pytest.mark.anyio


async def burst(app: Redrive) -> None:
    """A worker that looks once."""
    await app.worker(burst=True).run()


def another(**changes: Any) -> Worker:
    """A worker of other code, somewhere."""
    told = {"id": "other", "host": "elsewhere", "boot": "b", "pid": 1, "started_at": 0, "tasks": ("new",), **changes}
    return Worker(**told)


async def test_it_is_given_back_and_spends_nothing(app: Redrive, told: Recorder) -> None:
    """With a delay, so that it does not spin; no attempt is told to have begun."""
    job = await app.aenqueue("new")
    await burst(app)
    waiting = await live(app, job)
    assert (waiting.state, waiting.attempts, waiting.starts) == (State.SCHEDULED, 0, 1)
    assert waiting.due_at - app.clock.now() == 5 * SECOND
    assert "job.started" not in names(told)
    [released] = [event for event in told.events if event.name == "job.released"]
    assert "no task named 'new'" in released.fields["why"]


async def test_it_is_buried_after_its_grace(app: Redrive, clock: ManualClock) -> None:
    """Nobody knew it for an hour: it becomes a letter; the waits grow, so that the journal does not."""
    job = await app.aenqueue("new")
    began = clock.now()
    await app.adrain()
    assert clock.now() - began >= 3_600 * SECOND
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts) == ("unknown_task", 0)
    assert (await live(app, job)).starts < 100


async def test_while_a_live_worker_knows_it_it_waits(app: Redrive, clock: ManualClock) -> None:
    """However long; the grace begins when that worker is gone."""
    job = await app.aenqueue("new")
    for _ in range(3):
        await app.store.workers.beat(another(), 3_600 * SECOND)
        clock.advance("50m")
        await burst(app)
        assert await state(app, job) == State.SCHEDULED
        assert (await record(app, job)).unknown_since is None
    clock.advance("2h")
    await burst(app)
    assert (await record(app, job)).unknown_since == clock.now()
    clock.advance("1h")
    await burst(app)
    assert await state(app, job) == State.DEAD


async def test_a_worker_of_other_queues_does_not_count(app: Redrive, clock: ManualClock) -> None:
    """It knows the task, but will never take the job."""
    job = await app.aenqueue("new")
    await app.store.workers.beat(another(queues=("elsewhere",)), 7_200 * SECOND)
    await burst(app)
    clock.advance("1h")
    await burst(app)
    assert await state(app, job) == State.DEAD


async def test_a_payload_that_does_not_fit_waits_the_same_way(app: Redrive, clock: ManualClock) -> None:
    """The signature is of an older or newer release; a worker of the same release is no help, one of another may be."""
    app.task(name="mail")(lambda to: None)
    job = await Redrive(store=app.store, clock=clock, config=app.config).aenqueue("mail", {"to": "a", "cc": "b"})
    await app.store.workers.beat(another(tasks=("mail",), release="2.0"), 1_800 * SECOND)
    await burst(app)
    assert (await record(app, job)).unknown_since is None
    clock.advance("31m")
    await app.store.workers.beat(another(tasks=("mail",)), 7_200 * SECOND)
    await burst(app)
    assert (await live(app, job)).attempts == 0
    clock.advance("1h")
    await burst(app)
    dead = await letter(app, job)
    assert (dead.reason, dead.type, dead.attempts) == ("unknown_task", "BadArguments", 0)
    assert "unexpected keyword argument 'cc'" in dead.message


async def test_the_worker_that_knows_it_runs_it(app: Redrive, make_app: MakeApp, clock: ManualClock) -> None:
    """As soon as it is there and the wait is over."""
    job = await app.aenqueue("new", {"n": 2})
    await burst(app)
    newer = make_app(clock)
    newer.task(name="new")(lambda n: n + 1)
    await newer.adrain()
    assert await job.aresult() == 3


async def test_an_alias_is_the_same_task(app: Redrive) -> None:
    """What was enqueued under the old name runs under the new one."""

    @app.task(name="mail.send", aliases=["mail.old"])
    async def send() -> str:
        return "sent"

    job = await Redrive(store=app.store, clock=app.clock, config=app.config).aenqueue("mail.old")
    await app.adrain()
    assert await job.aresult() == "sent"


async def test_a_store_that_is_away_meanwhile_costs_no_attempt(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """What cannot be asked now is asked at the next claim."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    job = await app.aenqueue("new")
    store.lose_answers("jobs.get")
    await burst(app)
    waiting = await live(app, job)
    assert (waiting.attempts, waiting.state) == (0, State.SCHEDULED)


async def test_good_jobs_pass_it(app: Redrive) -> None:
    """One unknown job holds up nothing."""
    ran = []

    @app.task
    async def work(n: int) -> None:
        ran.append(n)

    await app.aenqueue("new", queue="default")
    for n in range(5):
        await work.aenqueue(n)
    await burst(app)
    assert sorted(ran) == list(range(5))

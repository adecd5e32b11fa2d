"""Crash isolation: a job that kills its process is found out and buried; its neighbours lose nothing."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from redrive import Redrive, Retry
from redrive.clock import SECOND, ManualClock
from redrive.conclusion import SUSPECT_RUNS
from redrive.errors import NotReady
from redrive.events import Recorder
from redrive.job import Job, State, new_id
from redrive.store import Released, Store, Want
from tests.flow.apps import careless, isolated
from tests.flow.conftest import MakeApp
from tests.flow.seen import journal, letter, live, names, record, state
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine() -> str:
    """Child processes take their time, and what they end with reaches either store by the same way."""
    return "memory"


def use(app: Redrive, clock: ManualClock, store: Store, monkeypatch: pytest.MonkeyPatch) -> Redrive:
    """A module's app on the test's own store and clock."""
    monkeypatch.setattr(app, "_store", store)
    monkeypatch.setattr(app, "clock", clock)
    return app


@pytest.fixture
def app(clock: ManualClock, make_store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redrive]:
    """The app that children can import."""
    app = use(isolated.app, clock, make_store(clock), monkeypatch)
    app.client._looked_at.clear()
    yield app
    app.close()


async def lost(app: Redrive, n: int = 10) -> list[Job]:
    """So many jobs were held by a worker whose lease has ended."""
    jobs = await (await app.opened()).jobs.claim(Want(worker="gone", limit=n, lease=30 * SECOND))
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(31)
    return jobs


async def drained(app: Redrive) -> None:
    """Everything has ended, taken over from the worker that is gone or not."""
    async with app.worker():
        await auntil(lambda: _moved(app), 30)


async def _moved(app: Redrive) -> bool:
    """Whether nothing is left; what waits for its time is brought there."""
    depths = await app.store.jobs.depth()
    if not any(depth.ready or depth.leased for depth in depths) and any(depth.scheduled for depth in depths):
        app.clock.advance(1)  # type: ignore[attr-defined]
    return not any(depth.ready or depth.leased or depth.scheduled for depth in depths)


async def test_the_guilty_one_is_found_and_the_innocent_lose_nothing(app: Redrive) -> None:
    """A worker died with three jobs: each runs alone, two are done at their first attempt, one is buried as crashed."""
    good = await isolated.on_loop.aenqueue()
    bad = await isolated.on_loop.aenqueue("segfault")
    other = await isolated.in_thread.aenqueue()
    assert len(await lost(app)) == 3
    await drained(app)
    assert [await state(app, job) for job in (good, bad, other)] == [State.DONE, State.DEAD, State.DONE]
    for job in (good, other):
        finished = (await record(app, job)).finished
        assert finished is not None
        assert finished.attempts == 1
    dead = await letter(app, bad)
    assert (dead.reason, dead.attempts, len(dead.failures)) == ("crashed", 0, 3)
    assert "SIGSEGV" in (dead.failures[-1].cause or "")
    assert (await live(app, bad)).starts == 1 + 3
    told = [event for event in await journal(app, bad) if event != "job.orphaned"]
    assert told == ["job.released", "job.retried", "job.retried", "job.buried"]


async def test_a_suspect_runs_in_a_child_of_its_own(app: Redrive) -> None:
    """One process for each, and none of them the worker's."""
    jobs = [await isolated.on_loop.aenqueue() for _ in range(3)]
    await lost(app)
    await drained(app)
    assert len({await job.aresult() for job in jobs}) == 3


async def test_a_kill_from_outside_convicts_nobody(app: Redrive) -> None:
    """It runs alone a few times for nothing; then it is lost, attempt by attempt, with its own reason."""
    job = await isolated.on_loop.aenqueue("outside")
    await lost(app)
    await drained(app)
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts) == ("lost", 3)
    gone = await live(app, job)
    assert (gone.crashes, gone.losses) == (0, 3)
    assert gone.starts == SUSPECT_RUNS + 3


async def test_an_isolated_job_that_dies_alone_is_charged_at_once(app: Redrive) -> None:
    """It had a fresh child to itself: no suspicion is needed."""
    job = await isolated.apart.aenqueue("exit")
    await drained(app)
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts, (await live(app, job)).crashes) == ("crashed", 0, 3)
    assert "exit code 3" in (dead.failures[0].cause or "")
    assert "job.released" not in await journal(app, job)


async def test_a_job_from_elsewhere_has_the_crash_limit_of_its_task(app: Redrive, told: Recorder) -> None:
    """Who added it by name did not know the task; who runs it does, and says its limits."""
    job = Job(id=new_id(), task="fragile", payload=b"{}")
    await (await app.opened()).jobs.add([job])
    await drained(app)
    assert ((await letter(app, job.id)).reason, (await live(app, job.id)).crashes) == ("crashed", 1)
    assert {event.fields["limit"] for event in told.events if "limit" in event.fields} == {2}


async def test_in_a_used_child_a_death_is_a_suspicion_first(app: Redrive) -> None:
    """An earlier job of that child may have broken it: the next run is in a fresh one, and only that one counts."""
    first = await isolated.apart.aenqueue()
    async with app.worker():
        await first.await_(20)
        job = await isolated.apart.aenqueue("segfault")
        await auntil(lambda: _moved(app), 30)
    assert (await journal(app, job))[0] == "job.released"
    assert [(failure.reason) for failure in (await letter(app, job)).failures] == ["crashed"] * 3


async def test_a_suspicion_lasts_until_the_job_ends(app: Redrive) -> None:
    """A job that failed while it was a suspect is one still, so that it is suspected three times at the most."""
    job = await isolated.on_loop.aenqueue()
    [held] = await lost(app)
    async with app.worker() as worker:
        await auntil(lambda: _done(app, job.id), 20)
        assert worker.done == 1
    assert held.suspect == 0
    from redrive.bench import Bench, Identity, Trial
    from redrive.conclusion import concluded
    from redrive.outcome import Failed, Interrupted

    trial = Trial(Bench(app, Identity("w")), Job(id=job.id, task="on_loop", payload=b"{}", suspect=2), 0)
    failed, given_back = concluded(trial, Failed(RuntimeError())), concluded(trial, Interrupted("stops"))
    assert [settlement.suspect for settlement in (failed, given_back)] == [2, 2]  # type: ignore[union-attr]


async def _done(app: Redrive, id: str) -> bool:
    return await state(app, id) == State.DONE


async def test_what_a_child_decides_is_done(app: Redrive, clock: ManualClock) -> None:
    """Signals and failures mean the same there, by the parent's clock."""
    snoozed, buried, failed = [await isolated.apart.aenqueue(how) for how in ("snooze", "bury", "fail")]
    await app.worker(burst=True).run()
    waiting = await live(app, snoozed)
    assert (waiting.state, waiting.attempts) == (State.SCHEDULED, 0)
    assert abs(waiting.due_at - clock.now() - 60 * SECOND) < SECOND
    assert (await letter(app, buried)).reason == "buried"
    again = await live(app, failed)
    assert (again.attempts, again.state) == (1, State.SCHEDULED)
    assert abs(again.due_at - clock.now() - SECOND) < SECOND


async def test_a_deadline_in_a_child_kills_it(app: Redrive) -> None:
    """The attempt fails as a timeout, and no crash is counted."""
    job = await isolated.aapart.using(max_attempts=1).aenqueue()
    await drained(app)
    dead = await letter(app, job)
    assert (dead.reason, (await live(app, job)).crashes) == ("timeout", 0)
    assert "ended at its deadline" in (dead.failures[0].cause or "")


async def test_a_child_may_ask_for_more_time(app: Redrive) -> None:
    """Its parent keeps the deadline, and moves it."""
    job = await isolated.extends.using(max_attempts=1).aenqueue()
    await drained(app)
    assert await job.aresult() == 1


async def test_a_child_of_a_store_in_memory_cannot_enqueue(app: Redrive) -> None:
    """It would be lost with the child, so it is an error there."""
    job = await isolated.apart.using(max_attempts=1).aenqueue("enqueue")
    await drained(app)
    dead = await letter(app, job)
    assert "cannot enqueue to memory://" in dead.message


async def test_a_module_that_enqueues_when_imported_is_told_so(
    clock: ManualClock, make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job is not run by a child that would add another one; it is set aside, and buried after the grace."""
    app = use(careless.app, clock, make_store(clock), monkeypatch)
    told = Recorder()
    app.subscribe(told)
    job = await careless.work.aenqueue()
    async with app.worker():
        await auntil(lambda: "job.released" in names(told), 20)
        clock.advance("1h")
        await auntil(lambda: "job.buried" in names(told), 20)
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts) == ("unavailable", 0)
    assert '`if __name__ == "__main__":`' in dead.message
    assert sum(depth.dead for depth in await app.store.jobs.depth()) == 1
    await app.aclose()


async def test_without_children_a_suspect_runs_when_nothing_else_does(make_app: MakeApp, clock: ManualClock) -> None:
    """An app made inside a function cannot be imported: its suspects run in the worker, alone."""
    app, running, beside = make_app(clock, retry=Retry(1)), set(), []

    @app.task
    async def work(n: int) -> None:
        running.add(n)
        beside.append(frozenset(running))
        for _ in range(5):
            await asyncio.sleep(0)
        running.discard(n)

    for n in range(3):
        await work.aenqueue(n)
    suspects = await lost(app)
    await app.store.jobs.reap("test", ["gone"], 10, 30 * SECOND)
    held = [await live(app, job.id) for job in suspects]
    await app.store.jobs.settle([Released(job=job, at=0, why="its worker died", suspect=1) for job in held])
    for n in range(3, 9):
        await work.aenqueue(n)
    await app.worker(burst=True).run()
    assert len(beside) == 9
    for together in beside:
        assert len(together) == 1 or not together & {0, 1, 2}


async def test_a_module_level_app_is_found_and_one_in_a_function_is_not(app: Redrive, make_app: MakeApp) -> None:
    """What a child would be told to import."""
    from redrive.reference import reference_of

    assert reference_of(app) == "tests.flow.apps.isolated:app"
    assert reference_of(make_app()) is None


async def test_a_drain_that_cannot_end_says_what_is_left(make_app: MakeApp) -> None:
    """A job that somebody else holds does not end here."""
    app = make_app()
    await app.aenqueue("elsewhere")
    await app.store.jobs.claim(Want(worker="other", limit=1, lease=30 * SECOND))
    with pytest.raises(NotReady, match=r"jobs are left after 0.1s \(default: 1\)"):
        await app.adrain(0.1)


async def test_a_drain_that_cannot_end_says_why_its_job_was_given_back(make_app: MakeApp) -> None:
    """As when a script that is not guarded cannot be imported by the child that is to run the job."""
    app = make_app()
    await app.aenqueue("elsewhere")
    want = Want(worker="other", limit=1, lease=30 * SECOND)
    [job] = await app.store.jobs.claim(want)
    await app.store.jobs.settle([Released(job=job, at=0, why="its child process did not start")])
    await app.store.jobs.claim(want)
    with pytest.raises(NotReady, match=r"\(default: 1\); the last one was given back: its child process did not start"):
        await app.adrain(0.1)


async def test_a_drain_whose_last_job_ends_too_late_says_so(make_app: MakeApp) -> None:
    """Nothing is left to be named then."""
    app = make_app()
    leaving = threading.Event()
    app.subscribe(lambda event: leaving.set() if event.name == "worker.draining" else None)

    @app.task
    def work() -> None:
        leaving.wait(10)

    await work.aenqueue()
    with pytest.raises(NotReady, match=r"^the jobs took longer than 0.1s; give drain a longer timeout$"):
        await app.adrain(0.1)

"""What follows from a failure: another attempt, a letter, or neither; and that a good job is simply done."""

import asyncio
import random

import pytest

from redrive import BURY, DISCARD, Redrive, Retry, exponential, fixed
from redrive.clock import SECOND, ManualClock
from redrive.config import Config
from redrive.errors import ConfigError
from redrive.events import Recorder
from redrive.job import State
from tests.flow.conftest import MakeApp
from tests.flow.seen import journal, letter, live, names, record, state

pytestmark = pytest.mark.anyio


async def test_a_good_job_is_done(app: Redrive, told: Recorder) -> None:
    """Once, without a journal row, with what was told about it."""
    ran = []

    @app.task
    async def work(n: int) -> None:
        ran.append(n)

    job = await work.aenqueue(3)
    assert await app.adrain() == 1
    assert (ran, await state(app, job), await journal(app, job)) == ([3], State.DONE, [])
    assert [name for name in names(told) if name.startswith("job.")] == ["job.enqueued", "job.started", "job.succeeded"]


async def test_a_plain_function_runs_in_a_thread(app: Redrive) -> None:
    """Beside the loop, which goes on meanwhile."""
    started, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task
    def plain() -> str:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return "well"

    job = await plain.aenqueue()
    async with app.worker():
        await asyncio.wait_for(started.wait(), 10)
        release.set()
        assert await job.await_(10) == "well"


async def test_a_failure_is_retried_after_its_backoff_until_it_heals(
    app: Redrive, told: Recorder, clock: ManualClock
) -> None:
    """Each failure is kept, each wait is the policy's."""
    times = []

    @app.task(retry=Retry(5, backoff=fixed("10s"), jitter="none"))
    async def flaky() -> str:
        times.append(clock.now())
        if len(times) < 3:
            raise ConnectionError("refused")
        return "healed"

    job = await flaky.aenqueue()
    assert await app.adrain() == 1
    assert [later - times[0] for later in times] == [0, 10 * SECOND, 20 * SECOND]
    assert await job.aresult() == "healed"
    assert await journal(app, job) == ["job.retried", "job.retried"]
    retried = [event for event in told.events if event.name == "job.retried"]
    assert [event.fields["delay"] for event in retried] == [10 * SECOND] * 2
    assert [event.fields["failure"].reason for event in retried] == ["network"] * 2


async def test_what_never_heals_is_buried_with_every_failure(app: Redrive, told: Recorder) -> None:
    """The letter has the reason, the type, the message, the traceback and the count."""

    @app.task(retry=Retry(3))
    def broken() -> None:
        raise RuntimeError("still broken")

    job = await broken.aenqueue()
    assert await app.adrain() == 1
    dead = await letter(app, job)
    assert (dead.reason, dead.type, dead.message, dead.attempts) == ("unknown", "RuntimeError", "still broken", 3)
    assert [failure.attempt for failure in dead.failures] == [1, 2, 3]
    assert "in broken" in (dead.failures[0].traceback or "")
    assert dead.worker.count("-") >= 2
    buried = [event for event in told.events if event.name == "job.buried"]
    assert [event.fields["why"] for event in buried] == ["exhausted 3 attempts"]


async def test_a_permanent_failure_is_buried_at_once(app: Redrive) -> None:
    """No retry can heal a permission."""

    @app.task
    async def forbidden() -> None:
        raise PermissionError("not yours")

    job = await forbidden.aenqueue()
    await app.adrain()
    dead = await letter(app, job)
    assert (dead.reason, dead.attempts) == ("unauthorized", 1)


async def test_the_policy_decides_by_exception(app: Redrive) -> None:
    """BURY, DISCARD and a delay of its own, each for one type."""

    @app.task(retry=Retry(3, on={KeyError: BURY, ValueError: DISCARD, OSError: lambda error: 60}))
    async def sorted_out(kind: str) -> None:
        raise {"key": KeyError, "value": ValueError, "os": OSError}[kind]("x")

    key, value, disk = [await sorted_out.aenqueue(kind) for kind in ("key", "value", "os")]
    await app.worker(burst=True).run()
    assert [await state(app, job) for job in (key, value, disk)] == [State.DEAD, State.DISCARDED, State.SCHEDULED]
    assert 30 * SECOND <= (await live(app, disk)).due_at - app.clock.now() <= 60 * SECOND


async def test_a_job_may_have_its_own_limit(app: Redrive) -> None:
    """What `using` says wins over the task."""

    @app.task(retry=Retry(5))
    async def broken() -> None:
        raise RuntimeError("no")

    job = await broken.using(max_attempts=1).aenqueue()
    await app.adrain()
    assert (await letter(app, job)).attempts == 1


async def test_within_is_a_deadline_for_all_attempts(app: Redrive, clock: ManualClock) -> None:
    """No attempt is planned beyond it."""

    @app.task(retry=Retry(1000, backoff=fixed("40s"), jitter="none", within="100s"))
    async def broken() -> None:
        raise ConnectionError("no")

    job = await broken.aenqueue()
    began = clock.now()
    await app.adrain()
    assert (await letter(app, job)).attempts == 3
    assert clock.now() - began <= 100 * SECOND


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("mine")])
@pytest.mark.parametrize("plain", [True, False], ids=["thread", "loop"])
async def test_no_exception_of_a_handler_ends_the_worker(app: Redrive, error: BaseException, plain: bool) -> None:
    """Whatever it raises is an outcome; a cancellation that is not ours is its failure."""
    if plain:

        @app.task(name="raises", retry=Retry(1))
        def raises() -> None:
            raise error
    else:

        @app.task(name="raises", retry=Retry(1))
        async def araises() -> None:
            raise error

    @app.task
    async def good() -> None: ...

    bad, well = await app.aenqueue("raises"), await good.aenqueue()
    await app.adrain()
    assert (await letter(app, bad)).type == type(error).__name__.replace(
        "CancelledError", "asyncio.exceptions.CancelledError"
    )
    assert await state(app, well) == State.DONE


async def test_a_backoff_that_raises_costs_nothing(app: Redrive) -> None:
    """The default takes its place, and what went wrong is told."""
    recorder = Recorder()
    app.subscribe(recorder)

    def odd(attempt: int) -> float:
        raise ZeroDivisionError

    @app.task(retry=Retry(2, backoff=odd))
    async def broken() -> None:
        raise RuntimeError("no")

    job = await broken.aenqueue()
    await app.adrain()
    assert (await letter(app, job)).attempts == 2
    [retried] = [event for event in recorder.events if event.name == "job.retried"]
    assert "ZeroDivisionError" in retried.fields["note"]


async def test_a_policy_that_is_not_there_is_said_before_anything_is_claimed(app: Redrive) -> None:
    """Neither enqueueing nor the worker begins."""

    @app.task(retry="gentle")
    async def work() -> None: ...

    with pytest.raises(ConfigError, match=r"no retry policy \[retry.gentle\]"):
        await work.aenqueue()
    with pytest.raises(ConfigError, match="gentle"):
        await app.worker(burst=True).run()


async def test_a_wrong_rule_is_said_before_anything_is_claimed(make_app: MakeApp) -> None:
    """Not by the first job that fails, whose attempt could then never be told."""
    app = make_app(config=Config(reasons=({"reason": "netwrok", "message": "no answer"},)))
    with pytest.raises(ConfigError, match=r"number 1: unknown reason 'netwrok'; did you mean 'network'\?"):
        await app.worker(burst=True).run()


async def test_a_users_classify_answers_first(make_app: MakeApp, clock: ManualClock) -> None:
    """And by None leaves it to the default; one that raises costs nothing."""

    def classify(error: BaseException) -> str | None:
        match str(error):
            case "no credit":
                return "validation"
            case "odd":
                raise RuntimeError("in classify")
        return None

    app = make_app(clock, classify=classify)

    @app.task(retry=Retry(1))
    async def pay(text: str) -> None:
        raise RuntimeError(text)

    jobs = [await pay.aenqueue(text) for text in ("no credit", "odd", "timed out")]
    await app.adrain()
    assert [(await letter(app, job)).reason for job in jobs] == ["validation", "unknown", "timeout"]


async def test_the_default_policy_can_be_set(make_app: MakeApp, clock: ManualClock) -> None:
    """For all tasks without one of their own."""
    app = make_app(clock, retry=Retry(2, backoff=exponential(base="1s")))

    @app.task
    async def broken() -> None:
        raise RuntimeError("no")

    job = await broken.aenqueue()
    await app.adrain()
    assert (await letter(app, job)).attempts == 2


async def test_starts_are_counted_and_bounded(app: Redrive) -> None:
    """A job that is retried has started as often as it was claimed."""

    @app.task(retry=Retry(4))
    async def broken() -> None:
        raise RuntimeError("no")

    job = await broken.aenqueue()
    await app.adrain()
    dead = await live(app, job)
    assert (dead.starts, dead.attempts, dead.crashes, dead.losses) == (4, 4, 0, 0)


async def test_priority_goes_first(make_app: MakeApp, clock: ManualClock) -> None:
    """Nine first."""
    app, order = make_app(clock), []

    @app.task
    async def work(n: int) -> None:
        order.append(n)

    priorities = [random.Random(1).choice(range(10)) for _ in range(20)]
    for priority in priorities:
        await work.using(priority=priority).aenqueue(priority)
    await app.worker(concurrency=1, burst=True).run()
    assert order == sorted(priorities, reverse=True)


async def test_settings_come_from_the_configuration(make_app: MakeApp, clock: ManualClock) -> None:
    """A named policy in it is one that tasks can ask for."""
    config = Config.__struct_fields__  # the table is read by policy_from, tested elsewhere; here it reaches the task
    assert "retry" in config
    from redrive.config.settings import RetryTables

    app = make_app(clock, config=Config(retry=RetryTables(named={"once": {"max_attempts": 1}})))

    @app.task(retry="once")
    async def broken() -> None:
        raise RuntimeError("no")

    job = await broken.aenqueue()
    await app.adrain()
    assert (await record(app, job)).failures[0].attempt == 1
    assert (await letter(app, job)).attempts == 1

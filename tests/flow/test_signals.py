"""The four ways in which a handler says how its attempt should end."""

import asyncio
from collections.abc import Callable

import pytest

from redrive import Bury, Discard, Redrive, Retry, RetryAfter, Snooze
from redrive.clock import SECOND, ManualClock
from redrive.events import Recorder
from redrive.job import State
from tests.flow.seen import journal, letter, live, record, state

pytestmark = pytest.mark.anyio

Raise = Callable[[Redrive, BaseException], None]


def _plain(app: Redrive, error: BaseException) -> None:
    @app.task(name="work", retry=Retry(3))
    def work() -> None:
        raise error


def _on_loop(app: Redrive, error: BaseException) -> None:
    @app.task(name="work", retry=Retry(3))
    async def work() -> None:
        raise error


def _in_group(app: Redrive, error: BaseException) -> None:
    async def member() -> None:
        raise error

    @app.task(name="work", retry=Retry(3))
    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(member())


def _in_hook(app: Redrive, error: BaseException) -> None:
    @app.task(name="work", retry=Retry(3))
    async def work() -> None: ...

    @app.around_attempt
    async def hook(ctx: object, run: Callable[[], object]) -> object:
        raise error


@pytest.fixture(params=[_plain, _on_loop, _in_group, _in_hook])
def raising(request: pytest.FixtureRequest) -> Raise:
    """Wherever a signal is raised, it means the same."""
    raising: Raise = request.param
    return raising


async def test_snooze_comes_back_later_and_spends_nothing(app: Redrive, raising: Raise, clock: ManualClock) -> None:
    """The journal has it; the attempt does not count."""
    raising(app, Snooze("1m", "not yet"))
    job = await app.aenqueue("work")
    await app.worker(burst=True).run()
    waiting = await live(app, job)
    assert (waiting.state, waiting.attempts, waiting.starts) == (State.SCHEDULED, 0, 1)
    assert waiting.due_at == clock.now() + 60 * SECOND
    assert await journal(app, job) == ["job.snoozed"]


async def test_discard_ends_without_a_letter(app: Redrive, told: Recorder, raising: Raise) -> None:
    """And says why."""
    raising(app, Discard("duplicate order"))
    job = await app.aenqueue("work")
    await app.adrain()
    assert (await state(app, job), await app.store.letters.get(job.id)) == (State.DISCARDED, None)
    assert (await record(app, job)).end_reason == "discarded"
    [event] = [event for event in told.events if event.name == "job.discarded"]
    assert event.fields == {"reason": "discarded", "why": "duplicate order"}


async def test_bury_is_a_letter_at_once(app: Redrive, raising: Raise) -> None:
    """Whatever the policy would still allow."""
    raising(app, Bury("bad input"))
    job = await app.aenqueue("work")
    await app.adrain()
    dead = await letter(app, job)
    assert (dead.reason, dead.message, dead.attempts) == ("buried", "bad input", 1)


async def test_retry_after_waits_as_told_and_counts(app: Redrive, raising: Raise, clock: ManualClock) -> None:
    """The third one is the last."""
    raising(app, RetryAfter(30))
    job = await app.aenqueue("work")
    await app.worker(burst=True).run()
    waiting = await live(app, job)
    assert (waiting.attempts, waiting.due_at) == (1, clock.now() + 30 * SECOND)
    await app.adrain()
    assert (await letter(app, job)).attempts == 3


@pytest.mark.parametrize("text", ["a\ud800b", "a\0b", "x" * 2_000_000, 42])
async def test_odd_texts_in_signals_are_written(app: Redrive, text: str) -> None:
    """Made well-formed, and cut."""

    @app.task
    async def snoozes() -> None:
        raise Snooze(1, text)

    @app.task
    async def discards() -> None:
        raise Discard(text)

    snoozed, discarded = await snoozes.aenqueue(), await discards.aenqueue()
    await app.worker(burst=True).run()
    assert await state(app, snoozed) == State.SCHEDULED
    assert await state(app, discarded) == State.DISCARDED
    [entry] = await app.store.journal.events(job=discarded.id)
    assert entry.text
    assert len(entry.text) < 2_000


async def test_a_signal_that_is_no_signal_any_more_is_a_failure(app: Redrive) -> None:
    """A subclass that forgot to call its base still ends its attempt."""

    class Odd(Snooze):
        def __init__(self) -> None:
            pass

    @app.task(retry=Retry(2))
    async def work() -> None:
        raise Odd

    job = await work.aenqueue()
    await app.adrain()
    dead = await letter(app, job)
    assert (dead.attempts, dead.type) == (2, "Unwritable")
    assert "AttributeError" in dead.message

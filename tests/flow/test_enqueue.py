"""Enqueueing: what is accepted, what is refused and how, alone, in crowds and in streams."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from redrive import BadArguments, BadPayload, PayloadTooLarge, QueueFull, Redrive, StoreError
from redrive.client import BATCH
from redrive.clock import SECOND, ManualClock
from redrive.errors import StoreUnavailable, UsageError, WrongLoop
from redrive.events import Recorder
from redrive.job import Job, State, decode, new_id
from redrive.store import Accepted, Added, Gate
from redrive.testing.flaky import FlakyStore
from tests.flow.conftest import MakeApp
from tests.flow.seen import live, names, state
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


def greet(to: str, template: str = "welcome") -> None:
    """A handler that is never run here."""


async def test_arguments_become_an_object_by_the_signature(app: Redrive) -> None:
    """However they were passed, the payload names them."""
    task = app.task(greet)
    job = await live(app, await task.aenqueue("a@b.c", template="bye"))
    assert decode(job.payload) == {"to": "a@b.c", "template": "bye"}
    assert decode((await live(app, await task.aenqueue("a@b.c"))).payload) == {"to": "a@b.c"}


async def test_wrong_arguments_are_refused_at_once(app: Redrive) -> None:
    """By the task, and by its name when the task is known here; nothing is added."""
    task = app.task(name="greet")(greet)
    with pytest.raises(BadArguments, match="task greet: missing a required argument: 'to'"):
        await task.aenqueue()  # type: ignore[call-arg]
    with pytest.raises(BadArguments, match="unexpected keyword argument 'two'"):
        await app.aenqueue("greet", {"to": "a", "two": "b"})
    assert await app.store.jobs.depth() == []


async def test_a_name_that_is_not_known_here_may_live_elsewhere(app: Redrive) -> None:
    """Producers need no handler code."""
    job = await app.aenqueue("thumbnail.make", {"path": "a.png"}, queue="pictures")
    assert (job.created, job.task, job.queue) == (True, "thumbnail.make", "pictures")


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"a": object()}, BadPayload),
        ({"a": "\ud800"}, BadPayload),
        ({"a": float("nan")}, BadPayload),
        ({"a": "x" * 2**20}, PayloadTooLarge),
    ],
    ids=["object", "surrogate", "nan", "size"],
)
async def test_a_payload_that_cannot_be_kept_is_refused(app: Redrive, payload: Any, error: type[Exception]) -> None:
    """In one sentence, before anything is sent."""
    with pytest.raises(error):
        await app.aenqueue("any", payload)


async def test_options_reach_the_job(app: Redrive, clock: ManualClock) -> None:
    """What `using` says stands in the row."""
    task = app.task(greet)
    made = await task.using(
        queue="q",
        priority="high",
        delay="60s",
        key="k",
        external_id="x",
        headers={"h": "1"},
        needs=["mail"],
        expires=90,
    ).aenqueue("a")
    job = await live(app, made)
    assert (job.queue, job.priority, job.key, job.external_id, job.needs) == ("q", 8, "k", "x", ("mail",))
    assert (job.state, job.due_at, job.expires) == (
        State.SCHEDULED,
        clock.now() + 60 * SECOND,
        clock.now() + 90 * SECOND,
    )
    assert made.state == State.SCHEDULED


async def test_an_unknown_option_gets_a_guess(app: Redrive) -> None:
    """No option is parsed and ignored."""
    task = app.task(greet)
    with pytest.raises(UsageError, match="unknown option 'quue', did you mean queue"):
        task.using(quue="email")


@pytest.mark.parametrize("name", ["", "a\0", "\ud800", "x" * 513, 5, None], ids=repr)
async def test_what_is_no_name_of_a_task_is_refused(app: Redrive, name: Any) -> None:
    """No worker could ever register a task under it."""
    with pytest.raises(UsageError, match="is no name of a task: write a text of 1 to 512 characters"):
        await app.aenqueue(name, {})


async def test_a_task_itself_may_stand_for_its_name(app: Redrive) -> None:
    """With the same check of the payload."""
    task = app.task(greet)
    assert (await app.aenqueue(task, {"to": "a"})).task == task.name
    with pytest.raises(BadArguments, match="missing a required argument: 'to'"):
        await app.aenqueue(task, {})


async def test_a_job_that_would_expire_before_its_start_is_refused(app: Redrive, clock: ManualClock) -> None:
    """It would be discarded without ever having had a chance; whether it or its task says when it expires."""
    sentence = "the job would expire at 2026-01-01T01:00:00.000Z, before it may first run at 2026-01-01T02:00:00.000Z; "
    for options in ({"delay": "2h"}, {"at": clock.now() + 7_200 * SECOND}):
        with pytest.raises(UsageError, match=sentence):
            await app.task(greet).using(expires="1h", **options).aenqueue("a")
        with pytest.raises(UsageError, match=sentence):
            await app.task(expires="1h", name="short")(greet).using(**options).aenqueue("a")
    assert (await app.task(greet).using(expires="3h", delay="2h").aenqueue("a")).created


async def test_a_key_makes_one_job(app: Redrive) -> None:
    """The second call gets the first one's job."""
    task = app.task(greet).using(key="once")
    first, second = await task.aenqueue("a"), await task.aenqueue("b")
    assert (first.created, second.created, second.id) == (True, False, first.id)
    assert second.state == State.READY


async def test_concurrent_calls_share_a_commit(make_app: MakeApp, make_store: Any, clock: ManualClock) -> None:
    """A hundred callers cost two transactions, not a hundred; each gets its own answer."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    task = app.task(greet)
    made = await asyncio.gather(*(task.aenqueue(str(n)) for n in range(100)))
    assert len({job.id for job in made}) == 100
    assert store.calls.count("jobs.add") <= 2


async def test_a_job_that_the_store_chokes_on_harms_no_neighbour(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """Those in the same batch are added; the one call gets its error."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    task = app.task(greet)
    await task.aenqueue("first, so that the store is open")
    store.raise_once("jobs.add", ValueError("a whole batch"))
    store.raise_once("jobs.add", ValueError("this one"))
    answers = await asyncio.gather(*(task.aenqueue(str(n)) for n in range(3)), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["ValueError", "Enqueued", "Enqueued"]


async def test_an_unknown_outcome_is_tried_again_and_makes_one_job(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """The commit arrived, its answer did not: the same id is asked for again, and the caller learns that it made it."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    store.lose_answers("jobs.add")
    job = await app.task(greet).aenqueue("a")
    assert job.created
    assert [depth.ready for depth in await app.store.jobs.depth()] == [1]
    assert store.calls.count("jobs.add") == 2


async def test_a_store_that_stays_away_is_an_error(make_app: MakeApp, make_store: Any, clock: ManualClock) -> None:
    """After a few tries the caller learns it."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    await app.opened()
    store.down = True
    with pytest.raises(StoreUnavailable):
        await app.task(greet).aenqueue("a")
    store.down = False
    assert await app.store.jobs.depth() == []


async def test_a_full_queue_refuses(app: Redrive) -> None:
    """Backpressure refuses before acceptance, and says why; a stream says how far it came."""
    await app.store.jobs.gate(Gate(kind="queue", key="default", depth_limit=2), "tester")
    task = app.task(greet)
    assert await app.aenqueue_many(task.job(str(n)) for n in range(2)) == 2
    with pytest.raises(QueueFull, match=r"queue 'default' did not accept the job: .*limit of 2"):
        await task.aenqueue("late")
    with pytest.raises(QueueFull, match="0 jobs of this call were added"):
        await app.aenqueue_many([task.job("late")])


async def test_a_stream_is_read_as_it_is_written(make_app: MakeApp, make_store: Any, clock: ManualClock) -> None:
    """No more than a batch is ever held."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    task = app.task(greet)
    pulled, held = 0, []

    def source() -> Iterator[Job]:
        nonlocal pulled
        for n in range(2 * BATCH + 7):
            pulled += 1
            held.append(pulled - BATCH * store.calls.count("jobs.add"))
            yield task.job(str(n))

    assert await app.aenqueue_many(source()) == 2 * BATCH + 7
    assert max(held) <= BATCH
    assert store.calls.count("jobs.add") == 3


async def test_a_stream_is_bounded_in_bytes_too(make_app: MakeApp, make_store: Any, clock: ManualClock) -> None:
    """Large payloads make small batches."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    task = app.task(greet)
    assert await app.aenqueue_many(task.job("x" * 2**19) for _ in range(20)) == 20
    assert store.calls.count("jobs.add") >= 2


async def test_an_asynchronous_stream(app: Redrive) -> None:
    """An async generator is read as it is."""
    task = app.task(greet)

    async def source() -> AsyncIterator[Job]:
        for n in range(3):
            yield task.job(str(n))

    assert await app.aenqueue_many(source()) == 3


async def test_a_stream_of_something_else_is_refused(app: Redrive) -> None:
    """It says what it takes."""
    with pytest.raises(UsageError, match=r"enqueue_many takes jobs made by task\.job\(…\), not str"):
        await app.aenqueue_many(["a@b.c"])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", [None, 5, Job(id=new_id(), task="t", payload=b"{}")], ids=["none", "number", "job"])
async def test_what_is_no_stream_is_refused(app: Redrive, wrong: Any) -> None:
    """One job alone too, which would be easily written."""
    with pytest.raises(UsageError, match=r"enqueue_many takes an iterable of jobs made by task\.job\(…\), not "):
        await app.aenqueue_many(wrong)
    with pytest.raises(UsageError, match="enqueue_many takes an iterable of jobs"):
        await asyncio.to_thread(app.enqueue_many, wrong)


class SourceGone(Exception):
    """What a source of jobs raises in the middle."""


@pytest.mark.parametrize("given", [3, BATCH + 3])
@pytest.mark.parametrize("call", ["plain", "plain source", "asynchronous source"])
async def test_what_a_source_gave_before_it_failed_is_added(app: Redrive, given: int, call: str) -> None:
    """However large a batch is; its own error comes back, with a note of how far it came."""
    task = app.task(greet)

    def source() -> Iterator[Job]:
        yield from (task.job(str(n)) for n in range(given))
        raise SourceGone

    async def asource() -> AsyncIterator[Job]:
        for job in source():
            yield job

    calls: dict[str, Callable[[], Awaitable[int]]] = {
        "plain": lambda: asyncio.to_thread(app.enqueue_many, source()),
        "plain source": lambda: app.aenqueue_many(source()),
        "asynchronous source": lambda: app.aenqueue_many(asource()),
    }
    with pytest.raises(SourceGone) as raised:
        await calls[call]()
    assert raised.value.__notes__ == [f"at least {given:,} new jobs of this call were added before it"]
    assert [depth.ready for depth in await app.store.jobs.depth()] == [given]


async def test_a_store_that_fails_in_the_middle_of_a_stream_says_how_far_it_came(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """The batches before are there, and the note counts them."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    task = app.task(greet)

    def source() -> Iterator[Job]:
        for n in range(3 * BATCH):
            if n == 2 * BATCH - 1:
                store.raise_once("jobs.add", StoreError("full"))
            yield task.job(str(n))

    with pytest.raises(StoreError, match="full") as raised:
        await app.aenqueue_many(source())
    assert raised.value.__notes__ == ["at least 1,000 new jobs of this call were added before it"]
    assert [depth.ready for depth in await app.store.jobs.depth()] == [BATCH]


async def test_a_plain_call_inside_a_loop_says_what_to_write(app: Redrive) -> None:
    """It would stand still, so it does nothing."""
    task = app.task(greet)
    with pytest.raises(WrongLoop, match=r"write `await ….aenqueue\(…\)` instead"):
        task.enqueue("a")
    with pytest.raises(WrongLoop, match="aenqueue_many"):
        app.enqueue_many([])
    with pytest.raises(WrongLoop, match="await_"):
        (await task.aenqueue("a")).wait()


def test_plain_calls_from_a_script_and_from_threads(app: Redrive) -> None:
    """Several threads at once, each without a loop of its own."""
    task = app.task(greet)
    made = [task.enqueue("script")]
    threads = [threading.Thread(target=lambda: made.append(task.enqueue("thread"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len({job.id for job in made}) == 9
    app.close()


def test_a_plain_stream_is_read_in_the_thread_that_gave_it(app: Redrive) -> None:
    """A database cursor that belongs to its thread works as a source, and the source may enqueue itself."""
    task = app.task(greet)
    threads = set()

    def source() -> Iterator[Job]:
        for n in range(BATCH + 1):
            threads.add(threading.get_ident())
            yield task.job(str(n))
        task.enqueue("from within")

    assert app.enqueue_many(source()) == BATCH + 1
    assert threads == {threading.get_ident()}
    app.close()


async def test_hooks_surround_the_adding(app: Redrive) -> None:
    """They may change the job, and see the answer; the one added last is the outermost."""
    task, order = app.task(greet), []

    @app.around_enqueue
    async def inner(job: Job, add: Any) -> Added:
        order.append("inner")
        answer: Added = await add(job)
        return answer

    @app.around_enqueue
    async def outer(job: Job, add: Any) -> Added:
        order.append("outer")
        answer: Added = await add(Job(id=job.id, task=job.task, payload=job.payload, queue="traced"))
        assert isinstance(answer, Accepted)
        return answer

    made = await task.aenqueue("a")
    assert await app.aenqueue_many([task.job("b")]) == 1
    assert order == ["outer", "inner"] * 2
    assert (await live(app, made)).queue == "traced"


async def test_a_hook_that_is_no_coroutine_function_is_refused(app: Redrive) -> None:
    """At registration, not at the first job."""

    def plain(job: Job, add: Any) -> Any:
        return add(job)

    with pytest.raises(UsageError, match="a hook for around_enqueue is an `async def`"):
        app.around_enqueue(plain)
    with pytest.raises(UsageError, match="a hook for around_attempt is an `async def`"):
        app.around_attempt(plain)  # type: ignore[arg-type]


async def test_a_queue_without_a_worker_is_said_once_a_minute(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """And costs a look a minute, not one with each job."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    told = Recorder()
    app.subscribe(told)
    task = app.task(greet)
    for _ in range(5):
        await task.aenqueue("a")
    assert names(told).count("queue.unserved") == 1
    assert store.calls.count("workers.find") == 1
    clock.advance(61)
    await task.aenqueue("a")
    assert names(told).count("queue.unserved") == 2


async def test_a_served_queue_is_not_warned_about(make_app: MakeApp) -> None:
    """A worker of this queue, or of every queue, is there."""
    app = make_app()
    told = Recorder()
    app.subscribe(told)
    task = app.task(greet)
    async with app.worker(queues=["mine"]):
        await task.using(queue="mine").aenqueue("a")
        await task.using(queue="other").aenqueue("a")
    assert [event.fields["queue"] for event in told.events if event.name == "queue.unserved"] == ["other"]


async def test_who_cannot_be_asked_about_workers_costs_no_job(
    make_app: MakeApp, make_store: Any, clock: ManualClock
) -> None:
    """The job is accepted, whatever becomes of the warning."""
    store = FlakyStore(make_store(clock))
    app = make_app(clock, store=store)
    store.raise_once("workers.find", StoreError("no"))
    assert (await app.task(greet).aenqueue("a")).created


async def test_a_job_knows_its_parent(app: Redrive) -> None:
    """What a handler enqueues names the job it was enqueued by."""
    children = []

    @app.task
    async def parent() -> None:
        children.append(await app.aenqueue("elsewhere", queue="other"))

    made = await parent.aenqueue()
    await app.worker(["default"], burst=True).run()
    assert (await live(app, children[0])).parent == made.id


async def test_an_id_of_ones_own(app: Redrive) -> None:
    """Given twice, it is one job."""
    id = new_id()
    task = app.task(greet).using(id=id)
    assert (await task.aenqueue("a")).created
    again = await task.aenqueue("a")
    assert (again.id, again.created) == (id, False)


async def test_an_enqueued_job_wakes_an_idle_worker(make_app: MakeApp) -> None:
    """At once, not at the next poll."""
    app = make_app(worker={"poll": 30_000_000})
    ran = asyncio.Event()

    @app.task
    async def work() -> None:
        ran.set()

    async with app.worker():
        await auntil(lambda: app.store.jobs.depth(["default"]))
        made = await work.aenqueue()
        await asyncio.wait_for(ran.wait(), 5)
        await auntil(lambda: _done(app, made.id))


async def _done(app: Redrive, id: str) -> bool:
    return await state(app, id) == State.DONE

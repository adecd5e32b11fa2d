"""Enqueueing: build -> admit -> add -> wake. Concurrent calls share one transaction, and so one commit."""

import asyncio
import reprlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from redrive import job as jobs
from redrive import results
from redrive.clock import SECOND, Duration, iso, micros, moment, spoken
from redrive.errors import (
    JobFailed,
    NotFound,
    NotReady,
    QueueFull,
    RedriveError,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from redrive.job import Job, State, new_id
from redrive.options import Options
from redrive.portal import portal
from redrive.retry import encode_limits
from redrive.store import Accepted, Added, Existing, Record, Refused, Store
from redrive.task import limits_by

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.task import Task

BATCH = 1_000
BATCH_BYTES = 4 * 1024 * 1024
ADD_RESTS = (0.0, 0.1, 0.4)
"""After an unknown outcome an addition is tried again after these many seconds."""

ADD_PATIENCE = 5.0
"""Not again, though, when it took longer than this to learn nothing."""

UNSERVED_EVERY = 60_000_000


class Enqueued:
    """A job that the store has: its id, whether this call made it, and its result when there is one."""

    __slots__ = ("_client", "created", "id", "queue", "state", "task")

    def __init__(self, client: "Client", job: Job, added: Accepted | Existing) -> None:
        self._client = client
        self.task = job.task
        self.queue = job.queue
        self.id = added.id
        self.created = isinstance(added, Accepted)
        """False when a job with this id or key was there already: then this is that job."""
        self.state: str = added.state if isinstance(added, Existing) else _first_state(job, client.now())
        """Its state when this call returned."""

    def __repr__(self) -> str:
        return f"<job {self.id[-8:]} {self.task} {'created' if self.created else 'existing'}>"

    def result(self) -> Any:
        """What the handler returned, kept for a day; NotReady before the end, JobFailed without one."""
        return portal.run(self.aresult, "result")

    async def aresult(self) -> Any:
        """What the handler returned, kept for a day; NotReady before the end, JobFailed without one."""
        return self._client.outcome(self.id, await self._client.record(self.id))

    def wait(self, timeout: Duration | None = None) -> Any:
        """The result as soon as there is one; NotReady after `timeout`."""
        return portal.run(lambda: self.await_(timeout), "wait", "await_")

    async def await_(self, timeout: Duration | None = None) -> Any:
        """The asynchronous `wait`; `a` and `wait` make a keyword, hence the underscore."""
        return await self._client.await_outcome(self.id, timeout)


def _first_state(job: Job, now: int) -> State:
    return State.SCHEDULED if job.due_at > now else State.READY


class Client:
    """Adds jobs to the app's store."""

    def __init__(self, app: "Redrive") -> None:
        self._app = app
        self._gatherers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Gatherer] = WeakKeyDictionary()
        self._looked_at: dict[str, int] = {}
        self._limits: dict[str, bytes] = {}

    # build ----------------------------------------------------------------------------------------------------------

    def build(self, task: "Task[..., Any] | str", payload: Any, options: Options) -> Job:
        """A job out of a task, its payload and what the caller said about it."""
        if self._app.forbidden:
            raise UsageError(self._app.forbidden)
        known = self._app.registry.get(task) if isinstance(task, str) else task
        said = known.options if known else None
        now = self._app.clock.now()
        due_at = options.at or (now + options.delay if options.delay else 0)
        expires = options.expires if options.expires is not None else (said.expires if said else None)
        return Job(
            id=options.id or new_id(),
            task=known.name if known else str(task),
            payload=jobs.encode(payload, limit=self._app.config.payload_limit),
            queue=options.queue or (said.queue if said else "default"),
            priority=options.priority if options.priority is not None else (said.priority if said else 5),
            due_at=due_at,
            epoch_at=due_at if due_at > now else 0,  # `within` counts from when it may first run
            key=options.key,
            external_id=options.external_id,
            headers=options.headers,
            batch=options.batch,
            parent=self._app.running_job(),
            needs=options.needs if options.needs is not None else (said.needs if said else ()),
            expires=_expiry(expires, now, due_at),
            release=self._app.release,
            policy=options.limits(self._policy(known)),
        )

    def named(self, task: "Task[..., Any] | str", payload: Any, options: Options) -> Job:
        """A job of a task by name, its payload checked against the signature when the task is known here."""
        name = getattr(task, "name", task)
        try:
            known = self._app.registry.get(jobs.name_of(name))
        except ValueError as error:
            raise UsageError(f"{reprlib.repr(name)} is no name of a task: {error}") from None
        job = self.build(known or name, payload, options)
        if known is not None:
            known.bind(job.payload)
        return job

    def _policy(self, task: "Task[..., Any] | None") -> bytes | None:
        if task is None:
            return None
        if task.name not in self._limits:
            self._limits[task.name] = encode_limits(limits_by(task))
        return self._limits[task.name]

    def now(self) -> int:
        """What the app's clock says."""
        return self._app.clock.now()

    # add ------------------------------------------------------------------------------------------------------------

    def enqueue_one(self, job: Job) -> Enqueued:
        """Add one job from a thread without a loop."""
        return portal.run(lambda: self.aenqueue_one(job), "enqueue")

    async def aenqueue_one(self, job: Job) -> Enqueued:
        """Add one job; concurrent calls share a commit."""
        added = await self._app.hooks.around_enqueue(job, self._gather)
        if isinstance(added, Refused):
            raise QueueFull(f"queue {job.queue!r} did not accept the job: {added.why}", retry_after=added.retry_after)
        if not isinstance(added, Accepted | Existing):
            raise UsageError(f"a hook around enqueue returned {added!r}; it must return what `await add(job)` answered")
        return Enqueued(self, job, added)

    def enqueue_many(self, source: Iterable[Job]) -> int:
        """Stream jobs into the store in batches; the source is read in the caller's own thread."""
        portal.refuse_inside_a_loop("enqueue_many")
        if isinstance(source, AsyncIterable):
            raise UsageError("enqueue_many reads a plain iterable; for an asynchronous one use aenqueue_many")
        _check_source(source)
        batch, created = _Batch(), 0

        def added() -> int:
            return portal.run(lambda: self._add_batch(batch.taken(), created), "enqueue_many")

        try:
            for job in source:
                if batch.add(job):
                    created += added()
            return created + added()
        except Exception as error:
            created += added()  # what the source gave before it failed; nothing is left when the store did
            _note(error, created)
            raise

    async def aenqueue_many(self, source: Iterable[Job] | AsyncIterable[Job]) -> int:
        """Stream jobs into the store in batches; answers how many were new."""
        _check_source(source)
        batch, created = _Batch(), 0
        try:
            async for job in _each(source):
                if batch.add(job):
                    created += await self._add_batch(batch.taken(), created)
            return created + await self._add_batch(batch.taken(), created)
        except Exception as error:
            created += await self._add_batch(batch.taken(), created)  # as above
            _note(error, created)
            raise

    async def _add_batch(self, batch: list[Job], before: int) -> int:
        if not batch:
            return 0
        if self._app.hooks.has_around_enqueue:
            answers = await asyncio.gather(*(self._app.hooks.around_enqueue(job, self._gather) for job in batch))
        else:
            answers = await self._add(batch)
        created = sum(isinstance(added, Accepted) for added in answers)
        for job, added in zip(batch, answers, strict=True):
            if isinstance(added, Refused):
                raise QueueFull(
                    f"queue {job.queue!r} did not accept job {job.short}: {added.why}; "
                    f"{before + created:,} jobs of this call were added, the rest was not",
                    retry_after=added.retry_after,
                )
        return created

    async def _gather(self, job: Job) -> Added:
        loop = asyncio.get_running_loop()
        gatherer = self._gatherers.get(loop)
        if gatherer is None:
            gatherer = self._gatherers[loop] = _Gatherer(self._add)
        return await gatherer.add(job)

    async def _add(self, batch: list[Job]) -> list[Added]:
        """Add, tell, warn."""
        store = await self._app.opened()
        answers = await _added(store, batch)
        if self._app.events.wanted("job.enqueued"):
            for job, added in zip(batch, answers, strict=True):
                if isinstance(added, Accepted):
                    self._app.events.emit("job.enqueued", job)
        await self._warn_if_unserved(store, {job.queue for job in batch})
        return answers

    async def _warn_if_unserved(self, store: Store, queues: set[str]) -> None:
        """Look once a minute and queue whether any worker serves it."""
        now = self._app.clock.steady()
        due = [queue for queue in queues if now - self._looked_at.get(queue, -UNSERVED_EVERY) >= UNSERVED_EVERY]
        if not due:
            return
        self._looked_at.update(dict.fromkeys(due, now))
        try:
            workers = await store.workers.find()
        except StoreError:  # the jobs are added; that nobody could be asked about workers is no reason to fail
            return
        for queue in due:
            if not any(not worker.queues or queue in worker.queues for worker in workers):
                self._app.events.emit("queue.unserved", queue=queue)

    def forget_looks(self) -> None:
        """Another store, another clock: whether its queues are served is to be looked at anew."""
        self._looked_at.clear()

    # results --------------------------------------------------------------------------------------------------------

    async def record(self, id: str) -> Record:
        """Everything the store knows of a job."""
        record = await (await self._app.opened()).jobs.get(id)
        if record is None:
            raise NotFound(
                f"there is no job {id}; finished jobs are kept for {spoken(self._app.config.retention.done)}"
            )
        return record

    def outcome(self, id: str, record: Record, advice: str = "wait for it with wait(timeout=…)") -> Any:
        """The result in a record, or why there is none."""
        if record.finished is not None:
            return results.opened(record.finished.result, id[-8:])
        if record.job is not None and record.job.state in (State.DEAD, State.DISCARDED):
            last = record.failures[-1] if record.failures and record.job.state == State.DEAD else None
            why = f"{last.type}: {last.message}" if last else (record.end_reason or "no reason was given")
            raise JobFailed(f"job {id[-8:]} is {record.job.state}: {why}; see `redrive jobs show {id[-8:]}`")
        state = record.job.state if record.job else "unknown"
        raise NotReady(f"job {id[-8:]} is {state} and has no result yet; {advice}")

    async def await_outcome(self, id: str, timeout: Duration | None) -> Any:
        """Look until the job has ended; each look rests a little longer, up to a quarter of a second."""
        rest = 0.005
        until = None if timeout is None else time.monotonic() + micros(timeout) / SECOND
        while True:
            try:
                return self.outcome(
                    id, await self.record(id), "its time to wait is over; does a worker serve its queue?"
                )
            except NotReady:
                if until is not None and time.monotonic() >= until:
                    raise
            await asyncio.sleep(rest)
            rest = min(rest * 1.5, 0.25)


class _Gatherer:
    """While one batch is on its way, later calls of the same loop gather for the next."""

    def __init__(self, send: Callable[[list[Job]], Awaitable[list[Added]]]) -> None:
        self._send = send
        self._waiting: list[tuple[Job, asyncio.Future[Added]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def add(self, job: Job) -> Added:
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        return await future

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                await self._send_batch(batch)
        finally:
            self._sender = None

    async def _send_batch(self, batch: list[tuple[Job, asyncio.Future[Added]]]) -> None:
        try:
            answers = await self._send([job for job, _ in batch])
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, RedriveError):
                for one in batch:  # one of them is what the store choked on; the others are not to suffer for it
                    await self._send_batch([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), added in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(added)


class _Batch:
    """Jobs on their way, bounded in number and in bytes."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._size = 0

    def add(self, job: Job) -> bool:
        """One more; whether that was enough."""
        if not isinstance(job, Job):
            raise UsageError(f"enqueue_many takes jobs made by task.job(…), not {type(job).__name__}")
        self._jobs.append(job)
        self._size += len(job.payload)
        return len(self._jobs) >= BATCH or self._size >= BATCH_BYTES

    def taken(self) -> list[Job]:
        jobs, self._jobs, self._size = self._jobs, [], 0
        return jobs


def _check_source(source: object) -> None:
    if not isinstance(source, Iterable | AsyncIterable):
        raise UsageError(f"enqueue_many takes an iterable of jobs made by task.job(…), not {type(source).__name__}")


async def _each(source: Iterable[Job] | AsyncIterable[Job]) -> AsyncIterator[Job]:
    """The jobs of a source of either kind."""
    if isinstance(source, AsyncIterable):
        async for job in source:
            yield job
    else:
        for job in source:
            yield job


def _note(error: Exception, created: int) -> None:
    """Let whoever reads the error know how far it came; a full queue says so itself."""
    if not isinstance(error, QueueFull):
        error.add_note(f"at least {created:,} new jobs of this call were added before it")


async def _added(store: Store, batch: list[Job]) -> list[Added]:
    """Add with the same ids again when the outcome of a try is unknown: one job results."""
    began = time.monotonic()
    for number, rest in enumerate(ADD_RESTS):
        try:
            answers = await store.jobs.add(batch)
            return answers if number == 0 else [_ours(job, added) for job, added in zip(batch, answers, strict=True)]
        except StoreUnavailable:
            if time.monotonic() - began > ADD_PATIENCE:
                raise
        await asyncio.sleep(rest)
    return [_ours(job, added) for job, added in zip(batch, await store.jobs.add(batch), strict=True)]


def _ours(job: Job, added: Added) -> Added:
    """What an earlier try of this very call has added was made by this call."""
    return Accepted(job.id) if isinstance(added, Existing) and added.id == job.id else added


def _expiry(expires: int | datetime | None, now: int, due_at: int) -> int | None:
    """When a job expires; one that could never be run is refused."""
    if expires is None:
        return None
    end = moment(expires) if isinstance(expires, datetime) else now + expires
    if end <= due_at:
        raise UsageError(
            f"the job would expire at {iso(end)}, before it may first run at {iso(due_at)}; "
            "give it a later expires, or an earlier start"
        )
    return end

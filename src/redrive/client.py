"""Enqueueing: build -> admit -> add -> wake. Concurrent calls share one transaction, and so one commit."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from redrive import job as jobs
from redrive.clock import Duration, micros, spoken
from redrive.errors import JobFailed, NotFound, NotReady, QueueFull, StoreUnavailable, UsageError
from redrive.job import Job, State, decode, new_id
from redrive.options import Options
from redrive.portal import portal
from redrive.retry import encode_limits
from redrive.store import Accepted, Added, Existing, Record, Refused

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.task import Task

BATCH = 1_000
BATCH_BYTES = 4 * 1024 * 1024
ADD_TRIES = 3
UNSERVED_EVERY = 60_000_000

T = TypeVar("T")


class Enqueued:
    """A job that the store has: its id, whether this call made it, and its result when there is one."""

    __slots__ = ("_client", "created", "id", "queue", "state", "task")

    def __init__(self, client: "Client", job: Job, added: Added) -> None:
        self._client = client
        self.task = job.task
        self.queue = job.queue
        self.created = isinstance(added, Accepted)
        self.id = job.id if isinstance(added, Refused) else added.id
        self.state: str = added.state if isinstance(added, Existing) else State.READY

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
        return portal.run(lambda: self.await_(timeout), "wait")

    async def await_(self, timeout: Duration | None = None) -> Any:
        """The result as soon as there is one; NotReady after `timeout`."""
        return await self._client.await_outcome(self.id, timeout)


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
        known = self._app.registry.get(task) if isinstance(task, str) else task
        said = known.options if known else None
        now = self._app.clock.now()
        expires = options.expires if options.expires is not None else (said.expires if said else None)
        return Job(
            id=options.id or new_id(),
            task=known.name if known else str(task),
            payload=jobs.encode(payload, limit=self._app.config.payload_limit),
            queue=options.queue or (said.queue if said else "default"),
            priority=options.priority if options.priority is not None else (said.priority if said else 5),
            due_at=options.at or (now + options.delay if options.delay else 0),
            key=options.key,
            external_id=options.external_id,
            headers=options.headers,
            batch=options.batch,
            parent=self._app.running_job(),
            needs=options.needs if options.needs is not None else (said.needs if said else ()),
            expires=_expiry(expires, now),
            release=self._app.release,
            policy=options.limits(self._policy(known)),
        )

    def named(self, name: str, payload: Any, options: Options) -> Job:
        """A job of a task by name, its payload checked against the signature when the task is known here."""
        task = self._app.registry.get(name)
        job = self.build(task or name, payload, options)
        if task is not None:
            task.bind(job.payload)
        return job

    def _policy(self, task: "Task[..., Any] | None") -> bytes | None:
        if task is None:
            return None
        if task.name not in self._limits:
            self._limits[task.name] = encode_limits(task.policy.limits(timeout=task.options.timeout))
        return self._limits[task.name]

    # add ------------------------------------------------------------------------------------------------------------

    def enqueue_one(self, job: Job) -> Enqueued:
        """Add one job from a thread without a loop."""
        return portal.run(lambda: self.aenqueue_one(job), "enqueue")

    async def aenqueue_one(self, job: Job) -> Enqueued:
        """Add one job; concurrent calls share a commit."""
        added = await self._app.hooks.around_enqueue(job, self._gather)
        if isinstance(added, Refused):
            raise QueueFull(f"queue {job.queue!r} did not accept the job: {added.why}", retry_after=added.retry_after)
        return Enqueued(self, job, added)

    async def enqueue_many(self, source: Iterable[Job] | AsyncIterable[Job]) -> int:
        """Stream jobs into the store in batches; answers how many were new."""
        created = 0
        async for batch in _batches(source):
            created += await self._add_batch(batch)
        return created

    async def _add_batch(self, batch: list[Job]) -> int:
        if self._app.hooks.has_around_enqueue:
            answers = await asyncio.gather(*(self._app.hooks.around_enqueue(job, self._gather) for job in batch))
        else:
            answers = await self._add(batch)
        for job, added in zip(batch, answers, strict=True):
            if isinstance(added, Refused):
                raise QueueFull(
                    f"queue {job.queue!r} did not accept job {job.short} and those after it: {added.why}",
                    retry_after=added.retry_after,
                )
        return sum(isinstance(added, Accepted) for added in answers)

    async def _gather(self, job: Job) -> Added:
        loop = asyncio.get_running_loop()
        gatherer = self._gatherers.get(loop)
        if gatherer is None:
            gatherer = self._gatherers[loop] = _Gatherer(self._add)
        return await gatherer.add(job)

    async def _add(self, batch: list[Job]) -> list[Added]:
        """Add with the same ids again when the outcome of a try is unknown: one job results."""
        store = await self._app.opened()
        for left in range(ADD_TRIES - 1, -1, -1):
            try:
                answers = await store.jobs.add(batch)
                break
            except StoreUnavailable:
                if not left:
                    raise
        self._tell(batch, answers)
        await self._warn_if_unserved({job.queue for job in batch})
        return answers

    def _tell(self, batch: list[Job], answers: list[Added]) -> None:
        if self._app.events.wanted("job.enqueued"):
            for job, added in zip(batch, answers, strict=True):
                if isinstance(added, Accepted):
                    self._app.events.emit("job.enqueued", job)

    async def _warn_if_unserved(self, queues: set[str]) -> None:
        """Look once a minute and queue whether any worker serves it."""
        now = self._app.clock.steady()
        due = [queue for queue in queues if now - self._looked_at.get(queue, -UNSERVED_EVERY) >= UNSERVED_EVERY]
        if not due:
            return
        self._looked_at.update(dict.fromkeys(due, now))
        workers = await (await self._app.opened()).workers.find()
        for queue in due:
            if not any(not worker.queues or queue in worker.queues for worker in workers):
                self._app.events.emit("queue.unserved", queue=queue)

    # results --------------------------------------------------------------------------------------------------------

    async def record(self, id: str) -> Record:
        """Everything the store knows of a job."""
        record = await (await self._app.opened()).jobs.get(id)
        if record is None:
            raise NotFound(
                f"there is no job {id}; finished jobs are kept for {spoken(self._app.config.retention.done)}"
            )
        return record

    def outcome(self, id: str, record: Record) -> Any:
        """The result in a record, or why there is none."""
        if record.finished is not None:
            return decode(record.finished.result) if record.finished.result else None
        if record.job is not None and record.job.state in (State.DEAD, State.DISCARDED):
            last = record.failures[-1] if record.failures else None
            why = f"{last.type}: {last.message}" if last else (record.end_reason or "no reason was given")
            raise JobFailed(f"job {id[-8:]} is {record.job.state}: {why}; see `redrive jobs show {id[-8:]}`")
        state = record.job.state if record.job else "unknown"
        raise NotReady(f"job {id[-8:]} is {state}; wait for it with wait(timeout=…)")

    async def await_outcome(self, id: str, timeout: Duration | None) -> Any:
        """Look until the job has ended; each look rests a little longer, up to a quarter of a second."""
        rest = 0.005
        until = None if timeout is None else self._app.clock.steady() + micros(timeout)
        while True:
            try:
                return self.outcome(id, await self.record(id))
            except NotReady:
                if until is not None and self._app.clock.steady() >= until:
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
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), added in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(added)


async def _batches(source: Iterable[Job] | AsyncIterable[Job]) -> AsyncIterator[list[Job]]:
    """Batches bounded in number and in bytes."""
    batch: list[Job] = []
    size = 0
    async for job in _each(source):
        if not isinstance(job, Job):
            raise UsageError(f"enqueue_many takes jobs made by task.job(…), not {type(job).__name__}")
        batch.append(job)
        size += len(job.payload)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _each(source: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(source, AsyncIterable):
        async for item in source:
            yield item
        return
    for number, item in enumerate(source):
        yield item
        if number % BATCH == BATCH - 1:
            await asyncio.sleep(0)


def _expiry(expires: int | datetime | None, now: int) -> int | None:
    match expires:
        case None:
            return None
        case datetime():
            return round(expires.timestamp() * 1_000_000)
        case _:
            return now + expires

"""The worker: claims what its free slots allow, keeps its leases alive, settles in batches, drains on stop."""

import asyncio
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from redrive import calls
from redrive.announce import announce
from redrive.app import reference_of
from redrive.attempt import Bench, Identity, attempt
from redrive.clock import SECOND, boot_id
from redrive.errors import StoreError
from redrive.job import Job
from redrive.keeper import Keeper
from redrive.runners.process import ChildPool
from redrive.runners.thread import ThreadRunner
from redrive.settler import Settler
from redrive.slots import Slots
from redrive.store import AnySettlement, Turn
from redrive.store import Worker as Row
from redrive.supervisor import EXIT_RECYCLE, supervised_beat
from redrive.watchdog import Watchdog, end_process

if TYPE_CHECKING:
    from redrive.app import Redrive

LOW_WATER = 4  # a quarter of the slots: fewer free ones wait a moment for company
GATHER = 0.002
OUTAGE_RESTS = (0.1, 0.2, 0.5, 1.0, 2.0)
LAST_WORDS = 2.0


class Worker:
    """Runs the jobs of an app: `async with app.worker(): …`, or `await app.worker(burst=True).run()`."""

    def __init__(
        self,
        app: "Redrive",
        *,
        queues: Sequence[str] | Mapping[str, int | None] | None = None,
        concurrency: int | None = None,
        threads: int | None = None,
        burst: bool = False,
    ) -> None:
        settings = app.config.worker
        self.app = app
        self.id = f"{settings.id or Identity('').host}-{os.getpid()}-{secrets.token_hex(2)}"
        self.burst = burst
        self.done = 0
        self.failed = 0
        self._queues = _queue_caps(settings.queues if queues is None else queues)
        self._sizes = {
            "loop": concurrency or settings.concurrency,
            "thread": threads or settings.threads,
            "process": settings.children,
        }
        self._held: dict[str, Job] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._bell = asyncio.Event()
        self._draining = False
        self._recycling = False
        self._away = False
        self._stack = AsyncExitStack()
        self._beat = supervised_beat()

    # life -----------------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Work until told to stop, or until nothing is left to do in a burst; answers the exit code."""
        async with self:
            await asyncio.wait({self._pump})
            self._pump.result()
        return EXIT_RECYCLE if self._recycling else 0

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()
        await asyncio.wait({self._pump})
        await self._stack.aclose()
        self.app.events.emit("worker.stopped", worker=self.id, done=self.done, failed=self.failed)
        if not self._pump.cancelled() and kind is None:
            self._pump.result()

    async def _start(self) -> None:
        app, settings = self.app, self.app.config.worker
        self._loop = asyncio.get_running_loop()
        self._store = await app.opened()
        state = await self._stack.enter_async_context(app.hooks.lifespan(app))
        self._threads = ThreadRunner(self._sizes["thread"])
        self._stack.callback(self._threads.close)
        self._bench = Bench(app, Identity(self.id), state, self._threads, self._children())
        self._slots = Slots(app.registry, self._sizes, self._queues, apart=self._bench.children is not None)
        self._settler = Settler(self._store, self._settled)
        keeper = Keeper(self, self._bench, self._store, self._first_row())
        await keeper.start()
        self._stack.push_async_callback(keeper.stop)
        watchdog = Watchdog(self._loop, settings.watchdog / SECOND, end_process(self._names))
        watchdog.start()
        self._stack.callback(watchdog.stop)
        self._listener = asyncio.create_task(self._listen())
        self._stack.push_async_callback(_ended, self._listener)
        self._pump = asyncio.create_task(self._work())
        self._announce_start()

    def _children(self) -> ChildPool | None:
        reference = reference_of(self.app)
        if reference is None:
            return None
        pool = ChildPool(
            [sys.executable, "-m", "redrive.child"], calls.hello(reference, self.id), self._sizes["process"]
        )
        self._stack.push_async_callback(pool.close)
        return pool

    def _first_row(self) -> Row:
        return Row(
            id=self.id,
            host=self._bench.identity.host,
            boot=boot_id(),
            pid=os.getpid(),
            started_at=self.app.clock.now(),
            release=self.app.release,
            tasks=self.app.registry.names(),
            queues=tuple(self._queues or ()),
            slots=self._slots.total,
        )

    def _announce_start(self) -> None:
        self.app.events.emit(
            "worker.started",
            worker=self.id,
            store_url=self._store.url,
            durable=self._store.traits.durable,
            queues=tuple(self._queues or ()),
            slots=self._slots.total,
            tasks=self.app.registry.names(),
            pid=os.getpid(),
        )

    # the flow -------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Turn by turn: settle what has ended, claim what fits, start it, rest until something happens."""
        while not self._over():
            want = None if self._draining else self._slots.want(self.id, self.app.config.worker.lease)
            self._bell.clear()
            try:
                turn = await self._settler.turn(want) if want or len(self._settler) else Turn(frozenset(), [])
            except StoreError as error:
                await self._outage(error)
                continue
            self._returned()
            for job in turn.jobs:
                self._begin(job)
            if self.burst and want is not None and not turn.jobs and not self._held:
                self.drain()
            elif want is None or len(turn.jobs) < want.limit:
                await self._rest(turn.next_due)

    def _over(self) -> bool:
        return self._draining and not self._running and not len(self._settler)

    def _begin(self, job: Job) -> None:
        self._slots.take(job)
        self._held[job.id] = job
        self._running[job.id] = self._loop.create_task(self._attempt(job))

    async def _attempt(self, job: Job) -> None:
        settlement = await attempt(self._bench, job)
        del self._running[job.id]
        self._slots.give(job)
        self._settler.add(settlement)
        self._count_stuck()
        self._bell.set()

    def _settled(self, settlement: AnySettlement, late: bool) -> None:
        self._held.pop(settlement.job.id, None)
        if late:
            self.app.events.emit("job.late", settlement.job)
            return
        announce(self.app.events, settlement, self.app.clock.now())
        self.done += settlement.__struct_config__.tag == "done"
        self.failed += settlement.__struct_config__.tag == "buried"

    async def _rest(self, next_due: int | None) -> None:
        """Until a job ends, a hint arrives, the next job is due, or it is time to poll."""
        rest = self.app.config.worker.poll / SECOND
        if next_due is not None:
            rest = min(rest, max(0.001, (next_due - self.app.clock.now()) / SECOND))
        if not self._bell.is_set():
            self._loop.call_later(rest, self._bell.set)
        await self._bell.wait()
        if self._running and self._slots.open() * LOW_WATER < self._slots.total:
            await asyncio.sleep(GATHER)

    async def _listen(self) -> None:
        poll = self.app.config.worker.poll / SECOND
        while True:
            try:
                if await self._store.wait(self.id, 60 * poll):
                    self._bell.set()
            except StoreError:
                await asyncio.sleep(poll)

    # trouble --------------------------------------------------------------------------------------------------------

    async def _outage(self, error: StoreError) -> None:
        """The store is away: what has ended is kept, and it is asked again, a little later each time."""
        self.report_outage(error)
        self._misses = min(getattr(self, "_misses", -1) + 1, len(OUTAGE_RESTS) - 1)
        await asyncio.sleep(OUTAGE_RESTS[self._misses])

    def report_outage(self, error: StoreError) -> None:
        """Say once that the store is away; from any thread."""
        if not self._away:
            self._away = True
            self.app.events.emit("store.unavailable", error=str(error))

    def _returned(self) -> None:
        self._misses = -1
        if self._away:
            self._away = False
            self.app.events.emit("store.returned")

    def _count_stuck(self) -> None:
        stuck = self._threads.stuck
        if stuck > self._slots.stuck:
            self.app.events.emit("worker.stuck", worker=self.id, stuck=stuck, slots=self._sizes["thread"])
        self._slots.stuck = stuck
        if stuck * 2 >= self._sizes["thread"] and stuck and not self._recycling:
            self._recycling = True
            self.app.events.emit("worker.recycled", worker=self.id, stuck=stuck)
            self.drain()

    def lose(self, ids: Iterable[str]) -> None:
        """These leases have passed to somebody else: stop the handlers; from any thread."""
        self._loop.call_soon_threadsafe(self._interrupt, tuple(ids), "its lease was lost")

    def _interrupt(self, ids: Iterable[str], why: str) -> None:
        for running in filter(None, map(self._running.get, ids)):
            running.cancel(why)

    # told from outside ----------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Claim nothing more, finish what runs within the grace period, give back the rest; from any thread."""
        if not self._draining:
            self._draining = True
            self._loop.call_soon_threadsafe(self._begin_drain)

    def _begin_drain(self) -> None:
        self._bell.set()
        self.app.events.emit("worker.draining", worker=self.id, running=len(self._running))
        grace = self.app.config.worker.grace / SECOND
        self._loop.call_later(grace, lambda: self._interrupt(tuple(self._running), "its worker stops"))

    def stop_now(self) -> None:
        """Give back what runs and leave at once; from any thread."""
        self.drain()
        self._loop.call_soon_threadsafe(lambda: self._interrupt(tuple(self._running), "its worker was told to leave"))

    # seen by the keeper -----------------------------------------------------------------------------------------------

    def held(self) -> list[Job]:
        """The jobs whose leases are ours; from any thread."""
        return list(self._held.values())

    def row(self, row: Row) -> Row:
        """This worker as others should see it now."""
        return msgspec.structs.replace(
            row,
            beat_at=self.app.clock.now(),
            running=tuple(self._running),
            stuck=self._threads.stuck,
            state="draining" if self._draining else "running",
        )

    def supervised_beat(self) -> None:
        """Tell the supervisor, if there is one, that this process still moves."""
        if self._beat is not None:
            self._beat()

    def _names(self) -> list[str]:
        return [f"{job.short} {job.task}" for job in self.held()]


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


def _queue_caps(queues: Sequence[str] | Mapping[str, int | None] | None) -> dict[str, int | None] | None:
    if queues is None or isinstance(queues, Mapping):
        return dict(queues) if queues else None
    return dict.fromkeys(queues)

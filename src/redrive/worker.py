"""The worker: claims what its free slots allow, keeps its leases alive, settles in batches, drains on stop."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from redrive import calls
from redrive.announce import announce
from redrive.bench import Bench, Identity, worker_id
from redrive.clock import SECOND, boot_id
from redrive.errors import StoreError, UsageError
from redrive.hands import Hands
from redrive.job import Job
from redrive.keeper import Keeper
from redrive.outage import Outage
from redrive.reference import reference_of
from redrive.runners.process import ChildPool
from redrive.runners.thread import ThreadRunner
from redrive.settler import Settler
from redrive.slots import Appetite, Slots, queue_caps, slot_count
from redrive.store import AnySettlement, Buried, Done, Turn, Want
from redrive.store import Worker as Row
from redrive.supervisor import EXIT_RECYCLE, supervised_beat
from redrive.watchdog import Watchdog, end_process

if TYPE_CHECKING:
    from redrive.app import Redrive

LOW_WATER = 4  # a quarter of the slots: fewer free ones wait a moment for company
GATHER = 0.002
AT_ONCE = 6  # rounds of the loop in which a handler that never waits comes to its end
LAST_WORDS = 2.0
"""Seconds for handlers to end and for the store to be told once the worker has to leave."""

HOOKS_LAST = 5.0
"""Seconds that hooks have to finish what they were told when the worker leaves."""

_NOTHING = Turn(frozenset(), [])


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
        if app.importing is not None:
            raise UsageError(app.importing)
        settings = app.config.worker
        self.app = app
        self.id = worker_id(settings.id)
        self.burst = burst
        self.done = 0
        self.failed = 0
        self.idle: Callable[[int | None], Awaitable[bool]] = _ends
        """Asked in a burst when nothing is left to do now, with when the next job is due: whether it is over."""
        self.claims = False
        """Whether it has begun, so that it must drain before it can leave."""
        self.watched = True
        """Whether a loop that does not answer ends the process; not in tests, where a debugger may hold it."""
        self._queues = queue_caps(settings.queues if queues is None else queues)
        self._sizes = {
            "loop": slot_count("concurrency", concurrency, settings.concurrency),
            "thread": slot_count("threads", threads, settings.threads),
            "process": settings.children,
        }
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._drains = False
        self._looked = False
        self._recycling = False
        self._outage = Outage(app.events)
        self._leave_by: float | None = None
        self._timers: list[asyncio.TimerHandle] = []
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
        if self._loop is not None:
            raise UsageError("this worker has run already; make another one with app.worker()")
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
        try:
            await asyncio.wait({self._pump})
        except asyncio.CancelledError:
            self.stop_now()
            await asyncio.wait({self._pump})
            raise
        finally:
            await self._end()
        if not self._pump.cancelled() and kind is None:
            self._pump.result()

    async def _end(self) -> None:
        self._hands.abandon("its worker has left")
        for timer in self._timers:
            timer.cancel()
        await self._stack.aclose()
        self.app.events.emit("worker.stopped", worker=self.id, done=self.done, failed=self.failed)
        await self.app.hooks.told(HOOKS_LAST)

    async def _start(self) -> None:
        app, settings = self.app, self.app.config.worker
        self._loop = asyncio.get_running_loop()
        for task in app.tasks.values():
            _ = task.policy  # one that the configuration does not have is said before anything is claimed
        _ = app.rules, Bench(app, Identity(self.id)).grouping  # as are rules that are wrong
        self._store = await app.opened()
        state = await self._stack.enter_async_context(app.hooks.lifespan(app))
        self._threads = ThreadRunner(self._sizes["thread"])
        self._stack.callback(self._threads.close)
        self._bench = Bench(app, Identity(self.id), state, self._threads, self._children())
        self._slots = Slots(app.registry, self._sizes, self._queues, apart=self._bench.children is not None)
        self._appetite = Appetite(self._slots, self.id, settings.lease)
        self._settler = Settler(self._store, app.clock, self._settled)
        self._hands = Hands(self._bench, self._slots, self._told)
        keeper = Keeper(self, self._bench, self._store, self._first_row())
        await keeper.start()
        self._stack.push_async_callback(keeper.stop)
        self._watch(settings.watchdog)
        self._stack.push_async_callback(_ended, asyncio.create_task(self._listen()))
        self._pump = asyncio.create_task(self._work())
        self.claims = True  # first: who reads that it has started may tell it to drain
        self._announce_start()
        if self._draining:
            self._begin_drain()

    def _watch(self, patience: int) -> None:
        if patience and self.watched:
            assert self._loop is not None
            watchdog = Watchdog(self._loop, patience / SECOND, end_process(self._names))
            watchdog.start()
            self._stack.callback(watchdog.stop)

    def _children(self) -> ChildPool | None:
        reference = reference_of(self.app) if self.app.isolates else None
        if reference is None:
            return None
        pool = ChildPool(
            [sys.executable, "-m", "redrive.child"],
            calls.hello(reference, self.id, self.app.config),
            self._sizes["process"],
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
        assert self._loop is not None
        while not self._over():
            await self._glance()
            self._count_stuck()
            want = None if self._draining else self._appetite.want(self._loop.time())
            self._bell.clear()
            try:
                turn = await self._settler.turn(want) if want or len(self._settler) else _NOTHING
            except Exception as error:  # noqa: BLE001 - whatever it is: what has ended is kept, and told later
                self._outage.noticed(error)
                await self._outage.rest(most=60 if self._leave_by is None else LAST_WORDS / 10)
                continue
            self._outage.over()
            for job in turn.jobs:
                self._hands.begin(job)
            await self._after(want, turn)

    async def _glance(self) -> None:
        """Handlers that never wait come to their end here, and are settled with this turn."""
        for _ in range(AT_ONCE):
            if not self._hands.running:
                return
            await asyncio.sleep(0)

    async def _after(self, want: Want | None, turn: Turn) -> None:
        if want is not None:
            self._appetite.came(want, turn.jobs)
            if len(turn.jobs) == want.limit or not self._appetite.whole:
                return
        if self._settler.pressed:
            return
        if self.burst and self._looked and want is not None and not turn.jobs and not self._hands.held:
            if await self.idle(turn.next_due):
                self.drain()
            return
        await self._rest(turn.next_due)

    def _over(self) -> bool:
        if not self._draining:
            return False
        if self._leave_by is not None and asyncio.get_running_loop().time() >= self._leave_by:
            return self._given_back()
        return not self._hands.running and not len(self._settler)

    def _given_back(self) -> bool:
        """The time to leave has come: what does not end is given back, and then it is over even without a store."""
        self._hands.give_back()
        return not len(self._settler) or self._outage.lasts

    def _told(self, settlement: AnySettlement) -> None:
        """An attempt has ended."""
        self._settler.add(settlement)
        self._bell.set()

    def _settled(self, settlement: AnySettlement, late: bool) -> None:
        self._hands.let_go(settlement.job)
        if late:
            self.app.events.emit("job.late", settlement.job)
            return
        announce(self.app.events, settlement, self.app.clock.now())
        self.done += isinstance(settlement, Done)
        self.failed += isinstance(settlement, Buried)

    async def _rest(self, next_due: int | None) -> None:
        """Until a job ends, a hint arrives, the next job is due, or it is time to poll."""
        assert self._loop is not None
        rest = self.app.config.worker.poll / SECOND
        if next_due is not None:
            rest = min(rest, max(0.001, (next_due - self.app.clock.now()) / SECOND))
        if not self._bell.is_set():
            timer = self._loop.call_later(rest, self._bell.set)
            try:
                await self._bell.wait()
            finally:
                timer.cancel()
        if self._hands.running and self._slots.room(self._slots.kinds) * LOW_WATER < self._slots.total:
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

    def _count_stuck(self) -> None:
        """Handlers that outlived their deadline keep their slots; when they have half of a kind, the process goes."""
        for kind, stuck in (("thread", self._threads.stuck), ("loop", len(self._bench.left))):
            size = self._sizes[kind]
            if stuck > self._slots.stuck[kind] and self._leave_by is None:
                self.app.events.emit("worker.stuck", worker=self.id, stuck=stuck, slots=size)
            self._slots.stuck[kind] = stuck
            if stuck and stuck * 2 >= size and not self._draining:
                self._recycling = True
                self.app.events.emit("worker.recycled", worker=self.id, stuck=stuck)
                self.drain()

    # told from outside ----------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Claim nothing more, finish what runs within the grace period, give back the rest; from any thread."""
        if not self._draining:
            self._draining = True
            self._soon(self._begin_drain)

    def stop_now(self) -> None:
        """Give back what runs and leave at once; from any thread."""
        self.drain()
        self._soon(self._hurry)

    def _soon(self, call: Callable[..., object], *args: object) -> None:
        """On the worker's own loop, if it runs."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _begin_drain(self) -> None:
        assert self._loop is not None
        if self._drains:
            return
        self._drains = True
        self._bell.set()
        self.app.events.emit("worker.draining", worker=self.id, running=len(self._hands.running))
        self._timers.append(self._loop.call_later(self.app.config.worker.grace / SECOND, self._hurry))

    def _hurry(self) -> None:
        """No more patience: handlers are cancelled, and what is not over in a moment is given back as it is."""
        assert self._loop is not None
        leave_by = self._loop.time() + LAST_WORDS
        if self._leave_by is None or leave_by < self._leave_by:
            self._leave_by = leave_by
            self._timers.append(self._loop.call_later(LAST_WORDS, self._bell.set))
        self._hands.interrupt("its worker stops")
        self._bell.set()

    # asked and told by the keeper, from its own thread --------------------------------------------------------------

    def lose(self, jobs: Sequence[Job]) -> None:
        """These leases have passed to somebody else: stop the handlers."""
        self._soon(self._hands.lose, jobs)

    def tell(self, name: str, job: Job | None = None, **fields: object) -> None:
        """Emit an event on the worker's own loop."""
        self._soon(lambda: self.app.events.emit(name, job, **fields))

    def tell_outage(self, error: Exception) -> None:
        """The store was away for the keeper."""
        self._soon(self._outage.noticed, error)

    def announce(self, settlement: AnySettlement) -> None:
        """Tell what became of a job that was taken over."""
        self._soon(announce, self.app.events, settlement, self.app.clock.now())

    def looked(self) -> None:
        """The keeper has looked once for jobs of workers that are gone: a burst may end now."""
        if not self._looked:
            self._looked = True
            self._soon(self._bell.set)

    def held(self) -> list[Job]:
        """The jobs whose leases are ours."""
        return list(self._hands.held.values())

    def row(self, row: Row) -> Row:
        """This worker as others should see it now."""
        return msgspec.structs.replace(
            row,
            beat_at=self.app.clock.now(),
            tasks=self.app.registry.names(),
            running=tuple(self._hands.running),
            stuck=self._threads.stuck + len(self._bench.left),
            state="draining" if self._draining else "running",
        )

    def supervised_beat(self) -> None:
        """Tell the supervisor, if there is one, that this process still moves."""
        if self._beat is not None:
            self._beat()

    def _names(self) -> list[str]:
        return [f"{job.short} {job.task}" for job in self.held()]


async def _ends(next_due: int | None) -> bool:
    """A burst is over when nothing is left to do now."""
    return True


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})

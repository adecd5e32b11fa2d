"""Where users' own code joins in: after events, around enqueueing and attempts, and once per process."""

import asyncio
import difflib
import inspect
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from redrive.context import Context
from redrive.errors import UsageError
from redrive.events import EVENTS, Event, Events
from redrive.job import Job
from redrive.lifespan import Lives
from redrive.store import Added

if TYPE_CHECKING:
    from redrive.app import Redrive

EnqueueHook = Callable[[Job, Callable[[Job], Awaitable[Added]]], Awaitable[Added]]
AttemptHook = Callable[[Context, Callable[[], Awaitable[object]]], Awaitable[object]]
Lifespan = Callable[["Redrive"], AbstractAsyncContextManager[Any]]

WAITING_LIMIT = 10_000
COMPLAIN_EVERY = 60.0


class Hooks:
    """The users' hooks of one app."""

    def __init__(self, events: Events, lifespan: Lifespan | None) -> None:
        self._events = events
        self._lifespan = lifespan
        self._lives = Lives()
        self._enqueue: list[EnqueueHook] = []
        self._attempt: list[AttemptHook] = []
        self._aside = _Aside()

    def on(self, name: str, hook: Callable[[Event], Any]) -> None:
        """Call `hook` after each event of this name, off the job's way."""
        if name not in EVENTS:
            guess = difflib.get_close_matches(name, EVENTS, 1)
            hint = f", did you mean {guess[0]!r}?" if guess else f"; there are {', '.join(EVENTS)}"
            raise UsageError(f"unknown event {name!r}{hint}")
        if not callable(hook):
            raise UsageError(f"a hook on {name} is a function of the event, not {hook!r}")
        self._events.subscribe(lambda event: self._aside.call(hook, event), name)

    async def told(self, seconds: float) -> None:
        """Let hooks finish what they have been told, for so many seconds at most."""
        await self._aside.told(seconds)

    # around enqueueing ----------------------------------------------------------------------------------------------

    @property
    def has_around_enqueue(self) -> bool:
        return bool(self._enqueue)

    def add_around_enqueue(self, hook: EnqueueHook) -> None:
        """The hook added last is the outermost."""
        self._enqueue.append(_asynchronous(hook, "around_enqueue", "(job, add)"))

    async def around_enqueue(self, job: Job, add: Callable[[Job], Awaitable[Added]]) -> Added:
        """Add a job through all hooks."""
        for hook in self._enqueue:
            add = _wrapped(hook, add)
        return await add(job)

    # around attempts ------------------------------------------------------------------------------------------------

    @property
    def has_around_attempt(self) -> bool:
        return bool(self._attempt)

    def add_around_attempt(self, hook: AttemptHook) -> None:
        """The hook added last is the outermost."""
        self._attempt.append(_asynchronous(hook, "around_attempt", "(ctx, run)"))

    async def around_attempt(self, context: Context, run: Callable[[], Awaitable[object]]) -> object:
        """Run a handler through all hooks."""
        for hook in self._attempt:
            run = _surrounded(hook, context, run)
        return await run()

    # once per process -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: "Redrive") -> AsyncIterator[Any]:
        """What the app sets up once per process, as `ctx.state`; workers on one loop share it."""
        if self._lifespan is None:
            yield None
            return
        lifespan = self._lifespan
        state = await self._lives.enter(lambda: lifespan(app))
        try:
            yield state
        finally:
            await self._lives.leave()


def _asynchronous(hook: Any, name: str, signature: str) -> Any:
    if not inspect.iscoroutinefunction(hook) and not inspect.iscoroutinefunction(getattr(hook, "__call__", None)):  # noqa: B004
        raise UsageError(f"a hook for {name} is an `async def` of {signature}, not {hook!r}")
    return hook


def _wrapped(hook: EnqueueHook, add: Callable[[Job], Awaitable[Added]]) -> Callable[[Job], Awaitable[Added]]:
    return lambda job: hook(job, add)


def _surrounded(
    hook: AttemptHook, context: Context, run: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[object]]:
    return lambda: hook(context, run)


class _Aside:
    """Runs hooks beside the flow: asynchronous ones as tasks of the loop that emits, others in one thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[tuple[Callable[[Event], Any], Event]] = deque()
        self._some = threading.Condition()
        self._busy = False
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._complained_at = -COMPLAIN_EVERY

    def call(self, hook: Callable[[Event], Any], event: Event) -> None:
        if len(self._tasks) + len(self._waiting) >= WAITING_LIMIT:
            self._complain(hook, event)
        elif inspect.iscoroutinefunction(hook):
            self._await(hook, event)
        else:
            self._queue(hook, event)

    def _await(self, hook: Callable[[Event], Awaitable[object]], event: Event) -> None:
        task = asyncio.get_running_loop().create_task(_awaited(hook, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _queue(self, hook: Callable[[Event], Any], event: Event) -> None:
        if self._pid != os.getpid():  # a fork leaves the thread behind, and the lock as it was
            self.__init__()  # type: ignore[misc]
        with self._some:
            self._waiting.append((hook, event))
            self._some.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="redrive-hooks", daemon=True)
            self._thread.start()

    def _complain(self, hook: Callable[[Event], Any], event: Event) -> None:
        if time.monotonic() - self._complained_at >= COMPLAIN_EVERY:
            self._complained_at = time.monotonic()
            logging.getLogger("redrive").error(
                "hooks are too slow: %s events wait; %s was not told of %s", WAITING_LIMIT, hook, event.name
            )

    def _run(self) -> None:
        while True:
            with self._some:
                self._busy = False
                self._some.notify_all()
                self._some.wait_for(lambda: self._waiting)
                self._busy = True
                hook, event = self._waiting.popleft()
            try:
                hook(event)
            except BaseException:
                logging.getLogger("redrive").exception("hook %s raised on %s", hook, event.name)

    async def told(self, seconds: float) -> None:
        mine = {task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()}
        if mine:
            await asyncio.wait(mine, timeout=seconds)
        if self._thread is not None and self._pid == os.getpid():
            await asyncio.to_thread(self._emptied, seconds)

    def _emptied(self, seconds: float) -> None:
        with self._some:
            self._some.wait_for(lambda: not self._waiting and not self._busy, seconds)


async def _awaited(hook: Callable[[Event], Awaitable[object]], event: Event) -> None:
    try:
        await hook(event)
    except asyncio.CancelledError:
        raise
    except BaseException:
        logging.getLogger("redrive").exception("hook %s raised on %s", hook, event.name)

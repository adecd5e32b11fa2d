"""Where users' own code joins in: after events, around enqueueing and attempts, and once per process."""

import asyncio
import difflib
import inspect
import logging
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from redrive.context import Context
from redrive.errors import UsageError
from redrive.events import EVENTS, Event, Events
from redrive.job import Job
from redrive.store import Added

if TYPE_CHECKING:
    from redrive.app import Redrive

EnqueueHook = Callable[[Job, Callable[[Job], Awaitable[Added]]], Awaitable[Added]]
AttemptHook = Callable[[Context, Callable[[], Awaitable[object]]], Awaitable[object]]
Lifespan = Callable[["Redrive"], AbstractAsyncContextManager[Any]]

WAITING_LIMIT = 10_000


class Hooks:
    """The users' hooks of one app."""

    def __init__(self, events: Events, lifespan: Lifespan | None) -> None:
        self._events = events
        self._lifespan = lifespan
        self._enqueue: list[EnqueueHook] = []
        self._attempt: list[AttemptHook] = []
        self._aside = _Aside()

    def on(self, name: str, hook: Callable[[Event], Any]) -> None:
        """Call `hook` after each event of this name, off the job's way."""
        if name not in EVENTS:
            guess = difflib.get_close_matches(name, EVENTS, 1)
            raise UsageError(f"unknown event {name!r}" + (f", did you mean {guess[0]!r}?" if guess else ""))
        self._events.subscribe(lambda event: self._aside.call(hook, event), name)

    # around enqueueing ----------------------------------------------------------------------------------------------

    @property
    def has_around_enqueue(self) -> bool:
        return bool(self._enqueue)

    def add_around_enqueue(self, hook: EnqueueHook) -> None:
        """The hook added last is the outermost."""
        self._enqueue.append(hook)

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
        self._attempt.append(hook)

    async def around_attempt(self, context: Context, run: Callable[[], Awaitable[object]]) -> object:
        """Run a handler through all hooks."""
        for hook in self._attempt:
            run = _surrounded(hook, context, run)
        return await run()

    # once per process -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: "Redrive") -> AsyncIterator[Any]:
        """What the app sets up once per process, as `ctx.state`."""
        if self._lifespan is None:
            yield None
            return
        async with self._lifespan(app) as state:
            yield state


def _wrapped(hook: EnqueueHook, add: Callable[[Job], Awaitable[Added]]) -> Callable[[Job], Awaitable[Added]]:
    return lambda job: hook(job, add)


def _surrounded(
    hook: AttemptHook, context: Context, run: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[object]]:
    return lambda: hook(context, run)


class _Aside:
    """Runs hooks beside the flow: asynchronous ones as tasks of the loop that emits, others in a thread."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[Callable[[Event], Any], Event]] = queue.Queue(WAITING_LIMIT)
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, hook: Callable[[Event], Any], event: Event) -> None:
        if inspect.iscoroutinefunction(hook):
            task = asyncio.get_running_loop().create_task(_awaited(hook, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="redrive-hooks", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait((hook, event))
        except queue.Full:
            logging.getLogger("redrive").error("hook %s is too slow: event %s was not told to it", hook, event.name)

    def _run(self) -> None:
        while True:
            hook, event = self._waiting.get()
            try:
                hook(event)
            except Exception:
                logging.getLogger("redrive").exception("hook %s raised on %s", hook, event.name)


async def _awaited(hook: Callable[[Event], Awaitable[object]], event: Event) -> None:
    try:
        await hook(event)
    except Exception:
        logging.getLogger("redrive").exception("hook %s raised on %s", hook, event.name)

"""The app: the only place that turns a URL into a store; tasks, hooks and the verbs on them."""

import random
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack, overload

import msgspec

from redrive.client import Client, Enqueued
from redrive.clock import Clock, Duration, Random, SystemClock, micros
from redrive.config import Config, load
from redrive.context import current_context
from redrive.declaring import name_of_task, task_options
from redrive.errors import ConfigError
from redrive.events import Event, Events
from redrive.forks import making
from redrive.hooks import AttemptHook, EnqueueHook, Hooks, Lifespan
from redrive.job import Job
from redrive.logs import WARNINGS, log_event
from redrive.options import Options
from redrive.portal import portal
from redrive.reasons import Rules, rules_from
from redrive.redact import safe_url
from redrive.retry import Retry, policy_from
from redrive.store import Keep, Settings, Store
from redrive.task import Isolation, P, R, Registry, Task, TaskOptions, check_handler, default_name

if TYPE_CHECKING:
    from redrive import redrives
    from redrive.ledger import Proof
    from redrive.triage import Letters
    from redrive.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Classify = Callable[[BaseException], Any]


class Redrive:
    """An app: tasks, and the store that their jobs live in. Opens nothing until it is used."""

    importing: ClassVar[str | None] = None
    """Set while a child process imports an app: why nothing may be enqueued or run meanwhile."""

    def __init__(
        self,
        url: str | None = None,
        *,
        retry: Retry | str | None = None,
        classify: Classify | None = None,
        lifespan: Lifespan | None = None,
        release: str | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        store: Store | None = None,
    ) -> None:
        self._url = url
        self._given = config
        self._config: Config | None = None
        self._retry = retry
        self._release = release
        self._store = store
        self.in_child = False
        """Whether this is the copy of the app in a child process that runs isolated jobs."""
        self.isolates = True
        """Whether child processes may be started at all; a test that replaces things in this process says no."""
        self.classify = classify
        self.clock: Clock = clock or SystemClock()
        self.random: Random = rng or random.Random()
        self.events = Events()
        for event in WARNINGS:
            self.events.subscribe(log_event, event)
        self.registry = Registry()
        self.hooks = Hooks(self.events, lifespan)
        self.client = Client(self)

    def __repr__(self) -> str:
        return f"<Redrive with {len(self.tasks)} tasks>"

    # what it stands on ----------------------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        """The settings in force, read at first use."""
        if self._config is None:  # without the lock of `cached_property`, which a fork could leave held for ever
            self._config = self._settings()
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._config = config

    def _settings(self) -> Config:
        if self._given is None:
            return load(overrides={"url": self._url} if self._url else None)
        return msgspec.structs.replace(self._given, url=self._url) if self._url else self._given

    @property
    def is_open_to_settings(self) -> bool:
        """Whether neither a URL nor settings stand in its code, so that they can come from outside."""
        return self._given is None and self._url is None

    @property
    def release(self) -> str | None:
        """The release of the application, as workers and letters report it."""
        return self._release or self.config.release

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The tasks by name."""
        return self.registry.all()

    @property
    def store(self) -> Store:
        """The store; not necessarily open yet."""
        if self._store is None:
            config = self.config
            with making:
                self._store = self._store or connect(config, self.clock)
        return self._store

    async def opened(self) -> Store:
        """The store, open."""
        store = self.store
        await store.open()
        return store

    @property
    def forbidden(self) -> str | None:
        """Why nothing can be enqueued from here, if so."""
        if self.importing is not None:
            return self.importing
        if self.in_child and self.store.traits.shared == "process":
            return (
                f"a handler in a child process cannot enqueue to {self.store.url}, which lives in its parent; "
                f"use a store that processes share, such as sqlite:///redrive.db"
            )
        return None

    @contextmanager
    def standing_in(self, store: Store, clock: Clock, rng: Random) -> Iterator[None]:
        """For tests: this store, time and chance until the end, and handlers in this process alone."""
        before = self._store, self.clock, self.random, self.isolates
        self._store, self.clock, self.random, self.isolates = store, clock, rng, False
        self.client.forget_looks()
        try:
            yield
        finally:
            self._store, self.clock, self.random, self.isolates = before
            self.client.forget_looks()

    async def aclose(self) -> None:
        """Let go of the store; the next use opens it again."""
        if self._store is not None:
            await self._store.close()

    def close(self) -> None:
        """Let go of the store; the next use opens it again."""
        portal.run(self.aclose, "close")

    @cached_property
    def rules(self) -> Rules:
        """How failures are recognised: the configured rules, then the default ones."""
        return rules_from(self.config.reasons)

    def policy_named(self, policy: Retry | str | None) -> Retry:
        """A policy, one named in the configuration, or the default."""
        if isinstance(policy, Retry):
            return policy
        if isinstance(policy, str):
            tables = self.config.retry.named
            if policy not in tables:
                known = ", ".join(sorted(tables)) or "none"
                raise ConfigError(f"there is no retry policy [retry.{policy}] in the configuration; there are: {known}")
            return policy_from(tables[policy])
        if self._retry is not None:
            return self.policy_named(self._retry)
        return policy_from(self.config.retry.default)

    # tasks and hooks ------------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int | str = 5,
        retry: Retry | str | None = None,
        timeout: Duration | None = None,
        isolation: Isolation | None = None,
        memory: int | str | None = None,
        needs: str | Sequence[str] = (),
        aliases: Sequence[str] = (),
        expires: Duration | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *handlers: Any, **options: Any) -> Any:
        """Register a handler; works bare and with options."""
        name = name_of_task(options.pop("name", None))
        checked = task_options(options)
        if handlers:
            return self._registered(handlers[0], name, checked)
        return lambda handler: self._registered(handler, name, checked)

    def _registered(self, function: Callable[P, R], name: str | None, options: TaskOptions) -> Task[P, R]:
        check_handler(function)
        task = Task(self, function, name or default_name(function), options)
        self.registry.add(task)
        return task

    def on(self, event: str) -> Callable[[F], F]:
        """Call the function after each event of this name; it never touches the job."""

        def register(hook: F) -> F:
            self.hooks.on(event, hook)
            return hook

        return register

    def around_enqueue(self, hook: EnqueueHook) -> EnqueueHook:
        """Run this around the adding of each job: `async def hook(job, add): return await add(job)`."""
        self.hooks.add_around_enqueue(hook)
        return hook

    def around_attempt(self, hook: AttemptHook) -> AttemptHook:
        """Run this around each handler: `async def hook(ctx, run): return await run()`."""
        self.hooks.add_around_attempt(hook)
        return hook

    def subscribe(self, subscriber: Callable[[Event], None]) -> None:
        """Tell every event to this function, at once and on the flow's own way: it must be quick."""
        self.events.subscribe(subscriber)

    # verbs ----------------------------------------------------------------------------------------------------------

    def enqueue(self, task: Task[..., Any] | str, payload: Any = None, **options: Any) -> Enqueued:
        """Add a job of a task by name, when its code lives elsewhere; options as of `using`."""
        return self.client.enqueue_one(self.job(task, payload, **options))

    async def aenqueue(self, task: Task[..., Any] | str, payload: Any = None, **options: Any) -> Enqueued:
        """Add a job of a task by name, when its code lives elsewhere; options as of `using`."""
        return await self.client.aenqueue_one(self.job(task, payload, **options))

    def job(self, task: Task[..., Any] | str, payload: Any = None, **options: Any) -> Job:
        """A job of a task by name, not added yet."""
        return self.client.named(task, {} if payload is None else payload, Options.checked(options))

    def enqueue_many(self, source: Iterable[Job]) -> int:
        """Stream jobs into the store, also those that a source gave before it failed; answers how many were new."""
        return self.client.enqueue_many(source)

    async def aenqueue_many(self, source: Iterable[Job] | AsyncIterable[Job]) -> int:
        """Stream jobs into the store, also those that a source gave before it failed; answers how many were new."""
        return await self.client.aenqueue_many(source)

    def running_job(self) -> str | None:
        """The id of the job whose handler this code runs in."""
        context = current_context.get()
        return context.job.id if context else None

    @property
    def letters(self) -> "Letters":
        """The dead letters: find, count and see them."""
        from redrive.triage import Letters  # lazily: who only enqueues needs no filters

        return Letters(self)

    async def aredrive(self, filter: str = "", **options: "Unpack[redrives.Options]") -> "redrives.Run":
        """Bring letters back in paced stages that stop by themselves; answers how it went once it has ended."""
        from redrive.redrives import run  # lazily: who only enqueues needs no redrives

        return await run(self, filter, options)

    def redrive(self, filter: str = "", **options: "Unpack[redrives.Options]") -> "redrives.Run":
        """Bring letters back in paced stages that stop by themselves; answers how it went once it has ended."""
        return portal.run(lambda: self.aredrive(filter, **options), "redrive")

    async def aprove(self, queues: Sequence[str] = (), *, seal: str | None = None) -> "Proof":
        """Add up what came, what went and what is there; `adds_up` says it all, `seal` is one noted earlier."""
        from redrive.ledger import narrowed, noted_seal  # lazily: who only enqueues proves nothing

        noted = None if seal is None else noted_seal(seal)
        return narrowed(await (await self.opened()).journal.prove(noted=noted), queues)

    def prove(self, queues: Sequence[str] = (), *, seal: str | None = None) -> "Proof":
        """Add up what came, what went and what is there; `adds_up` says it all, `seal` is one noted earlier."""
        return portal.run(lambda: self.aprove(queues, seal=seal), "prove")

    def worker(
        self,
        queues: Sequence[str] | Mapping[str, int | None] | None = None,
        *,
        concurrency: int | None = None,
        threads: int | None = None,
        burst: bool = False,
    ) -> "Worker":
        """A worker in this process: `async with app.worker(): …`, or `await app.worker(burst=True).run()`."""
        from redrive.worker import Worker  # lazily: who only enqueues needs no worker

        return Worker(self, queues=queues, concurrency=concurrency, threads=threads, burst=burst)

    async def adrain(self, timeout: Duration = 30) -> int:
        """Run all that is ready and the retries that follow, in this process: for tests; how many jobs ended."""
        from redrive.drain import drain  # lazily: for tests

        return await drain(self, micros(timeout))

    def drain(self, timeout: Duration = 30) -> int:
        """Run all that is ready and the retries that follow, in this process: for tests; how many jobs ended."""
        return portal.run(lambda: self.adrain(timeout), "drain")


# the store ------------------------------------------------------------------------------------------------------------


def connect(config: Config, clock: Clock | None = None) -> Store:
    """The store behind the configured URL, not open yet."""
    settings = Settings(
        done_retention=config.retention.done,
        key_lifetime=config.retention.key,
        closed_retention=config.retention.closed,
        journal_retention=config.retention.journal,
        redrive_retention=config.retention.redrives,
        of_queues={
            queue: Keep(done=times.get("done"), closed=times.get("closed"))
            for queue, times in (config.retention.queues or {}).items()
        },
        **{name: config.value(name) for name in ("journal", "max_epochs")},
    )
    url = config.resolved_url
    scheme = url.partition(":")[0]
    match scheme:
        case "sqlite":
            from redrive.stores.sqlite import SqliteStore  # lazily: drivers load when a URL asks for them

            path, forced = _file_of(config)
            settings = msgspec.structs.replace(settings, force=forced)
            return SqliteStore(path, clock=clock or SystemClock(), settings=settings)
        case "memory":
            from redrive.stores.memory import MemoryStore  # lazily, as above

            return MemoryStore(clock=clock or SystemClock(), settings=settings)
    what = f"there is no engine for {scheme}:// URLs here" if "://" in url else f"{safe_url(url)!r} is not a URL"
    raise ConfigError(f"{what}; write sqlite:///redrive.db or memory://")


def _file_of(config: Config) -> tuple[str, bool]:
    """The path that a SQLite URL names, and whether it is to be opened where it is not safe."""
    path, _, option = config.resolved_url.removeprefix("sqlite:///").partition("?")
    if not config.url.startswith("sqlite:///") or not path.strip("/"):
        raise ConfigError(
            f"{safe_url(config.url)} names no file; write sqlite:///redrive.db, or sqlite:////var/lib/redrive.db"
        )
    if option not in ("", "force=1"):
        raise ConfigError(f"{safe_url(config.url)} has an unknown option; leave out ?{option} (there is only ?force=1)")
    return path, bool(option)

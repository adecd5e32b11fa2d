"""The app: the only place that turns a URL into a store; tasks, hooks and the verbs on them."""

import importlib
import random
import sys
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from redrive import job as jobs
from redrive.backoff import span
from redrive.client import Client, Enqueued
from redrive.clock import Clock, Duration, Random, SystemClock, micros
from redrive.config import Config, load
from redrive.context import current_context
from redrive.errors import BadApp, ConfigError, UsageError
from redrive.events import Event, Events
from redrive.hooks import AttemptHook, EnqueueHook, Hooks, Lifespan
from redrive.job import Job
from redrive.options import Options
from redrive.portal import portal
from redrive.reasons import Rules, rules_from
from redrive.retry import Retry, policy_from
from redrive.store import Settings, Store
from redrive.task import Isolation, P, R, Registry, Task, TaskOptions

if TYPE_CHECKING:
    from redrive.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])
Classify = Callable[[BaseException], Any]


class Redrive:
    """An app: tasks, and the store that their jobs live in. Opens nothing until it is used."""

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
        self._retry = retry
        self._release = release
        self._store = store
        self._opening = threading.Lock()
        self.classify = classify
        self.clock: Clock = clock or SystemClock()
        self.random: Random = rng or random.Random()
        self.events = Events()
        self.registry = Registry()
        self.hooks = Hooks(self.events, lifespan)
        self.client = Client(self)

    def __repr__(self) -> str:
        return f"<Redrive with {len(self.tasks)} tasks>"

    # what it stands on ----------------------------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        """The settings in force, read at first use."""
        if self._given is not None:
            return self._given
        return load(overrides={"url": self._url} if self._url else None)

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
        with self._opening:
            if self._store is None:
                self._store = connect(self.config, self.clock)
            return self._store

    async def opened(self) -> Store:
        """The store, open."""
        store = self.store
        await store.open()
        return store

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
        if handlers:
            return self._registered(handlers[0], None, TaskOptions())
        name = options.pop("name", None)
        checked = _task_options(options)
        return lambda handler: self._registered(handler, name, checked)

    def _registered(self, function: Callable[P, R], name: str | None, options: TaskOptions) -> Task[P, R]:
        task = Task(self, function, name or _default_name(function), options)
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

    def enqueue(self, task: str, payload: Any = None, **options: Any) -> Enqueued:
        """Add a job of a task by name, when its code lives elsewhere; options as of `using`."""
        return self.client.enqueue_one(self.job(task, payload, **options))

    async def aenqueue(self, task: str, payload: Any = None, **options: Any) -> Enqueued:
        """Add a job of a task by name, when its code lives elsewhere; options as of `using`."""
        return await self.client.aenqueue_one(self.job(task, payload, **options))

    def job(self, task: str, payload: Any = None, **options: Any) -> Job:
        """A job of a task by name, not added yet."""
        return self.client.named(task, {} if payload is None else payload, Options.checked(options))

    def enqueue_many(self, source: Iterable[Job]) -> int:
        """Stream jobs into the store in bounded memory; answers how many were new."""
        return portal.run(lambda: self.client.enqueue_many(source), "enqueue_many")

    async def aenqueue_many(self, source: Iterable[Job] | AsyncIterable[Job]) -> int:
        """Stream jobs into the store in bounded memory; answers how many were new."""
        return await self.client.enqueue_many(source)

    def running_job(self) -> str | None:
        """The id of the job whose handler this code runs in."""
        context = current_context.get()
        return context.job.id if context else None

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


def _default_name(function: Callable[..., Any]) -> str:
    module = function.__module__
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(file).stem if file else "__main__"
    return f"{module}.{function.__qualname__}".replace(".<locals>", "")


def _task_options(given: dict[str, Any]) -> TaskOptions:
    return TaskOptions(
        queue=given.get("queue", "default"),
        priority=jobs.priority_of(given.get("priority", 5)),
        retry=given.get("retry"),
        timeout=_optional_duration("timeout", given.get("timeout")),
        isolation=_isolation(given.get("isolation")),
        memory=memory_size(given.get("memory")),
        needs=jobs.names(given.get("needs", ())),
        aliases=jobs.names(given.get("aliases", ())),
        expires=_optional_duration("expires", given.get("expires")),
    )


def _optional_duration(name: str, value: Duration | None) -> int | None:
    return None if value is None else span(value, name)


def _isolation(value: Any) -> Isolation | None:
    if value not in (None, "process"):
        raise UsageError(f"isolation={value!r} is unknown; leave it out, or write 'process' for a child process")
    return value  # type: ignore[no-any-return]


_SIZES = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "b": 1}


def memory_size(value: int | str | None) -> int | None:
    """A size in bytes, or as people write it: `512MiB`."""
    if value is None or isinstance(value, int):
        return value
    text = value.strip().lower().replace(" ", "")
    for unit, factor in _SIZES.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return int(float(number) * factor)
    raise UsageError(f"memory={value!r} is not a size; write bytes or a text such as '512MiB'")


# finding ------------------------------------------------------------------------------------------------------------


def connect(config: Config, clock: Clock | None = None) -> Store:
    """The store behind the configured URL, not open yet."""
    settings = Settings(
        done_retention=config.retention.done,
        key_lifetime=config.retention.key,
        closed_retention=config.retention.closed,
        journal=config.journal,
    )
    url = config.resolved_url
    scheme = url.partition(":")[0]
    match scheme:
        case "sqlite":
            from redrive.stores.sqlite import SqliteStore  # lazily: drivers load when a URL asks for them

            return SqliteStore(url.removeprefix("sqlite:///"), clock=clock or SystemClock(), settings=settings)
        case "memory":
            from redrive.stores.memory import MemoryStore  # lazily, as above

            return MemoryStore(clock=clock or SystemClock(), settings=settings)
    raise ConfigError(f"there is no engine for {scheme}:// URLs here; write sqlite:///redrive.db or memory://")


def find_app(reference: str | None, config: Config | None = None) -> Redrive:
    """The app that `module:app`, `module` with one app in it, or `path/to/file.py[:app]` names."""
    if not reference:
        raise BadApp(
            "no app was named; write `redrive worker module:app`, or set app under [redrive] in the project file"
        )
    module_name, _, attribute = reference.partition(":")
    module = _imported(module_name)
    app = getattr(module, attribute, None) if attribute else _only_app(module, module_name)
    if not isinstance(app, Redrive):
        raise BadApp(f"{module_name} has no app named {attribute!r}; it needs a line such as `{attribute} = Redrive()`")
    if config is not None and app._given is None and app._url is None:
        app.config = config
    return app


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadApp(f"there is no module {name!r} in {here} or on the import path") from error
        raise BadApp(f"module {name!r} cannot be imported: {error}") from error
    except Exception as error:
        raise BadApp(f"module {name!r} cannot be imported: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """A file run as a script is imported under its stem, its `if __name__ == "__main__"` part left out."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(path.stem)


def _only_app(module: ModuleType, name: str) -> Redrive:
    found = {id(value): key for key, value in vars(module).items() if isinstance(value, Redrive)}
    if len(found) != 1:
        what = f"several apps ({', '.join(found.values())})" if found else "no app"
        raise BadApp(f"{name} has {what} in it; write which one, as in `{name}:app`")
    app: Redrive = getattr(module, next(iter(found.values())))
    return app


def reference_of(app: Redrive) -> str | None:
    """How a child process can import this app; None when no module holds it."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            if value is app:
                file = getattr(module, "__file__", None)
                return f"{file}:{attribute}" if name == "__main__" and file else f"{name}:{attribute}"
    return None

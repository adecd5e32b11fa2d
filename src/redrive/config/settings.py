"""Every setting with its default and its meaning: the loader, the reference and `redrive config` read this table."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from redrive.clock import SECOND
from redrive.config.kinds import Kind, choice, count, duration, keeps, lasting, size, slots, tables, text
from redrive.job import PAYLOAD_LIMIT

_MINUTE = 60 * SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_SQLITE = "sqlite:///"


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker runs jobs."""

    id: Annotated[
        str | None, text("The worker's name in listings; made from host and process when it is not given")
    ] = None
    queues: Annotated[
        dict[str, int | None] | None, slots("Queues to serve, each with its slots; all when not given")
    ] = None
    concurrency: Annotated[int, count("Async handlers that run at once in one process")] = 20
    threads: Annotated[int, count("Plain functions that run at once, in threads")] = 8
    children: Annotated[int, count("Isolated tasks that run at once, each in a child process")] = 2
    processes: Annotated[int, count("Worker processes that `redrive worker` starts and watches over")] = 1
    lease: Annotated[int, duration("How long a worker holds a job without a sign of life")] = 30 * SECOND
    heartbeat: Annotated[int, duration("How often leases are extended; shorter than the lease")] = 10 * SECOND
    grace: Annotated[int, duration("How long running jobs may finish after SIGTERM before they are given back")] = (
        30 * SECOND
    )
    timeout: Annotated[int, duration("How long a handler may run unless its task says otherwise")] = 15 * _MINUTE
    watchdog: Annotated[int, duration("How long the event loop may not answer before the process is ended")] = _MINUTE
    poll: Annotated[int, duration("How often the store is asked for work when no wake-up arrives")] = SECOND


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept after they end."""

    done: Annotated[int, duration("Finished jobs and their results")] = _DAY
    key: Annotated[int, duration("An idempotency key after its job is done")] = _DAY
    closed: Annotated[int, duration("Dead letters that are closed or discarded, and discarded jobs")] = 30 * _DAY
    open: Annotated[int, lasting("Open dead letters, since they failed last; what goes is announced first")] = 0
    notice: Annotated[int, duration("How long before open letters go for the first time this is announced")] = 7 * _DAY
    redrives: Annotated[int, duration("Redrives that have ended, with what became of each letter")] = 90 * _DAY
    journal: Annotated[int, lasting("Entries of the journal; the seals on what people did stay")] = 0
    queues: Annotated[
        dict[str, dict[str, int]] | None,
        keeps("Other times for single queues: [retention.queues.NAME] with `done`, `closed` and `open`"),
    ] = None

    def own(self, name: str) -> dict[str, int]:
        """What queues say themselves: how long each keeps what is `done`, `closed` or `open`."""
        return {queue: times[name] for queue, times in (self.queues or {}).items() if name in times}


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says on stderr."""

    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        choice(
            "How serious a line must be to appear",
            *("debug", "info", "warning", "error", "critical"),
            also={"warn": "warning", "fatal": "critical"},
        ),
    ] = "info"
    format: Annotated[
        Literal["text", "json"], choice("Lines for people, or one JSON object per line", "text", "json")
    ] = "text"


class RetryTables(msgspec.Struct, frozen=True, kw_only=True):
    """Retry policies as they are written: `[retry]`, and each `[retry.NAME]`."""

    default: dict[str, Any] = {}
    named: dict[str, dict[str, Any]] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Every effective setting. Durations are microseconds, sizes are bytes."""

    url: Annotated[str, text("Where the jobs are kept: sqlite:///file.db, or memory:// in tests")] = (
        "sqlite:///redrive.db"
    )
    app: Annotated[str | None, text("Where the app is, as module:name; what `redrive worker` runs")] = None
    release: Annotated[str | None, text("The version of your code, shown with workers and failures")] = None
    journal: Annotated[
        Literal["events", "all"],
        choice("What the journal keeps: events off the happy path, or every transition", "events", "all"),
    ] = "events"
    max_epochs: Annotated[
        int,
        count("After so many returns in a row with the same cause a letter needs a person; 0: never", 0),
    ] = 5
    unknown_task_grace: Annotated[
        int, duration("How long a job waits for a worker that knows its task before it is buried")
    ] = _HOUR
    payload_limit: Annotated[int, size("The largest payload that is accepted")] = PAYLOAD_LIMIT
    worker: WorkerSettings = WorkerSettings()
    retention: Retention = Retention()
    log: Log = Log()
    reasons: Annotated[
        tuple[dict[str, Any], ...], tables("Rules that tell why a job failed, tried before the built-in ones")
    ] = ()
    fingerprints: Annotated[
        tuple[dict[str, Any], ...],
        tables("Rules that tell which failures have one cause, before the built-in fingerprint"),
    ] = ()
    rules: Annotated[
        tuple[dict[str, Any], ...], tables("What is done with letters without a person, the first that fits")
    ] = ()
    retry: RetryTables = RetryTables()
    root: str = ""
    sources: dict[str, str] = {}

    @property
    def resolved_url(self) -> str:
        """The URL with a relative SQLite path made absolute, against the project file's folder."""
        path = self.url.removeprefix(_SQLITE)
        if not self.url.startswith(_SQLITE) or not path:
            return self.url
        return f"{_SQLITE}{Path(self.root).absolute() / path}"

    def value(self, key: str) -> Any:
        """The effective value behind a dotted key."""
        found: Any = self
        for name in key.split("."):
            found = getattr(found, name)
        return found


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the reference."""

    key: str
    kind: str
    default: Any
    meaning: str
    reads: Kind

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return variable(self.key)

    def shown(self, value: Any) -> str:
        """A value of this setting as people write it."""
        return "" if value is None else self.reads.show(value)


def variable(key: str) -> str:
    """The environment variable of a dotted key: worker.lease is REDRIVE_WORKER__LEASE."""
    return "REDRIVE_" + key.upper().replace(".", "__")


def _settings(shape: type[msgspec.Struct], prefix: str = "") -> list[Setting]:
    listed: list[Setting] = []
    hints = get_type_hints(shape, include_extras=True)
    for field in msgspec.structs.fields(shape):
        key, hint = prefix + field.name, hints[field.name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint is not RetryTables:
            listed += _settings(hint, f"{key}.")
        for kind in getattr(hint, "__metadata__", ()):
            listed.append(Setting(key=key, kind=kind.name, default=field.default, meaning=kind.meaning, reads=kind))
    return listed


SETTINGS: tuple[Setting, ...] = tuple(_settings(Config))
"""Every setting but the free tables `[retry]` and `[retry.NAME]`, in the order of the reference."""

"""What an attempt stands on: who runs it, what the process lends it, and the attempt itself under way."""

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from redrive.errors import UsageError
from redrive.grouping import Grouping, grouping_from
from redrive.job import Job

if TYPE_CHECKING:
    import asyncio

    from redrive.app import Redrive
    from redrive.runners.process import ChildPool
    from redrive.runners.thread import ThreadRunner
    from redrive.store import AnySettlement
    from redrive.task import Task


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs an attempt."""

    worker: str
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)


def worker_id(name: str | None) -> str:
    """A new id for a worker of this process: its configured name or its host, and what tells it from others."""
    name = name or socket.gethostname()
    if "/" in name or "\0" in name:
        raise UsageError(f"worker.id {name!r} cannot be used: it becomes part of a file name; leave out the slash")
    return f"{name}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass(slots=True)
class Bench:
    """What an attempt finds in the process that runs it."""

    app: "Redrive"
    identity: Identity
    state: Any = None
    threads: "ThreadRunner | None" = None
    children: "ChildPool | None" = None
    left: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Handlers on the loop that outlived their end."""
    parent: Callable[[float], None] | None = None
    """In a child process: asks the parent, who keeps the deadline, to move it to so many seconds from now."""
    grouping: Grouping = field(init=False)
    """Which failures have one cause."""

    def __post_init__(self) -> None:
        self.grouping = grouping_from(self.app.config.fingerprints)


class Trial(msgspec.Struct):
    """One attempt and what has been found for it."""

    bench: Bench
    job: Job
    started: int
    task: "Task[..., Any] | None" = None
    call: Callable[[], Any] | None = None


class Underway(Protocol):
    """An attempt that a worker has made ready."""

    def begin(self) -> None:
        """Start it."""
        ...

    def cancel(self, why: str) -> None:
        """Let it end."""
        ...


Settled = Callable[[Any, "AnySettlement"], None]
"""Told which attempt is over, and what follows from it."""

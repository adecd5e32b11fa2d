"""Redrive keeps background jobs from being lost when they fail."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if sys.platform == "win32":
    raise ImportError("Redrive runs on Linux and macOS; on Windows, run it inside WSL")

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.backoff import delays, exponential, fixed, immediate, linear
    from redrive.client import Enqueued
    from redrive.context import Context, current
    from redrive.errors import (
        BadArguments,
        BadPayload,
        Bury,
        Discard,
        JobFailed,
        LeaseLost,
        NotFound,
        NotReady,
        PayloadTooLarge,
        QueueFull,
        RedriveError,
        RetryAfter,
        Snooze,
        StoreError,
        UnknownTask,
    )
    from redrive.job import Job
    from redrive.retry import BURY, DISCARD, Retry
    from redrive.task import Task

__version__ = "0.1.0"

__all__ = [
    "BURY",
    "DISCARD",
    "BadArguments",
    "BadPayload",
    "Bury",
    "Context",
    "Discard",
    "Enqueued",
    "Job",
    "JobFailed",
    "LeaseLost",
    "NotFound",
    "NotReady",
    "PayloadTooLarge",
    "QueueFull",
    "Redrive",
    "RedriveError",
    "Retry",
    "RetryAfter",
    "Snooze",
    "StoreError",
    "Task",
    "UnknownTask",
    "current",
    "delays",
    "exponential",
    "fixed",
    "immediate",
    "linear",
]

_HOMES = {
    "BURY": "redrive.retry",
    "BadArguments": "redrive.errors",
    "BadPayload": "redrive.errors",
    "Bury": "redrive.errors",
    "Context": "redrive.context",
    "DISCARD": "redrive.retry",
    "Discard": "redrive.errors",
    "Enqueued": "redrive.client",
    "Job": "redrive.job",
    "JobFailed": "redrive.errors",
    "LeaseLost": "redrive.errors",
    "NotFound": "redrive.errors",
    "NotReady": "redrive.errors",
    "PayloadTooLarge": "redrive.errors",
    "QueueFull": "redrive.errors",
    "Redrive": "redrive.app",
    "RedriveError": "redrive.errors",
    "Retry": "redrive.retry",
    "RetryAfter": "redrive.errors",
    "Snooze": "redrive.errors",
    "StoreError": "redrive.errors",
    "Task": "redrive.task",
    "UnknownTask": "redrive.errors",
    "current": "redrive.context",
    "delays": "redrive.backoff",
    "exponential": "redrive.backoff",
    "fixed": "redrive.backoff",
    "immediate": "redrive.backoff",
    "linear": "redrive.backoff",
}


def __getattr__(name: str) -> object:
    """A public name is imported when it is first asked for, so that `redrive --help` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'redrive' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""What is written beside `@app.task`: each option checked where it is written."""

import difflib
from collections.abc import Callable
from typing import Any, TypeVar

from redrive import job as jobs
from redrive.backoff import span
from redrive.clock import Duration
from redrive.errors import UsageError
from redrive.retry import Retry
from redrive.task import Isolation, TaskOptions, memory_size

T = TypeVar("T")

_TASK_OPTIONS = ("name", "queue", "priority", "retry", "timeout", "isolation", "memory", "needs", "aliases", "expires")


def name_of_task(given: Any) -> str | None:
    """The name that was given to a task, if it is one."""
    return None if given is None else _checked("name", given, jobs.name_of)


def task_options(given: dict[str, Any]) -> TaskOptions:
    """The options of a task as they were written, each checked."""
    for name in given:
        if name not in _TASK_OPTIONS:
            guess = difflib.get_close_matches(name, _TASK_OPTIONS, 1)
            hint = f", did you mean {guess[0]}?" if guess else f"; there are {', '.join(_TASK_OPTIONS)}"
            raise UsageError(f"unknown task option {name!r}{hint}")
    memory = memory_size(given.get("memory"))
    isolation = _isolation(given.get("isolation"))
    if memory is not None and isolation is None:
        raise UsageError("memory= caps a child process: write isolation='process' beside it")
    return TaskOptions(
        queue=_checked("queue", given.get("queue", "default"), jobs.name_of),
        priority=jobs.priority_of(given.get("priority", 5)),
        retry=_policy(given.get("retry")),
        timeout=_optional_duration("timeout", given.get("timeout")),
        isolation=isolation,
        memory=memory,
        needs=_checked("needs", given.get("needs", ()), jobs.names),
        aliases=_checked("aliases", given.get("aliases", ()), jobs.names),
        expires=_optional_duration("expires", given.get("expires")),
    )


def _checked(option: str, value: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"task option {option}={value!r} is wrong: {error}") from None


def _policy(value: Any) -> Retry | str | None:
    if value is None or isinstance(value, Retry | str):
        return value
    raise UsageError(f"retry={value!r} is no policy; write Retry({value!r}), or the name of one in the configuration")


def _optional_duration(name: str, value: Duration | None) -> int | None:
    return None if value is None else span(value, name)


def _isolation(value: Any) -> Isolation | None:
    if value not in (None, "process"):
        raise UsageError(f"isolation={value!r} is unknown; leave it out, or write 'process' for a child process")
    return value  # type: ignore[no-any-return]

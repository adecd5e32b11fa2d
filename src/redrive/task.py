"""A task: a named handler of an app, and how its arguments become a payload and back."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

import msgspec

from redrive.errors import BadArguments, UsageError
from redrive.job import Job, decode
from redrive.limits import Limits, encode_limits, limits_of
from redrive.options import Options

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.client import Enqueued
    from redrive.retry import Retry

P = ParamSpec("P")
R = TypeVar("R")

Isolation = Literal["process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What a task says about all of its jobs."""

    queue: str = "default"
    priority: int = 5
    retry: "Retry | str | None" = None
    timeout: int | None = None
    isolation: Isolation | None = None
    memory: int | None = None
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    expires: int | None = None


class Task(Generic[P, R]):
    """A registered handler; still callable as the function it is."""

    def __init__(self, app: "Redrive", function: Callable[P, R], name: str, options: TaskOptions) -> None:
        self.app = app
        self.function = function
        self.name = name
        self.options = options
        update_wrapper(self, function)
        self.signature = _signature(function)
        self._catch_all = _catch_all(self.signature)
        self._plain = _plain(self.signature)
        self._policy: Retry | None = None
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self.runs_on_loop = self.is_coroutine or _wraps_coroutine(function)
        """Whether the handler is asynchronous."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def policy(self) -> "Retry":
        """The retry policy of this task."""
        if self._policy is None:  # not a `cached_property`, whose lock a fork could leave held for ever
            self._policy = self.app.policy_named(self.options.retry)
        return self._policy

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Enqueued":
        """Add one job with these arguments; returns when it is durable."""
        return self.app.client.enqueue_one(self.job(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Enqueued":
        """Add one job with these arguments; returns when it is durable."""
        return await self.app.client.aenqueue_one(self.job(*args, **kwargs))

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """A job with these arguments, not added yet: for `enqueue_many`."""
        return self.app.client.build(self, self.payload(args, kwargs), Options())

    def using(self, **options: Any) -> "Prepared[P]":
        """The same task with other options for the jobs enqueued through it; the reference lists them."""
        return Prepared(self, Options.checked(options))

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments bound to the handler's signature, as a JSON object."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadArguments(f"task {self.name}: {error}; its signature is {self.name}{self.signature}") from None
        arguments: dict[str, Any] = dict(bound.arguments)
        rest = arguments.pop(self._catch_all, {}) if self._catch_all else {}
        for name in rest:
            if name in arguments:
                raise BadArguments(f"task {self.name}: {name!r} is given twice, by position and by name")
        return arguments | rest

    def bind(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for the handler out of a payload; BadArguments when they no longer fit."""
        value = decode(payload)
        if not isinstance(value, dict):
            return self._bind_value(value)
        if self._plain is not None:
            allowed, required = self._plain
            if value.keys() <= allowed and required <= value.keys():
                return (), value
        return self._bind_slowly(value)

    def _bind_value(self, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A payload that is no object is the one argument."""
        try:
            self.signature.bind(value)
        except TypeError as error:
            raise BadArguments(
                f"task {self.name}: a payload that is no object must be its one argument: {error}"
            ) from None
        return (value,), {}

    def _bind_slowly(self, value: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs = dict(value)
        for parameter in self.signature.parameters.values():
            if parameter.name not in kwargs:
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(kwargs.pop(parameter.name))
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args = [*self._leading(kwargs), *args, *kwargs.pop(parameter.name)]
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadArguments(f"task {self.name}: {error}; its signature is {self.name}{self.signature}") from None
        return tuple(args), kwargs

    def _leading(self, kwargs: dict[str, Any]) -> list[Any]:
        """What stands before *args can only be passed by position once *args is there."""
        both = [p.name for p in self.signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        return [kwargs.pop(name) for name in both if name in kwargs]


class Prepared(Generic[P]):
    """A task with options of its own: what `using` returns."""

    def __init__(self, task: Task[P, Any], options: Options) -> None:
        self.task = task
        self.options = options

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Enqueued":
        """Add one job with these arguments and options; returns when it is durable."""
        return self.task.app.client.enqueue_one(self.job(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Enqueued":
        """Add one job with these arguments and options; returns when it is durable."""
        return await self.task.app.client.aenqueue_one(self.job(*args, **kwargs))

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """A job with these arguments and options, not added yet."""
        return self.task.app.client.build(self.task, self.task.payload(args, kwargs), self.options)


class Registry:
    """The tasks of an app by name and alias."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._aliases: dict[str, Task[..., Any]] = {}
        self.version = 0
        """Rises with each registration."""

    def add(self, task: Task[..., Any]) -> None:
        """Register a task; two functions of one name are an error."""
        for name in (task.name, *task.options.aliases):
            other = self.get(name)
            if other is not None and not _same_source(other.function, task.function):
                raise UsageError(
                    f"two tasks are named {name!r}: {_where(other.function)} and {_where(task.function)}; "
                    f"give one of them another name with @app.task(name=…)"
                )
        self._tasks[task.name] = task
        self._aliases.update(dict.fromkeys(task.options.aliases, task))
        self.version += 1

    def get(self, name: str) -> Task[..., Any] | None:
        """The task of this name or alias."""
        return self._tasks.get(name) or self._aliases.get(name)

    def names(self) -> tuple[str, ...]:
        """Every name that is answered to, sorted."""
        return tuple(sorted({*self._tasks, *self._aliases}))

    def all(self) -> dict[str, Task[..., Any]]:
        """The tasks by their own names."""
        return dict(self._tasks)


def default_name(function: Callable[..., Any]) -> str:
    """`module.function`; a script's own functions have the name under which others would import it."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise UsageError(f"{function!r} has no name of its own; give it one with @app.task(name=…)")
    return f"{main_module() if module == '__main__' else module}.{name}".replace(".<locals>", "")


def main_module() -> str:
    """The name under which the module that was run as a script can be imported."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    return Path(file).stem if file else "__main__"


def check_handler(function: Any) -> None:
    """Refuse, in one sentence, what cannot be a handler."""
    if isinstance(function, str):
        raise UsageError(f"@app.task({function!r}) names no function; write @app.task(name={function!r})")
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"a task is a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"task {function.__qualname__} is a generator, whose body would never run; return a value")


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the arguments of a task cannot be known: {error}; wrap it in a function of your own"
        ) from None


def _catch_all(signature: inspect.Signature) -> str | None:
    """The name of **kwargs."""
    return next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)


def _plain(signature: inspect.Signature) -> tuple[frozenset[str], frozenset[str]] | None:
    """The allowed and the required names, when all parameters can be passed by name."""
    parameters = signature.parameters.values()
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        return None
    required = frozenset(p.name for p in parameters if p.default is p.empty)
    return frozenset(p.name for p in parameters), required


def _wraps_coroutine(function: Callable[..., Any]) -> bool:
    """A plain function that `functools.wraps` a coroutine function most likely hands its coroutine on."""
    return inspect.isfunction(function) and inspect.iscoroutinefunction(inspect.unwrap(function))


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _same_source(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """The same lines imported twice (a reload, a file run as a script) are one task."""
    return _where(one) == _where(other)


def limits_by(task: Task[..., Any]) -> Limits:
    """What a job of this task carries when nothing else was asked for."""
    return msgspec.structs.replace(task.policy.limits(), timeout=task.options.timeout)


def completed(job: Job, task: Task[..., Any] | None) -> Job:
    """A job that was made where its task is not known, with what it would carry if it were."""
    own = limits_of(job.policy)
    if task is None or own.crash_limit is not None:
        return job
    asked = {name: value for name, value in msgspec.structs.asdict(own).items() if value is not None}
    return msgspec.structs.replace(job, policy=encode_limits(msgspec.structs.replace(limits_by(task), **asked)))


_SIZES = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "b": 1}


def memory_size(value: int | str | None) -> int | None:
    """A size in bytes, or as people write it: `512MiB`."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    text = str(value).strip().lower().replace(" ", "")
    for unit, factor in _SIZES.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit() and float(number) > 0:
            return int(float(number) * factor)
    raise UsageError(f"memory={value!r} is not a size; write bytes or a text such as '512MiB'")

"""Tasks: their names, and how arguments become a payload and back."""

import functools
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive import BadArguments, Redrive, Retry, Task
from redrive.config import Config
from redrive.errors import UsageError
from redrive.job import encode
from redrive.task import default_name, main_module


def a_task(function: Callable[..., Any], **options: Any) -> Task[..., Any]:
    """The function as a task of an app of its own."""
    task: Task[..., Any] = Redrive("memory://", config=Config()).task(name="t", **options)(function)
    return task


def called(task: Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the handler gets after the way through the store."""
    positional, named = task.bind(encode(task.payload(args, kwargs)))
    return task.function(*positional, **named)


SHAPES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (lambda a, b=2: [a, b], (1,), {}),
    (lambda a, b=2: [a, b], (), {"b": 1, "a": 3}),
    (lambda a, /, b: [a, b], (1, 2), {}),
    (lambda a, /, b=5, *, c=6: [a, b, c], (1,), {"c": 2}),
    (lambda *args: list(args), (1, 2, 3), {}),
    (lambda a, *args, b=0: [a, list(args), b], (1, 2, 3), {"b": 4}),
    (lambda a, *args, **kw: [a, list(args), kw], (1, 2), {"x": 3}),
    (lambda **kw: kw, (), {"x": 1, "y": [2]}),
    (lambda a, /, *args, b, **kw: [a, list(args), b, kw], (1, 2), {"b": 3, "c": 4}),
    (lambda: 0, (), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), SHAPES, ids=range(len(SHAPES)))
def test_a_handler_gets_what_was_passed(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Whatever the shape of its signature."""
    assert called(a_task(function), *args, **kwargs) == function(*args, **kwargs)


@given(st.lists(st.integers()), st.dictionaries(st.from_regex(r"x[a-z]{1,5}", fullmatch=True), st.text(), max_size=4))
def test_any_arguments_of_an_open_signature(args: list[int], kwargs: dict[str, str]) -> None:
    """Positions and names come back as they were."""

    def function(*args: int, **kwargs: str) -> tuple[list[int], dict[str, str]]:
        return list(args), kwargs

    assert called(a_task(function), *args, **kwargs) == (args, kwargs)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (lambda a: a, (), {}),
        (lambda a: a, (1, 2), {}),
        (lambda a: a, (1,), {"b": 2}),
        (lambda a, *args, **kw: a, (1, 2), {"args": 3}),
        (lambda a, /, **kw: a, (1,), {"a": 2}),
    ],
    ids=["missing", "too many", "unknown", "a name of *args", "a positional name"],
)
def test_what_does_not_fit_is_refused_at_once(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Nothing is dropped or overwritten on the way."""
    with pytest.raises(BadArguments, match="task t: "):
        a_task(function).payload(args, kwargs)


def test_a_payload_that_is_no_object_is_the_one_argument() -> None:
    """As other producers write it."""
    task = a_task(lambda items: items)
    assert task.bind(b"[1,2]") == (([1, 2],), {})
    with pytest.raises(BadArguments, match="must be its one argument"):
        a_task(lambda a, b: a).bind(b"[1,2]")


def test_a_payload_that_no_longer_fits_is_said_with_the_signature() -> None:
    """For whoever reads the letter."""
    with pytest.raises(BadArguments, match=r"its signature is t\(to, cc=None\)"):
        a_task(lambda to, cc=None: None).bind(b'{"too": 1}')


def test_defaults_are_those_of_the_day_it_runs() -> None:
    """What was not passed is not written."""
    assert a_task(lambda a, b=2: None).payload((1,), {}) == {"a": 1}


# names ----------------------------------------------------------------------------------------------------------------


def outer() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


def test_a_name_is_module_and_function() -> None:
    """A nested function's without `<locals>`."""
    assert default_name(outer) == f"{__name__}.outer"
    assert default_name(outer()) == f"{__name__}.outer.inner"


@pytest.mark.parametrize(
    ("spec", "file", "name"),
    [
        ("package.module", "/x/package/module.py", "package.module"),
        (None, "/x/script.py", "script"),
        (None, None, None),
    ],
)
def test_a_scripts_own_name(monkeypatch: pytest.MonkeyPatch, spec: str | None, file: str | None, name: str) -> None:
    """It is the one under which a worker would import it: run with -m, run as a file, or typed in."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__spec__=types.SimpleNamespace(name=spec) if spec else None, __file__=file)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert main_module() == (name or "__main__")


def test_two_functions_of_one_name_are_an_error() -> None:
    """At registration, with both places; the same lines again (a reload) are no second function."""
    app = Redrive("memory://", config=Config())
    app.task(name="one")(lambda: 1)
    with pytest.raises(UsageError, match=r"two tasks are named 'one': .*test_task.py:\d+ and .*test_task.py:\d+"):
        app.task(name="one")(
            lambda: 2,
        )
    with pytest.raises(UsageError, match="two tasks are named 'one'"):
        app.task(name="two", aliases=["one"])(lambda: 3)
    again = [app.task(name="loop")(function) for function in [outer(), outer()]]
    assert app.tasks["loop"] is again[1]


# what can be a handler ------------------------------------------------------------------------------------------------


def generator() -> Iterator[int]:
    yield 1


async def agenerator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "wrong", [generator, agenerator, 3, "name", int, None, getattr], ids=lambda one: getattr(one, "__name__", repr(one))
)
def test_what_cannot_be_a_handler_is_refused(wrong: Any) -> None:
    """Where it is written: a generator's body would never run, and the job would be done."""
    with pytest.raises(UsageError):
        Redrive("memory://", config=Config()).task(wrong)
    with pytest.raises(UsageError):
        Redrive("memory://", config=Config()).task(name="t")(wrong)


async def coroutine(n: int) -> int:
    return n


@functools.wraps(coroutine)
def handed_on(n: int) -> Any:
    return coroutine(n)


@functools.wraps(lambda n: n)
async def wrapping(n: int) -> int:
    return n


def test_where_a_handler_runs() -> None:
    """A coroutine function on the loop, also when one of both sides of a wrapper is; anything else in a thread."""
    assert a_task(coroutine).runs_on_loop
    assert a_task(handed_on).runs_on_loop
    assert a_task(wrapping).runs_on_loop
    assert not a_task(lambda: None).runs_on_loop
    assert not a_task(functools.partial(print)).runs_on_loop


def test_a_task_is_still_its_function() -> None:
    """Called, it does what it did, and says what it is."""
    task = a_task(lambda a: a + 1)
    assert task(2) == 3
    assert repr(task) == "<Task t>"
    assert Redrive("memory://", config=Config()).task(outer).__doc__ == outer.__doc__


# options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quue": "email"}, "unknown task option 'quue', did you mean queue"),
        ({"retry": 5}, r"write Retry\(5\)"),
        ({"memory": "512MiB"}, "memory= caps a child process"),
        ({"memory": "lots", "isolation": "process"}, "is not a size"),
        ({"memory": 0, "isolation": "process"}, "is not a size"),
        ({"isolation": "thread"}, "write 'process'"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"queue": ""}, "queue"),
        ({"queue": "a\ud800"}, "queue"),
        ({"name": "\0"}, "name"),
        ({"priority": "urgent"}, "priority"),
        ({"needs": [""]}, "needs"),
        ({"expires": -1}, "expires"),
    ],
    ids=repr,
)
def test_a_wrong_option_is_one_sentence(options: dict[str, Any], words: str) -> None:
    """No option is taken and ignored."""
    with pytest.raises(UsageError, match=words):
        Redrive("memory://", config=Config()).task(**options)


def test_bare_and_with_options_and_both() -> None:
    """`@app.task`, `@app.task(…)` and `app.task(function, …)` register alike."""
    app = Redrive("memory://", config=Config())
    assert app.task(outer).name == f"{__name__}.outer"
    register: Any = app.task
    given = register(generator_free, name="both", queue="q", timeout="30s", memory="1.5 GiB", isolation="process")
    assert (given.name, given.options.queue, given.options.timeout) == ("both", "q", 30_000_000)
    assert given.options.memory == 1.5 * 1024**3
    assert app.task(retry=Retry(2))(generator_free_too).policy.max_attempts == 2


def generator_free() -> None: ...


def generator_free_too() -> None: ...

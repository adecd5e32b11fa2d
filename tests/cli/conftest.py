"""A terminal in a box: the command line in this process, in a folder of its own, on stores of its own."""

import asyncio
import logging
import sys
import types
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from click.testing import CliRunner

from redrive import Redrive
from redrive.cli.root import root
from redrive.clock import ManualClock
from redrive.stores.memory import MemoryStore

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """The values on stdout, one for each line."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


class Cli:
    """Runs commands in this process, exactly as `main` would."""

    def __init__(self, *before: str) -> None:
        self._before = before

    def __call__(self, *args: str, input: str | bytes | None = None, **environment: str) -> Answer:
        result = CliRunner(env={**environment, "REDRIVE_CONFIG": environment.get("REDRIVE_CONFIG")}).invoke(
            root, [*self._before, *args], input=input, prog_name="redrive", catch_exceptions=False
        )
        return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, an environment without settings, and the process as it was afterwards."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("XDG_CONFIG_HOME", "REDRIVE_URL", "REDRIVE_APP", "REDRIVE_CONFIG", "NO_COLOR"):
        monkeypatch.setenv(name, "")  # so that what a command sets there is taken away again
        monkeypatch.delenv(name)
    logger, path, modules = logging.getLogger("redrive"), list(sys.path), set(sys.modules)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield folder
    logger.handlers[:], logger.level, logger.propagate = before
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def cli() -> Cli:
    """The command line on whatever the folder says."""
    return Cli()


@dataclass(frozen=True)
class Shop:
    """An app that a test and the command line share, with a clock that stands."""

    app: Redrive
    store: MemoryStore
    clock: ManualClock
    cli: Cli

    def do(self, *work: Coroutine[Any, Any, T]) -> T:
        """What the test itself does with the store, one after the other; the answer of the last."""

        async def each() -> T:
            answers = [await one for one in work]
            return answers[-1]

        return asyncio.run(each())


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    """`--app shop`, in memory."""
    clock = ManualClock()
    store = MemoryStore(name="shop", clock=clock)
    app = Redrive(store=store, clock=clock)

    @app.task(name="email.send", queue="email")
    async def send(to: str, template: str = "welcome") -> str:
        return to

    @app.task(name="thumbnail.make")
    def make(path: str, width: int = 200) -> dict[str, int]:
        return {path: width}

    module = types.ModuleType("shop")
    vars(module)["app"] = app
    monkeypatch.setitem(sys.modules, "shop", module)
    return Shop(app, store, clock, Cli("--app", "shop"))


@pytest.fixture
def module(folder: Path) -> Path:
    """`tasks.py` in the folder, with an app on the folder's own store."""
    path = folder / "tasks.py"
    path.write_text(MODULE, encoding="utf-8")
    return path


MODULE = """
import asyncio
import os
import threading
from pathlib import Path

from redrive import Redrive, Retry

app = Redrive()


@app.task(name="echo")
async def echo(text: str) -> str:
    return text


@app.task(name="where", isolation="process")
def where() -> str:
    return app.store.url


@app.task(name="wait")
async def wait(started: str, until: str) -> None:
    Path(started).write_text(str(os.getpid()), encoding="utf-8")
    while not Path(until).exists():
        await asyncio.sleep(0.01)


@app.task(name="block")
async def block(started: str) -> None:
    Path(started).touch()
    while True:
        pass


@app.task(name="stick", timeout="100ms")
def stick() -> None:
    threading.Event().wait(60)


@app.task(name="elsewhere", timeout="100ms", retry=Retry(1))
async def elsewhere() -> None:
    await asyncio.to_thread(threading.Event().wait, 60)
"""

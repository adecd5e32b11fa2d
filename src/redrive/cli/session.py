"""What a command stands on: the global options, the settings, the app and the store."""

import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from redrive.actor import actor as actor
from redrive.cli import Terminated

if TYPE_CHECKING:  # what `--help` does not need is imported where it is used, here and below
    from redrive.app import Redrive
    from redrive.clock import Clock
    from redrive.config import Config
    from redrive.store import Store

T = TypeVar("T")

CONFIG = "REDRIVE_CONFIG"
URL = "REDRIVE_URL"


class Session:
    """One call of the command line."""

    def __init__(self, args: list[str]) -> None:
        self.args = args
        self.given: dict[str, str] = {}

    def give(self, name: str, value: str) -> None:
        """A global option; the one typed last counts."""
        self.given[name] = value

    # settings -------------------------------------------------------------------------------------------------------

    @cached_property
    def config(self) -> "Config":
        """The settings in force, with the flags of this call."""
        return self.settings({})

    def settings(self, flags: dict[str, Any]) -> "Config":
        """The settings in force with more flags."""
        from redrive.config import load

        if "config" in self.given:  # child processes and the app's own settings read the same file
            os.environ[CONFIG] = str(Path(self.given["config"]).absolute())
        given = {key: value for key, value in self.given.items() if key != "config"}
        return load(overrides=given | {key: value for key, value in flags.items() if value is not None})

    @property
    def named_app(self) -> str | None:
        """The app that this call or the project names."""
        return self.config.app

    def arguments(self) -> list[str]:
        """The global options again, for another process of ours."""
        return [word for key, value in self.given.items() for word in (f"--{key.replace('.', '-')}", value)]

    # the app --------------------------------------------------------------------------------------------------------

    def app(self, reference: str | None = None) -> "Redrive":
        """The app that was named, or the project's; one sentence when there is none or it cannot be imported."""
        from redrive.errors import BadApp
        from redrive.reference import find_app

        reference = reference or self.named_app
        try:
            app = find_app(reference, self.config)
        except Terminated:
            raise
        except SystemExit as error:
            raise BadApp(
                f"module {reference!r} ends the program when it is imported (exit code {error.code}); "
                f'put what it runs as a script under `if __name__ == "__main__":`'
            ) from None
        self._check_url(app)
        return app

    def _check_url(self, app: "Redrive") -> None:
        from redrive.app import connect
        from redrive.errors import UsageError
        from redrive.redact import safe_url

        if "url" not in self.given:
            return
        wanted, own = connect(self.config).url, app.store.url
        if wanted != own and not (wanted.startswith("memory:") and own.startswith("memory:")):
            raise UsageError(
                f"--url is {safe_url(wanted)}, but the app names {safe_url(own)} in its code; "
                f"leave --url out, or write `Redrive()` there so that the URL can be set from outside"
            )

    def listen(self) -> None:
        """Show what the app warns of, as messages of this program."""
        import logging
        import sys

        from redrive.logs import start_logging

        start_logging(self.config.log.level, self.config.log.format, sys.stderr)
        if self.config.log.format == "text":
            for handler in logging.getLogger("redrive").handlers:
                handler.setFormatter(logging.Formatter("redrive: %(message)s"))

    # the store ------------------------------------------------------------------------------------------------------

    def store(self) -> "Store":
        """The store of the app that was named with --app or when no URL was set, else that of the URL; not open."""
        from redrive.app import connect

        asks_app = "app" in self.given or (self.named_app and self.config.sources["url"] == "default")
        return self.app().store if asks_app else connect(self.config)

    @asynccontextmanager
    async def opened(self, *, make: bool = False) -> AsyncIterator["Store"]:
        """The store, open; one that is not there is made only if asked for."""
        store = self.store()
        if not make:
            _must_exist(store)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @cached_property
    def clock(self) -> "Clock":
        """Where the time comes from: what the store of an app goes by, so that ages fit."""
        from redrive.clock import SystemClock

        return self.app().clock if "app" in self.given else SystemClock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the asynchronous part of a command."""
        import asyncio

        runner = asyncio.Runner()
        task = runner.get_loop().create_task(work)
        try:
            with runner:
                return runner.get_loop().run_until_complete(task)
        finally:
            if task.done() and not task.cancelled():
                task.exception()  # looked at: a second SIGTERM ends a task that is ending, and is no forgotten fault


def path_of(store: "Store") -> Path | None:
    """The file of a store that is one."""
    scheme, _, rest = store.url.partition(":///")
    return Path(rest) if scheme == "sqlite" else None


def _must_exist(store: "Store") -> None:
    from redrive.errors import StoreUnavailable

    path = path_of(store)
    if path is not None and not path.exists():
        raise StoreUnavailable(
            f"there is no store at {path} yet; enqueue a job or start a worker to make it, "
            f"or name another with --url (or the app that names it with --app)"
        )

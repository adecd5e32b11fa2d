"""A process of a crash test: one of tests/crash/programs, started, signalled, and asked how it ended.

They are forked from a small process that has imported the product and nothing else, because importing it anew would
take most of the time of these tests. A program has nothing in common with another one but that.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import reload
from pathlib import Path

PATIENCE = 30
KILLED = -signal.SIGKILL

_nursery = multiprocessing.get_context("forkserver")
_nursery.set_forkserver_preload(["redrive.worker", "redrive.stores.sqlite", "runpy", "argparse"])


class Program:
    """A process; what it prints is kept for when it does not do what it should."""

    def __init__(self, name: str, arguments: tuple[str, ...], environment: Mapping[str, str], cwd: Path, log: Path):
        self._log = log
        log.touch()
        told = (f"tests.crash.programs.{name}", arguments, dict(environment), cwd, log)
        self._process = _nursery.Process(target=_run, args=told)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def ended(self, seconds: float = PATIENCE) -> int:
        """How it ended; it has so many seconds to do so."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise AssertionError(f"{self.said()} has not ended within {seconds}s")
        return self._process.exitcode

    def died(self) -> None:
        """It must end by SIGKILL: a failpoint that was never reached tests nothing."""
        code = self.ended()
        assert code == KILLED, f"{self.said()} ended with {code}, it was to be killed at its failpoint"

    def finished(self, seconds: float = PATIENCE) -> None:
        """It must end well."""
        code = self.ended(seconds)
        assert code == 0, f"{self.said()} ended with {code}"

    def stop(self) -> None:
        """Tell it to end, and see that it ends well."""
        self.send(signal.SIGTERM)
        self.finished()

    def kill(self) -> None:
        """Kill it, if it lives, and wait until it is gone."""
        self.send(signal.SIGKILL)
        self.ended()

    def send(self, number: int) -> None:
        """A signal from outside."""
        if self._process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def said(self) -> str:
        """Its name, and what it printed."""
        printed = self._log.read_text(errors="replace")[-4_000:]
        return f"{self._log.stem} ({self.pid})" + (f", which printed\n{printed}\n" if printed else "")


def _run(module: str, arguments: tuple[str, ...], environment: dict[str, str], cwd: Path, log: Path) -> None:
    """In the new process: what starting `python -m module` in this environment would have done."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    printed = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    reload(sys.modules["redrive.failpoints"])  # it has looked at another environment
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

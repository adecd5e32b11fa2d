"""`redrive demo`: the product in half a minute. What runs is in redrive.demo, what is shown in telling.py."""

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from redrive.cli.faults import EXIT_INTERRUPTED
from redrive.cli.options import Verb, at_least, json_option
from redrive.cli.output import emit, say
from redrive.demo import PATIENCE
from redrive.errors import UsageError

if TYPE_CHECKING:
    from redrive.cli.telling import Telling
    from redrive.demo.play import Report

FILE = "redrive.db"
LOG = "worker.log"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("demo", cls=Verb)
@click.option("--keep", metavar="DIR", help="Leave the database in this folder, to explore it.")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=at_least(1.0),
    default=PATIENCE,
    help=f"End after so many, though jobs are left; {PATIENCE:g}.",
)
@json_option
def command(keep: str | None, patience: float, as_json: bool) -> int:
    """See the product in half a minute, without any set-up.

    200 jobs run on a SQLite file in a temporary folder; many fail, each task in its own way. What was retried and what
    died is shown by cause, then one cause is fixed and its jobs are brought back. Every figure is read from the store.
    """
    kept = None if keep is None else _folder(keep)
    try:
        with _place(kept) as folder:
            code = _play(folder, kept, patience, as_json)
    except KeyboardInterrupt:  # before the jobs, or once more while they were ended
        code = EXIT_INTERRUPTED
    if code:
        rest = f"what has happened so far is in {kept}" if kept else "its folder is removed"
        say(f"the demo was stopped; its processes are gone, and {rest}")
    return code


def _folder(keep: str) -> Path:
    """The folder to leave the database in: made if need be, refused if it has one already."""
    if not keep.strip():
        raise UsageError("--keep names no folder; write one, such as --keep redrive-demo")
    folder = Path(keep).expanduser().absolute()
    if "?" in str(folder):
        raise UsageError(f"--keep {keep}: a question mark cannot stand in the path of a store; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--keep {keep} names a file; name a folder, which is made if it is not there") from None
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be made: {error.strerror}; name another after --keep") from None
    if (folder / FILE).exists():
        raise UsageError(f"{folder} already has a {FILE}; name another folder after --keep, or remove that file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {folder} cannot be written; name another after --keep")
    return folder


@contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    """Where it runs: the folder to keep, or one that is gone afterwards."""
    if kept is not None:
        yield kept
        return
    try:
        temporary = TemporaryDirectory(prefix="redrive-demo-")
    except OSError as error:
        raise UsageError(f"no temporary folder can be made: {error.strerror}; set TMPDIR, or use --keep DIR") from None
    with temporary as folder:
        yield Path(folder)


def _play(folder: Path, kept: Path | None, patience: float, as_json: bool) -> int:
    """Run it and answer the exit code."""
    from redrive.cli.telling import telling

    shown = telling(program(), kept, as_json=as_json)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with _stderr_to(folder / LOG):
        try:
            ended = asyncio.run(_heeding(folder, patience, shown))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            shown.close()
    if isinstance(ended, int):
        return 128 + ended
    if as_json:
        emit(of_report(ended, kept))
    return 0


async def _heeding(folder: Path, patience: float, shown: "Telling") -> "Report | int":
    """Perform until the end, or until a signal: then that, with everything put away."""
    from redrive.demo.play import perform
    from redrive.demo.tasks import app
    from redrive.logs import log_event, start_logging

    start_logging("info", "text", sys.stderr)
    app.subscribe(log_event)
    loop, play = asyncio.get_running_loop(), asyncio.ensure_future(perform(folder, shown, patience))
    heard: list[int] = []

    def stop(number: int) -> None:
        heard.append(number)
        play.cancel()

    for number in SIGNALS:  # exceptions out of signal handlers could end up in a job
        loop.add_signal_handler(number, stop, number)
    try:
        return await play
    except asyncio.CancelledError:
        if heard:
            return heard[0]
        raise


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What the worker logs and what a dying child prints goes to a file, not into the picture."""
    sys.stderr.flush()
    own = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)


def program() -> str:
    """How this very program is typed here."""
    own = Path(sys.executable).with_name("redrive")
    found = shutil.which("redrive")
    if found and own.exists() and Path(found).samefile(own):
        return "redrive"
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m redrive"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


def of_report(report: "Report", kept: Path | None) -> dict[str, object]:
    """The figures as one JSON object."""
    from msgspec import to_builtins

    everything = report.moment.all
    return {
        "seconds": round(report.moment.seconds, 3),
        "jobs": {**to_builtins(everything), "lost": everything.lost},
        "tasks": {name: {**to_builtins(tally), "lost": tally.lost} for name, tally in report.moment.tasks.items()},
        "retries": to_builtins(report.first.retries),
        "died": [to_builtins(cause.group) for cause in report.first.causes],
        "revived": report.revived,
        "revived_done": report.revived_done,
        "neighbours_hurt": report.hurt,
        "dead": [to_builtins(cause.group) for cause in report.causes],
        "differences": list(report.differences),
        "store": None if kept is None else f"sqlite:///{kept / FILE}",
    }

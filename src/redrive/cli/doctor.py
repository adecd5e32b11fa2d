"""`redrive doctor`: looks for what is wrong and says what to do; it changes nothing and makes no file."""

import platform
import sys
from collections.abc import Iterable

import click

import redrive
from redrive.cli.examining import of_app, of_config, of_missing, of_pending, of_queues, of_retention, of_workers
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import clean, counted, emit, folded, paint, say, show, width
from redrive.cli.session import Session, path_of
from redrive.errors import ConfigError, RedriveError, StoreError
from redrive.redact import said
from redrive.store import Check, Store


@click.command("doctor", cls=Verb)
@json_option
@pass_session
def command(session: Session, as_json: bool) -> int:
    """Look for what is wrong, and say what to do.

    It looks at the settings, the store, its disk, the clock, the workers and, when an app is named, at its tasks and
    how long an outage their policies ride out. Exit code 0: all is well; 1: something is not; 4: the store cannot be
    opened.
    """
    report = Report(as_json)
    report.add([_versions()])
    code = session.run(_examine(session, report))
    if report.wrong and not as_json:
        say(f"{report.wrong} of {counted(report.seen, 'check')} found something wrong; what to do stands below it")
    return code or (EXIT_FAULT if report.wrong else 0)


class Report:
    """The checks as they come, each shown at once."""

    def __init__(self, as_json: bool) -> None:
        self.seen = 0
        self.wrong = 0
        self._as_json = as_json
        encoding = (sys.stdout.encoding or "ascii").lower()
        self._marks = ("✓", "✗") if encoding.startswith("utf") else ("ok", "NO")

    def add(self, checks: Iterable[Check]) -> None:
        """Show them and count what is wrong."""
        for check in checks:
            self.seen += 1
            self.wrong += not check.ok
            if self._as_json:
                advice = None if check.ok else check.advice
                emit({"check": check.name, "ok": check.ok, "found": check.found, "advice": advice})
            else:
                self._show(check)

    def _show(self, check: Check) -> None:
        mark = paint(self._marks[0], colour="green") if check.ok else paint(self._marks[1], colour="red", bold=True)
        first, *rest = _lines(f"{check.name}: {check.found}")
        show(f"{mark} {first}")
        for line in rest + (_lines(check.advice) if check.advice and not check.ok else []):
            show(f"  {line}")


def _lines(text: str) -> list[str]:
    """Folded for a terminal; a pipe gets a line for each thing."""
    return folded(clean(text), max(40, width() - 2)) if sys.stdout.isatty() else [clean(text)]


def _versions() -> Check:
    found = f"redrive {redrive.__version__}, Python {platform.python_version()} on {sys.platform}"
    return Check(name="version", ok=True, found=found)


async def _examine(session: Session, report: Report) -> int:
    try:
        report.add(of_config(session.config))
    except ConfigError as error:
        report.add([_fault("settings", error, "correct it; everything else depends on the settings")])
        return EXIT_FAULT
    try:
        if session.named_app:
            report.add(of_app(session.app()))
        store = session.store()
    except RedriveError as error:
        report.add([_fault("app", error, "correct the module or what names it, then run this again")])
        return EXIT_FAULT
    return await _examine_store(session, store, report)


async def _examine_store(session: Session, store: Store, report: Report) -> int:
    try:
        path = path_of(store)
        if path is not None and not path.exists():
            report.add(of_missing(path))
            return 0
        pending = of_pending(store)
        report.add([Check(name="store", ok=True, found=store.url), *pending])
        if any(not check.ok for check in pending):
            return 0  # opening it would migrate it
        async with session.opened() as opened:
            report.add(await opened.check())
            now = session.clock.now()
            report.add([await of_workers(opened, now), *await of_queues(opened, now)])
            report.add(await of_retention(opened, session.config))
    except StoreError as error:
        report.add([_fault("store", error, f"correct that; the store is {store.url}")])
        return error.exit_code
    return 0


def _fault(name: str, error: RedriveError, advice: str) -> Check:
    return Check(name=name, ok=False, found=said(error), advice=advice)

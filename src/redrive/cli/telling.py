"""What the demo shows: its sections as lines, and between them either a live view, a line per second, or nothing."""

import os
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from redrive.cli.output import clean, show, width
from redrive.demo.figures import Cause, Retries, Tally
from redrive.demo.play import FirstAct, Moment, Report
from redrive.demo.story import FIX, Part
from redrive.demo.tasks import FIRST, FIXED

EVERY = 1.0
"""Seconds between two lines of progress."""


def telling(program: str, kept: Path | None, *, as_json: bool) -> "Telling":
    """How to tell it here: on a terminal that can move its cursor, elsewhere, or to a program."""
    if as_json:
        return Silence()
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not _unattended():
        from redrive.cli.picture import Picture  # lazily: only here is rich needed

        return Picture(program, kept)
    return Telling(program, kept)


def _unattended() -> bool:
    """Whether a machine looks at this terminal, and would keep every frame."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


class Telling:
    """Tells it in plain lines."""

    def __init__(self, program: str, kept: Path | None) -> None:
        self._program = program
        self._kept = kept
        self._next = 0.0
        self._untold: Moment | None = None

    # the acts -------------------------------------------------------------------------------------------------------

    def begins(self, cast: Sequence[Part]) -> None:
        """Who is who."""
        count = sum(len(part.jobs) for part in cast)
        _title(f"{count} jobs, one SQLite file, no server. Each task has its own trouble:")
        for part in cast:
            _row(f"{part.task:<15}  {len(part.jobs):>3} jobs", part.trouble)
        _title(f"Release {FIRST} runs them")

    def moment(self, moment: Moment) -> None:
        """How far it is, once a second and at the end of each act."""
        self._untold = moment
        if moment.seconds >= self._next:
            self._next = moment.seconds + EVERY
            self.close()

    def close(self) -> None:
        """An act is over, at whichever point: the last look has been told."""
        moment, self._untold = self._untold, None
        if moment is not None:
            show(f"  {moment.seconds:>4.1f}s  {progress(moment.all)}")

    def died(self, act: FirstAct) -> None:
        """What was retried, what died and why."""
        self.close()
        _title("Retried")
        for each in act.retries:
            _row(f"{each.task:<15}", _of_retries(each))
        if not act.retries:
            _row("nothing")
        _title("Dead, by cause")
        for cause in act.causes:
            self._cause(cause)
        if not act.causes:
            _row("nobody")
        if act.moment.all.left:
            left = plural(act.moment.all.left, "job")
            _row("", f"{left} left, because this machine is slow today; release {FIXED} goes on with them.")

    def _cause(self, cause: Cause) -> None:
        group = cause.group
        _row(f"{group.count:>3}  {group.task:<15}", f"{group.reason}: {_end_of(cause)}", bold=True)
        name = cause.last.type.rpartition(".")[2]
        _row("   ", clean(f"{name}: {cause.last.message}"))
        if cause.last_words:
            _row("   ", f"its last words: {clean(cause.last_words)}")

    def revived(self, cause: Cause, count: int) -> None:
        """One cause is fixed."""
        _title(f"Release {FIXED} brings {count} of them back")
        _row(
            "",
            f"{FIX[:1].upper()}{FIX[1:]}, so the letters of that cause get another life; all others stay as they are.",
        )
        self._next = 0.0

    def ended(self, report: Report) -> None:
        """The figures, and what to do next."""
        self.close()
        everything = report.moment.all
        _title(f"What the store says after {report.moment.seconds:.1f}s")
        _row("", sum_of(everything))
        _row("", f"of those done, {everything.done_on_retry} needed a retry and {report.revived_done} the fix")
        _row("", f"{everything.retried} retries and {everything.crashed} crashes; {everything.started} starts in all")
        if everything.crashed:
            _row("", f"{report.hurt} neighbours of a crash lost an attempt")
        for difference in report.differences:
            _row("", f"not as the story has it: {difference}")
        if report.first.fixable is None:
            _row("", "nothing was brought back: no letter had the cause that the fix is for")
        self._next_steps(report)

    def _next_steps(self, report: Report) -> None:
        _title("Try next")
        if self._kept is None:
            steps = {
                f"{self._program} demo --keep redrive-demo": "the same, and its database stays to look around in",
                f"{self._program} worker module:app": "run the jobs of your own code",
                f"{self._program} doctor": "is this machine fit for it?",
            }
        else:
            store = f"--url {shlex.quote(f'sqlite:///{self._kept}/redrive.db')}"
            steps = {
                f"{self._program} jobs list --state dead {store}": "the jobs that are still dead",
                f"{self._program} jobs show {_telling_job(report)} {store}": "one of them, with its whole history",
                f"{self._program} events {store}": "all that happened off the happy path",
            }
        for command, why in steps.items():
            show(f"  {command}", bold=True)  # never folded, so that it can be copied
            _row("", f"  {why}")
        if self._kept is not None:
            _row("", f"What the worker logged is in {self._kept / 'worker.log'}.")


class Silence(Telling):
    """Tells nothing: the figures follow as JSON."""

    def __init__(self) -> None:
        super().__init__("", None)

    def begins(self, cast: Sequence[Part]) -> None: ...

    def moment(self, moment: Moment) -> None: ...

    def died(self, act: FirstAct) -> None: ...

    def revived(self, cause: Cause, count: int) -> None: ...

    def ended(self, report: Report) -> None: ...


# words ----------------------------------------------------------------------------------------------------------------


def progress(tally: Tally) -> str:
    """Where all jobs are."""
    return (
        f"{tally.done} done, {tally.dead} dead, {tally.running} running, {tally.waiting} waiting, "
        f"{plural(tally.retried, 'retry', 'retries')}"
    )


def sum_of(tally: Tally) -> str:
    """The sum that has to add up."""
    parts = [f"{tally.done} done", f"{tally.dead} dead", f"{tally.lost} lost"]
    if tally.discarded:
        parts.insert(2, f"{tally.discarded} discarded")
    if tally.left:
        parts.insert(2, f"{tally.left} not ended")
    return f"{tally.accepted} accepted = {' + '.join(parts)}"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _of_retries(each: Retries) -> str:
    healed = "all of them done by now" if each.healed == each.jobs else f"{each.healed} of them done by now"
    if not each.healed:
        healed = "in vain"
    return f"{plural(each.retries, 'retry', 'retries')} of {plural(each.jobs, 'job')} ({each.reason}), {healed}"


def _end_of(cause: Cause) -> str:
    if cause.group.reason == "crashed":
        return f"given up after {plural(cause.crashes, 'crash', 'crashes')}"
    if not cause.last.retryable:
        return "not retried, because time cannot heal it"
    return f"given up after {plural(cause.attempts, 'attempt')}"


def _telling_job(report: Report) -> str:
    """The job whose page has most to tell: one that crashed, else any that died."""
    listed = [*report.causes, *report.first.causes]
    crashed = [cause for cause in listed if cause.group.reason == "crashed"]
    return (crashed or listed)[0].job[-8:] if listed else "ID"


# lines ----------------------------------------------------------------------------------------------------------------


def _title(text: str) -> None:
    show()
    for line in _folded(text, width()):
        show(line, bold=True, colour="cyan")


def _row(head: str, text: str = "", *, bold: bool = False) -> None:
    """A head with its text beside it, folded under itself; under the head where that leaves no room."""
    lead = f"  {head}  " if head else "  "
    room = width() - len(lead)
    if text and room < 24:
        show(lead.rstrip(), bold=bold)
        lead, room = "    ", width() - 4
    for place, line in enumerate(_folded(text, room)):
        show(f"{lead if place == 0 else ' ' * len(lead)}{line}".rstrip(), bold=bold and place == 0)


def _folded(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, max(20, room), break_on_hyphens=False) or [""]

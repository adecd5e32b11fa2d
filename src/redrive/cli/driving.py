"""A redrive on the terminal: how it goes while it goes, and the summary at its end."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any

from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.line import LOOK, Line
from redrive.cli.output import Column, clean, counted, emit, say, show, table
from redrive.cli.session import Session
from redrive.cli.times import span
from redrive.cli.wishes import otherwise, pace_asked
from redrive.clock import SECOND, Clock, iso
from redrive.letter import Group as Cause
from redrive.redrives import PLAIN, Run, drive, report
from redrive.reshaping import Reshape, Reshaper
from redrive.serving import queues_asked_for, unserved
from redrive.store import Pattern, Plan, Stage, Store
from redrive.waiting import sentence

WINDOW = 30.0
"""Seconds that the speed is measured over."""

SHORT = 8
_BAR = 12
_STAGES = (
    Column("STAGE", right=True),
    Column("RELEASED", right=True),
    Column("PASSED", right=True),
    Column("RECURRED", right=True),
    Column("OTHERWISE", right=True),
    Column("DISCARDED", right=True),
)
_PATTERNS = (Column("FAILED", right=True), Column("GROUP"), Column("AS BEFORE"), Column("CAUSE", shrink=True))

Step = Callable[[], Awaitable[float | None]]
"""Does what can be done now; answers the seconds to rest, None at the end."""


async def driven(store: Store, clock: Clock, id: str, reshape: Reshape = PLAIN, after: str = "") -> Run:
    """Drive it to its end, or until it is paused, and show how it goes; `after` is said when somebody leaves it."""

    async def step() -> float | None:
        rest = await drive(store, clock, id, reshape)
        return None if rest is None else rest / SECOND

    return await _shown(store, clock, id, step, after)


def reshaper(session: Session, plan: Plan) -> Reshaper:
    """What gives letters other payloads; with an app it also knows what its tasks take, and without it says so."""
    if plan.reshapes and not session.named_app:
        say("payloads are not checked against signatures here; name the app in the project file or in REDRIVE_APP")
    return Reshaper(session.app() if session.named_app else None)


async def warned(store: Store, plan: Plan, tasks: Collection[str], now: int) -> None:
    """Say so when nobody would run these jobs."""
    workers = await store.workers.find()
    why = unserved(workers, tasks, await queues_asked_for(store, plan, workers, now))
    if why is not None:
        say(f"{clean(why)}, and so nobody runs these jobs; start `redrive worker`, or run them here with --app")


async def watched(store: Store, clock: Clock, id: str) -> Run:
    """Show how it goes, whoever drives it."""

    async def step() -> float | None:
        redrive = await store.redrives.get(id)
        return LOOK if redrive is not None and redrive.state in ("freezing", "waiting", "running") else None

    return await _shown(store, clock, id, step)


async def _shown(store: Store, clock: Clock, id: str, step: Step, after: str = "") -> Run:
    with Line() as line:
        told = _Progress(store, clock, id, line)
        try:
            while (rest := await step()) is not None:
                await told.tell()
                await asyncio.sleep(rest)
        except asyncio.CancelledError:
            line.clear()
            say(
                after
                or f"redrive {id[-8:]} goes on while workers run; `redrive redrives watch {id[-8:]}` shows it, "
                f"`pause`, `resume` and `cancel` steer it"
            )
            raise
    return await report(store, clock, id)


class _Progress:
    """How a redrive goes, told now and then."""

    def __init__(self, store: Store, clock: Clock, id: str, line: Line) -> None:
        self._asked = (store, clock, id)
        self._line = line
        self._pace = Speed()

    async def tell(self) -> None:
        """How it goes now, unless it was told a moment ago."""
        if self._line.is_due:
            run = await report(*self._asked)
            speed = self._pace.now(asyncio.get_running_loop().time(), run.ended)
            self._line.write(progress(run, speed))


class Speed:
    """How many letters end in a second, by the last half minute: what went before a pause says nothing."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def now(self, at: float, ended: int) -> float:
        """The speed, with what is known now."""
        self._seen.append((at, ended))
        while at - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        before, had = self._seen[0]
        return (ended - had) / (at - before) if at > before else 0.0


def progress(run: Run, speed: float) -> str:
    """How it goes, in one line."""
    if run.state == "freezing":
        return f"redrive {run.id[-8:]} takes in its letters: {run.total_items:,}"
    if run.state == "waiting":
        return f"redrive {run.id[-8:]} {sentence(run.redrive)}"
    to_come = run.total_items - run.ended - sum(cause.left for cause in run.stopped)
    filled = _BAR * run.ended // max(1, run.total_items)
    pieces = [f"{run.ended:,}/{run.total_items:,}", f"{run.successful:,} done", f"{run.failed:,} failed"]
    pieces += [f"{run.skipped:,} skipped", f"stage {run.redrive.stage}"]
    if speed and to_come:
        left = span(int(to_come / speed * SECOND))
        pieces += [f"{speed:,.1f}/s" if speed < 100 else f"{speed:,.0f}/s", f"{left} left"]
    return f"{'█' * filled}{'░' * (_BAR - filled)} {', '.join(pieces)}"


def concluded(run: Run, *, as_json: bool) -> int:
    """Print the summary, and answer the exit code."""
    if as_json:
        emit(of_run(run))
    else:
        summary(run)
    spared = sum(cause.skipped for cause in run.causes)  # a job that was discarded afterwards has had its answer
    if run.state == "finished" and not run.failed and not run.stopped and not spared:
        return 0
    return EXIT_PARTLY if run.successful else EXIT_FAULT


def summary(run: Run) -> None:
    """How it stands or ended, for a person."""
    show(f"redrive {run.id[-8:]} {run.state} after {span(int(run.duration * SECOND))}", bold=True)
    if run.redrive.why:
        show(f"  {clean(run.redrive.why)}")
    if run.state == "waiting":
        show(f"  {clean(sentence(run.redrive))}")
    for line in _numbers(run):
        show(line)
    if run.stages:
        show()
        table(_STAGES, [_stage_row(stage) for stage in run.stages])
    for cause in run.stopped:
        show()
        show(f"stopped in stage {cause.stopped}: group {cause.cause[:SHORT]} recurs, {cause.left:,} of it untouched")
        show(f"  {clean(cause.title)}")
    if run.error_patterns:
        show()
        table(_PATTERNS, [_pattern_row(each) for each in run.error_patterns])


def _numbers(run: Run) -> Iterator[str]:
    for name, n in (("letters", run.total_items), ("successful", run.successful), ("failed", run.failed)):
        yield f"  {name:<12}{n:>9,}"
    yield f"  {'skipped':<12}{run.skipped:>9,}"
    for why, n in run.skips.items():
        yield f"    {n:>6,}  {clean(why)}"
    if run.running:
        yield f"  {'running':<12}{run.running:>9,}"
    yield f"  {'left':<12}{run.left:>9,}  dead and untouched"


def _stage_row(stage: Stage) -> list[str]:
    numbers = (stage.number, stage.released, stage.passed, stage.relapsed, stage.strayed, stage.dropped)
    return [f"{n:,}" for n in numbers]


def _pattern_row(each: Pattern) -> list[str]:
    return [f"{each.n:,}", each.why[:SHORT], "yes" if each.state == "recurred" else "no", each.title]


def of_run(run: Run) -> dict[str, Any]:
    """A redrive as JSON."""
    redrive = run.redrive
    return {
        "id": run.id,
        "state": run.state,
        "why": redrive.why or None,
        "filter": redrive.plan.filter,
        "when_release": redrive.plan.when_release,
        "actor": redrive.actor,
        "reason": redrive.reason,
        "options": dict(otherwise(redrive.plan)) | dict(pace_asked(redrive.plan)),
        "opened_at": iso(redrive.opened_at),
        "ended_at": iso(redrive.ended_at) if redrive.ended_at else None,
        "total_items": run.total_items,
        "successful": run.successful,
        "failed": run.failed,
        "skipped": run.skipped,
        "running": run.running,
        "left": run.left,
        "duration": run.duration,
        "skips": run.skips,
        "stages": [
            {"stage": s.number, "at": iso(s.at), "released": s.released, "passed": s.passed, "recurred": s.relapsed,
             "otherwise": s.strayed, "discarded": s.dropped}
            for s in run.stages
        ],
        "stopped": [{"group": c.cause, "title": c.title, "stage": c.stopped, "left": c.left} for c in run.stopped],
        "error_patterns": [
            {"group": p.why, "title": p.title, "failed": p.n, "as_before": p.state == "recurred", "sample": p.sample}
            for p in run.error_patterns
        ],
    }  # fmt: skip


def causes_in_words(groups: list[Cause], letters: int) -> str:
    """`12,000 letters of 3 groups`."""
    return f"{counted(letters, 'open letter')} of {counted(len(groups), 'group')}"

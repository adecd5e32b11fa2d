"""`redrive dlq retry`: bring letters back, carefully."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from redrive.cli.asking import confirm
from redrive.cli.choosing import chosen
from redrive.cli.driving import SHORT, causes_in_words, concluded, driven, of_run
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.options import Verb, at_least, json_option, pass_session, yes_option
from redrive.cli.output import Column, counted, emit, say, show, table
from redrive.cli.session import Session, actor
from redrive.cli.times import at_and_beside
from redrive.clock import SECOND, iso, spoken
from redrive.letter import Group as Cause
from redrive.ramp import Pace, stage_size
from redrive.redrives import Options, pace_of, plan_from, report
from redrive.store import Plan, Store
from redrive.triage import meant

F = TypeVar("F", bound=Callable[..., Any])

GROUPS = 10_000
SHOWN = 10
"""So many groups are shown before it asks; --json has all."""

_GROUPS = (Column("GROUP"), Column("LETTERS", right=True), Column("TASK", shrink=True), Column("CAUSE", shrink=True))


def pace_options(command: F) -> F:
    """How fast and how carefully."""
    for option in reversed(
        (
            click.option("--limit", metavar="N", type=at_least(1), help="At most so many, those that failed last."),
            click.option(
                "--ramp", metavar="N,N,…", help="Stages; above 20 letters they are 1,5,25,125, then 5 times as many."
            ),
            click.option("--no-ramp", is_flag=True, help="Everything at once."),
            click.option("--stop-at", metavar="SHARE", help="Stop a group that recurs in more than this; 20%."),
            click.option("--no-stop", is_flag=True, help="Never stop a group by itself."),
            click.option("--stage-timeout", metavar="TIME", default="10m", help="Pause without a verdict; 10m."),
            click.option("--rate", metavar="N/s", help="So many a second; also 10/m and 1000/h."),
            click.option("--parallel", metavar="N", type=at_least(1), help="At most so many under way."),
            click.option(
                "--judge", type=click.Choice(["first", "final"]), default="first", help="What counts as recurring."
            ),
        )
    ):
        command = option(command)
    return command


@click.command("retry", cls=Verb, short_help="Bring letters back in stages that stop by themselves.")
@click.argument("what", nargs=-1)
@click.option("--filter", "filter", metavar="EXPR", default="", help="Only these, such as 'reason = timeout'.")
@click.option("--all", "everything", is_flag=True, help="Every open letter.")
@pace_options
@click.option("--reset-attempts/--keep-attempts", default=True, help="Whether attempts count from zero.")
@click.option("--max-retries", metavar="N", type=at_least(1), help="Another limit of attempts; 1 is once.")
@click.option("--to-queue", metavar="QUEUE", help="Send the jobs there instead of to their own queue.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the history.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--detach", is_flag=True, help="Leave it to the workers.")
@yes_option
@json_option
@pass_session
def command(session: Session, /, what: tuple[str, ...], dry_run: bool, detach: bool, yes: bool, as_json: bool,
            **given: Any) -> int:  # fmt: skip
    """Give letters a new epoch: groups, queues, workflows or letters by the end of their id.

    Above 20 letters it goes in stages, and a group whose cause recurs stops by itself while the others go on. What is
    not said here is as the task's own policy says.
    """
    return session.run(_retry(session, what, given, _Way(dry_run, detach, yes, as_json)))


class _Way:
    """How it is done, apart from what is done."""

    def __init__(self, dry_run: bool, detach: bool, yes: bool, as_json: bool) -> None:
        self.dry_run = dry_run
        self.detach = detach
        self.yes = yes
        self.as_json = as_json


async def _retry(session: Session, what: tuple[str, ...], given: dict[str, Any], way: _Way) -> int:
    options = _options(given, named=bool(what))
    plan_from(given["filter"], options)
    async with session.opened() as store:
        now = session.clock.now()
        plan = plan_from(await chosen(store, what, given["filter"]), options)
        preview = await _preview(store, plan, now)
        if not preview.letters:
            say(f"there are no such letters in {store.url}")
            return 0
        if way.dry_run:
            preview.tell(as_json=way.as_json)
            return 0
        if not way.yes:
            preview.show_groups()
        if not confirm(preview.said(), f"Redrive {counted(preview.taken, 'letter')}?", yes=way.yes):
            say("nothing was changed")
            return EXIT_FAULT
        redrive = await store.redrives.open(plan, actor(), given["reason"])
        if not way.detach:
            return concluded(await driven(store, session.clock, redrive.id), as_json=way.as_json)
        if way.as_json:
            emit(of_run(await report(store, session.clock, redrive.id)))
        say(f"redrive {redrive.id[-8:]} is left to the workers; `redrive redrives watch {redrive.id[-8:]}` shows it")
        return 0


def _options(given: dict[str, Any], *, named: bool) -> Options:
    stages = given["ramp"]
    return Options(
        all=given["everything"] or named,
        limit=given["limit"],
        ramp=False if given["no_ramp"] else None if stages is None else _numbers(stages),
        stop_at=False if given["no_stop"] else given["stop_at"],
        stage_timeout=given["stage_timeout"],
        rate=given["rate"],
        parallel=given["parallel"],
        judge=given["judge"],
        keep_attempts=not given["reset_attempts"],
        max_attempts=given["max_retries"],
        queue=given["to_queue"],
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(piece) for piece in text.split(",")]
    except ValueError:
        return []


class _Preview:
    """What would be touched."""

    def __init__(self, plan: Plan, letters: int, groups: list[Cause], times: tuple[int, int], now: int) -> None:
        self.letters = letters
        self.taken = min(letters, plan.limit or letters)
        self._plan = plan
        self._groups = groups
        self._times = times
        self._now = now

    @property
    def pace(self) -> Pace:
        """How it would go."""
        return pace_of(self._plan, self.taken)

    def said(self) -> str:
        """In one sentence."""
        first, last = (at_and_beside(at, self._now) for at in self._times)
        limited = f", the last {self.taken:,} of them" if self.taken < self.letters else ""
        return f"{causes_in_words(self._groups, self.letters)}{limited}; oldest {first}, newest {last}"

    def show_groups(self) -> None:
        """The biggest groups, on stderr: they are no data."""
        for group in self._groups[:SHOWN]:
            say(f"{group.count:>7,}  group {group.fingerprint[:SHORT]}  {group.title}")
        if len(self._groups) > SHOWN:
            say(f"and {counted(len(self._groups) - SHOWN, 'more group')}; --dry-run shows them all")

    def tell(self, *, as_json: bool) -> None:
        """A dry run."""
        if as_json:
            emit(self._shape())
            return
        show(self.said(), bold=True)
        rows = [[g.fingerprint[:SHORT], f"{g.count:,}", g.task, g.title] for g in self._groups]
        table(_GROUPS, rows)
        for line in self._lines():
            show(line)

    def _lines(self) -> list[str]:
        pace, stages = self.pace, self._stages()
        sizes = ", ".join(f"{n:,}" for n in stages)
        how = f"in {counted(len(stages), 'stage')} of {sizes}" if pace.stages else "at once"
        stop = "never" if pace.stop_at is None else f"at more than {pace.stop_at:.0%} that fail as before"
        lines = [f"released {how}; a group stops {stop}"]
        if self._plan.rate is not None:
            lines.append(f"it takes at least {spoken(int(self.taken / self._plan.rate * SECOND))}")
        return [*lines, "nothing was changed"]

    def _stages(self) -> list[int]:
        left, found = self.taken, list[int]()
        while left:
            size = stage_size(len(found) + 1, self.pace.stages)
            found.append(left if size is None else min(size, left))
            left -= found[-1]
        return found

    def _shape(self) -> dict[str, Any]:
        return {
            "letters": self.letters,
            "taken": self.taken,
            "groups": [{"group": g.fingerprint, "letters": g.count, "title": g.title} for g in self._groups],
            "oldest": iso(self._times[0]),
            "newest": iso(self._times[1]),
            "stages": self._stages(),
            "stop_at": self.pace.stop_at,
            "at_least": None if self._plan.rate is None else self.taken / self._plan.rate,
        }


async def _preview(store: Store, plan: Plan, now: int) -> _Preview:
    tree = meant(plan.filter, now)
    outline = await store.letters.outline(tree)
    if outline.oldest is None or outline.newest is None:
        return _Preview(plan, 0, [], (0, 0), now)
    groups = await store.letters.groups(tree, GROUPS)
    return _Preview(plan, outline.n, groups, (outline.oldest, outline.newest), now)

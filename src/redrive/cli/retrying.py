"""`redrive dlq retry`: bring letters back, carefully."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from redrive.bulk import one_answer
from redrive.cli.asking import confirm
from redrive.cli.cause import of_causes, show_causes, tell_causes
from redrive.cli.choosing import chosen
from redrive.cli.driving import causes_in_words, concluded, driven, of_run, reshaper, warned
from redrive.cli.embedded import SLOTS, Here, Left, driven_here
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.foresight import Foresight, foreseen
from redrive.cli.holding import tell_held, tell_waiting
from redrive.cli.looking import looked_over
from redrive.cli.options import Verb, at_least, filter_option, json_option, pass_session, yes_option
from redrive.cli.output import counted, emit, say, show
from redrive.cli.overriding import override_options, overrides_of
from redrive.cli.redrives import going
from redrive.cli.session import Session, actor
from redrive.cli.times import at_and_beside
from redrive.clock import iso
from redrive.errors import UsageError
from redrive.letter import Group as Cause
from redrive.ramp import Pace, stage_size
from redrive.redrives import Options, pace_of, plan_from, report
from redrive.serving import queues_of, tasks_of
from redrive.store import Plan, Redrive, Store
from redrive.triage import meant

F = TypeVar("F", bound=Callable[..., Any])


def pace_options(command: F) -> F:
    """How fast and how carefully."""
    for option in reversed(
        (
            click.option(
                "--limit",
                metavar="N",
                type=at_least(1),
                help="At most so many: those that failed last; with --order oldest first.",
            ),
            click.option(
                "--ramp", metavar="N,N,…", help="Stages; above 20 letters they are 1,5,25,125, then 5 times as many."
            ),
            click.option("--no-ramp", is_flag=True, help="Everything at once."),
            click.option("--stop-at", metavar="SHARE", help="Stop a group that recurs in more than this; 20%."),
            click.option("--no-stop", is_flag=True, help="Never stop a group by itself."),
            click.option(
                "--stage-timeout", metavar="TIME", default="10m", help="Pause when a stage is not judged by then; 10m."
            ),
            click.option("--rate", metavar="N/s", help="So many a second; also 10/m and 1000/h."),
            click.option(
                "--parallel",
                metavar="N",
                type=at_least(1),
                help="At most so many under way; with --app so many at a time (5).",
            ),
            click.option(
                "--order",
                type=click.Choice(["spread", "oldest"]),
                default="spread",
                help="spread: groups take turns, of all hosts and ages; oldest: as they failed.",
            ),
            click.option(
                "--judge",
                type=click.Choice(["first", "final"]),
                default="first",
                help="What counts as failing as before: the first attempt, or only the last one.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("retry", cls=Verb, short_help="Bring letters back in stages that stop by themselves.")
@click.argument("what", nargs=-1)
@filter_option
@click.option("--all", "everything", is_flag=True, help="Every open letter.")
@pace_options
@override_options
@click.option("--force", is_flag=True, help="Also what needs review or has expired; demands --reason.")
@click.option("--when-release", metavar="SPEC", help="Wait until a worker reports such a release, as '>= 2.4.1'.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the journal.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--detach", is_flag=True, help="Leave it to the workers.")
@click.option("--resume", metavar="ID", help="Go on with a redrive that was paused or left alone, as it was asked for.")
@yes_option
@json_option
@pass_session
def command(session: Session, /, what: tuple[str, ...], dry_run: bool, detach: bool, resume: str | None, yes: bool,
            as_json: bool, **given: Any) -> int:  # fmt: skip
    """Give letters a new epoch: groups, queues, workflows or letters by the end of their id.

    Above 20 letters it goes in stages, and a group whose cause recurs stops by itself while the others go on. What is
    not said here is as the task's own policy says: its strategy, delays, limit of attempts and timeout. --base and
    --max-delay without --strategy mean exponential; fixed and delays wait to the second. What is said here holds for
    this one epoch.

    With --app on this line the process runs the jobs itself, --parallel at a time (5): all that is ready in the queues
    of these letters, or only in that of --to-queue. Ctrl-C gives back what runs and leaves the rest.

    \b
    redrive dlq retry --filter 'reason = timeout and failed_at > -1h' --dry-run
    redrive dlq retry group:3f2a --reason "release 2.4 fixes it"
    redrive dlq retry --all --rate 50/s --detach
    """
    way = _Way(dry_run, detach, yes, as_json, here="app" in session.given and not detach, slots=given["parallel"])
    try:
        if resume is not None:
            _check_alone(what, here=way.here)
            return session.run(_resume(session, resume, way))
        return session.run(_retry(session, what, given, way))
    except Left as left:
        return left.code


@dataclass(frozen=True, slots=True)
class _Way:
    """How it is done, apart from what is done."""

    dry_run: bool
    detach: bool
    yes: bool
    as_json: bool
    here: bool  # this process runs the jobs
    slots: int | None


def _check_alone(what: tuple[str, ...], *, here: bool) -> None:
    """What was asked for stands in the redrive; only how it is shown and who runs its jobs is new."""
    context = click.get_current_context()
    typed = [name for name in context.params if _was_typed(context, name) and name not in _BESIDE_RESUME]
    if context.params["parallel"] and not here:
        raise UsageError("--parallel says here how many jobs this process runs; give --app too, or leave it out")
    if what or typed:
        flags = {name: next(iter(each.opts)) for each in context.command.params if (name := each.name)}
        words = ", ".join([*what, *(flags[name] for name in typed if name != "what")])
        raise UsageError(f"--resume goes on with what was asked for then; leave out {words}")


def _was_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


_BESIDE_RESUME = ("resume", "detach", "as_json", "yes", "parallel", "what")


async def _resume(session: Session, id: str, way: _Way) -> int:
    async with session.opened() as store:
        redrive = await going(store, id)
        tasks = await tasks_of(store, redrive.plan, session.clock.now())
        return await _watched(session, store, redrive, tasks, way)


async def _watched(session: Session, store: Store, redrive: Redrive, tasks: Collection[str], way: _Way) -> int:
    """To its end, run here or by workers; or left to them."""
    now = session.clock.now()
    if not way.here:
        await warned(store, redrive.plan, tasks, now)
    if way.detach:
        if way.as_json:
            emit(of_run(await report(store, session.clock, redrive.id)))
        say(f"redrive {redrive.id[-8:]} is left to the workers; `redrive redrives watch {redrive.id[-8:]}` shows it")
        return 0
    if way.here:
        queues = await queues_of(store, redrive.plan, now)
        here = Here(session.app(), tasks, queues, way.slots, chatty="log.level" in session.given)
        run = await driven_here(here, redrive.id)
    else:
        run = await driven(store, session.clock, redrive.id, reshaper(session, redrive.plan))
    return concluded(run, as_json=way.as_json)


async def _retry(session: Session, what: tuple[str, ...], given: dict[str, Any], way: _Way) -> int:
    one_answer("retry", all=given["everything"], some=bool(what or given["filter"].strip()))
    options = _options(given, named=bool(what))
    policies = (session.app().config if "app" in session.given else session.config).retry.named
    plan_from(given["filter"], options, policies)
    async with session.opened() as store:
        now = session.clock.now()
        plan = plan_from(await chosen(store, what, given["filter"]), options, policies)
        preview = await _preview(store, plan, now)
        if not preview.letters:
            say(f"there are no such letters in {store.url}")
            return 0
        if way.dry_run:
            preview.tell(await _foreseen(session, store, preview, way), as_json=way.as_json)
            return 0
        await tell_held(store, plan, now)
        if not way.yes:
            tell_causes(preview.groups)
        if not confirm(preview.said(), f"Redrive {counted(preview.taken, 'letter')}?", yes=way.yes):
            say("nothing was changed")
            return EXIT_FAULT
        redrive = await store.redrives.open(plan, actor(), given["reason"])
        tell_waiting(redrive)
        return await _watched(session, store, redrive, preview.tasks, way)


def _options(given: dict[str, Any], *, named: bool) -> Options:
    stages = given["ramp"]
    for one, other in (("ramp", "no_ramp"), ("stop_at", "no_stop")):
        if given[one] is not None and given[other]:
            flags = (f"--{name.replace('_', '-')}" for name in (one, other))
            raise UsageError(f"{' and '.join(flags)} exclude each other; give one of them")
    return Options(
        all=given["everything"] or named,
        limit=given["limit"],
        ramp=False if given["no_ramp"] else None if stages is None else _numbers(stages),
        stop_at=False if given["no_stop"] else given["stop_at"],
        stage_timeout=given["stage_timeout"],
        rate=given["rate"],
        parallel=given["parallel"],
        judge=given["judge"],
        order=given["order"],
        **overrides_of(given),
        reason=given["reason"],
        force=given["force"],
        when_release=given["when_release"],
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
        self.plan = plan
        self.groups = groups
        self._times = times
        self._now = now

    @property
    def tasks(self) -> set[str]:
        """The tasks of its jobs."""
        return {group.task for group in self.groups}

    @property
    def pace(self) -> Pace:
        """How it would go."""
        return pace_of(self.plan, self.taken)

    def said(self) -> str:
        """In one sentence."""
        first, last = (at_and_beside(at, self._now) for at in self._times)
        which = "oldest" if self.plan.order == "oldest" else "last"
        limited = f", the {which} {self.taken:,} of them" if self.taken < self.letters else ""
        return f"{causes_in_words(self.groups, self.letters)}{limited}; oldest {first}, newest {last}"

    def tell(self, foresight: Foresight, *, as_json: bool) -> None:
        """A dry run."""
        if as_json:
            emit(self._shape() | foresight.shape())
            return
        show(self.said(), bold=True)
        show_causes(self.groups)
        for line in (self._how(), *foresight.lines(), "nothing was changed"):
            show(line)

    def _how(self) -> str:
        pace, stages = self.pace, self.stages()
        sizes = ", ".join(f"{n:,}" for n in stages)
        how = f"in {counted(len(stages), 'stage')} of {sizes}" if pace.stages else "at once"
        if pace.stop_at is None:
            return f"released {how}; no group stops by itself"
        return f"released {how}; a group stops at more than {pace.stop_at * 100:g}% that fail as before"

    def stages(self) -> list[int]:
        """How many letters each would release."""
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
            "groups": of_causes(self.groups),
            "oldest": iso(self._times[0]),
            "newest": iso(self._times[1]),
            "stages": self.stages(),
            "stop_at": self.pace.stop_at,
            "at_least": None if self.plan.rate is None else self.taken / self.plan.rate,
        }


async def _foreseen(session: Session, store: Store, preview: _Preview, way: _Way) -> Foresight:
    plan, now = preview.plan, session.clock.now()
    return await foreseen(
        store,
        plan,
        preview.groups,
        (preview.letters, preview.taken),
        preview.stages(),
        reshaper(session, plan),
        now=now,
        slots=(way.slots or SLOTS) if way.here else None,
    )


async def _preview(store: Store, plan: Plan, now: int) -> _Preview:
    tree = meant(plan.filter, now)
    survey = await looked_over(store, tree)
    if survey.oldest is None or survey.newest is None:
        return _Preview(plan, 0, [], (0, 0), now)
    return _Preview(plan, survey.letters, survey.groups, (survey.oldest, survey.newest), now)

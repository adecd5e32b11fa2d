"""A redrive from its plan to its end: frozen, released in stages, watched, and ended with a report.

All that it knows stands in the store, so that whoever comes next goes on where another one was killed, and several may
drive the same one at once.
"""

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from redrive.backoff import Backoff
from redrive.clock import SECOND, Clock, Duration, micros
from redrive.edits import check_patch, check_settings
from redrive.errors import NotFound, UsageError
from redrive.job import name_of, priority_of
from redrive.limits import Limits
from redrive.overrides import overrides
from redrive.ramp import FIRST_STAGES, Cause, Pace, Step, next_step
from redrive.releases import release_wanted
from redrive.reshaping import Reshape, Reshaper
from redrive.retry import Retry
from redrive.store import Given, Pattern, Plan, Redrive, Stage, Store, Tally
from redrive.waiting import begin

if TYPE_CHECKING:
    from redrive.app import Redrive as App

CHUNK = 2_000
"""So many letters are frozen or released in one transaction."""

RESHAPED = 500
"""The same where each is given another payload."""

CAREFUL_ABOVE = 20
"""With more letters than this a redrive goes in stages and stops by itself, unless it was asked otherwise."""

STOP_AT = 0.2
NO_POLICIES: Mapping[str, Mapping[str, Any]] = {}
PLAIN = Reshaper()
LOOK = 100_000
"""Microseconds between two looks at what is under way."""

ITSELF = "redriver"
"""Who acts when a redrive stops, pauses or finishes by itself."""


# planning -------------------------------------------------------------------------------------------------------------


class Options(TypedDict, total=False):
    """How a redrive is asked for; every one may be left out."""

    reason: str
    actor: str
    all: bool  # every open letter, when no filter is given
    limit: int | None
    ramp: Sequence[int] | bool | None  # stages, or False for everything at once
    stop_at: float | str | bool | None  # a share such as 0.2 or "20%", or False for never
    stage_timeout: Duration
    rate: float | str | None  # such as "50/s"
    parallel: int | None
    judge: Literal["first", "final"]
    keep_attempts: bool
    max_attempts: int | None
    strategy: str | Backoff | Retry | None  # exponential, linear, fixed, immediate, delays, or the name of a policy
    base: Duration | None  # its first delay; of delays all of them: "5,30,120"
    max_delay: Duration | None
    timeout: Duration | None
    queue: str | None
    priority: int | str | None
    order: Literal["spread", "oldest"]
    set: Sequence[str] | str  # values at places of each payload: "payload.limit=5"
    patch: Sequence[Any] | None  # a JSON Patch of each payload
    force: bool  # also letters that need review, and jobs that have expired; demands a reason
    when_release: str | None  # such as ">= 2.4.1": wait until a worker reports such a release
    wait: bool  # False: leave it to the workers


def plan_from(filter: str, options: Options, policies: Mapping[str, Mapping[str, Any]] = NO_POLICIES) -> Plan:
    """The plan that was asked for, or one sentence about what is wrong with it; `policies` are those with a name."""
    if not filter.strip() and not options.get("all"):
        raise UsageError("without a filter every open letter would be redriven; give one, or say all=True (--all)")
    judge, order = options.get("judge", "first"), options.get("order", "spread")
    if judge not in ("first", "final"):
        raise UsageError(f"judge={judge!r} is unknown; there are first and final")
    if order not in ("spread", "oldest"):
        raise UsageError(f"order={order!r} is unknown; there are spread and oldest")
    queue, priority, patch = options.get("queue"), options.get("priority"), options.get("patch")
    if options.get("force") and not options.get("reason", "").strip():
        raise UsageError("force brings back what needs a person; say why with reason= (--reason)")
    return Plan(
        filter=filter,
        limit=_least("limit", options.get("limit")),
        stages=_stages(options.get("ramp")),
        stop_at=_share(options.get("stop_at")),
        stage_timeout=_pause(options.get("stage_timeout", 600)),
        rate=_rate(options.get("rate")),
        parallel=_least("parallel", options.get("parallel")),
        judge=judge,
        keep_attempts=options.get("keep_attempts", False),
        max_attempts=_least("max_attempts", options.get("max_attempts")),
        queue=None if queue is None else _queue(queue),
        limits=_limits(options, policies),
        priority=None if priority is None else priority_of(priority),
        order=order,
        settings=_settings(options),
        patch=None if patch is None else check_patch(list(patch) if isinstance(patch, tuple) else patch),
        force=bool(options.get("force")),
        when_release=release_wanted(options.get("when_release")),
    )


def _limits(options: Options, policies: Mapping[str, Mapping[str, Any]]) -> Limits | None:
    how = (options.get("strategy"), options.get("base"), options.get("max_delay"), options.get("timeout"))
    return overrides(*how, policies)


def _settings(options: Options) -> tuple[str, ...]:
    given = options.get("set") or ()
    settings = (given,) if isinstance(given, str) else given
    if settings and options.get("patch") is not None:
        raise UsageError("set and patch exclude each other; give one of them")
    return check_settings(settings)


def _queue(name: str) -> str:
    try:
        return name_of(name)
    except ValueError as error:
        raise UsageError(f"queue={name!r} is wrong: {error}") from None


def _least(name: str, number: int | None) -> int | None:
    if number is not None and number < 1:
        raise UsageError(f"{name}={number} is too small; 1 is the least")
    return number


def _pause(timeout: Duration) -> int:
    try:
        length = micros(timeout)
    except ValueError as error:
        raise UsageError(f"stage_timeout={timeout!r} is wrong: {error}") from None
    if length <= 0:
        raise UsageError(f"stage_timeout={timeout!r} leaves no time for a verdict; write more than zero")
    return length


def _stages(ramp: Sequence[int] | bool | None) -> tuple[int, ...] | None:
    if ramp is None:
        return None
    if isinstance(ramp, bool):
        return FIRST_STAGES if ramp else ()
    if not ramp or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in ramp):
        raise UsageError(f"ramp={ramp!r} has no stages; write whole numbers of at least 1, such as 1,5,25,125")
    return tuple(ramp)


def _share(stop_at: float | str | bool | None) -> float | Literal["never"] | None:
    if stop_at is None or stop_at is True:
        return None
    if stop_at is False:
        return "never"
    text = str(stop_at).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"stop_at={stop_at!r} is no share between 0 and 1; write 0.2 or 20%")
    return share


_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|sec|m|min|h)")
_PER = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600}


def _rate(rate: float | str | None) -> float | None:
    if rate is None:
        return None
    match = _RATE.fullmatch(rate.strip().lower()) if isinstance(rate, str) else None
    number = float(match[1]) / _PER[match[2]] if match else 0.0 if isinstance(rate, str) else float(rate)
    if not number > 0:
        raise UsageError(f"rate={rate!r} is no rate; write 50/s, 10/m or 1000/h")
    return number


def pace_of(plan: Plan, total: int) -> Pace:
    """How fast a redrive of so many letters goes: carefully when there are many, unless it was asked otherwise."""
    careful = total > CAREFUL_ABOVE
    stages = (FIRST_STAGES if careful else ()) if plan.stages is None else plan.stages
    share = (STOP_AT if careful else None) if plan.stop_at is None else plan.stop_at
    return Pace(stages, None if share == "never" else share, plan.stage_timeout)


# driving --------------------------------------------------------------------------------------------------------------


async def drive(store: Store, clock: Clock, id: str, reshape: Reshape = PLAIN) -> int | None:
    """One step of a redrive; answers how many microseconds to rest, None when there is nothing more to do for it."""
    redrive = await store.redrives.get(id)
    if redrive is None:
        raise NotFound(f"there is no redrive {id} in {store.url}")
    if redrive.state == "freezing":
        return await _freeze(store, redrive)
    if redrive.state == "waiting":
        return await begin(store, redrive)
    return await _go(store, clock, redrive, reshape) if redrive.state == "running" else None


async def _freeze(store: Store, redrive: Redrive) -> int | None:
    """A filter that cannot be answered for some payload would be asked for ever."""
    try:
        await store.redrives.freeze(redrive.id, CHUNK)
    except UsageError as error:
        paused = await store.redrives.change(redrive.id, redrive.version, "paused", ITSELF, str(error))
        return None if paused else 0
    return 0


async def _go(store: Store, clock: Clock, redrive: Redrive, reshape: Reshape) -> int | None:
    tallies = await store.redrives.tally(redrive.id)
    pace = pace_of(redrive.plan, redrive.total)
    stopped = frozenset(tally.cause for tally in tallies if tally.stopped is not None)
    causes = {tally.cause: _cause(tally) for tally in tallies}
    step = next_step(pace, causes, redrive.stage, stopped, clock.now() - redrive.stage_at)
    if step.stopped > stopped:
        await store.redrives.stop(redrive.id, sorted(step.stopped - stopped), ITSELF)
    if redrive.stage_left:
        return await _release(store, redrive, Step(step.action, redrive.stage, redrive.stage_left), reshape)
    if step.action == "release":
        return await _release(store, redrive, step, reshape)
    if step.action == "pause":
        return await _pause_it(store, redrive)
    if step.action == "wait" or any(tally.running for tally in tallies):
        return LOOK
    return None if await store.redrives.change(redrive.id, redrive.version, "finished", ITSELF) else 0


async def _release(store: Store, redrive: Redrive, step: Step, reshape: Reshape) -> int | None:
    given: list[Given] = []
    if redrive.plan.reshapes:
        due = await store.redrives.due(redrive.id, step.stage, step.count, RESHAPED)
        given = [reshape(redrive.plan, each) for each in due]
    limit = RESHAPED if redrive.plan.reshapes else CHUNK
    chunk = await store.redrives.release(redrive.id, step.stage, step.count, limit, given)
    if chunk.released or chunk.skipped:
        return 0
    stuck = step.action == "pause" and redrive.plan.rate is None
    return await _pause_it(store, redrive) if stuck else LOOK


async def _pause_it(store: Store, redrive: Redrive) -> int | None:
    minutes = redrive.plan.stage_timeout / SECOND / 60
    why = f"stage {redrive.stage} has had no verdict for {minutes:g} min; see that workers run, then resume it"
    paused = await store.redrives.change(redrive.id, redrive.version, "paused", ITSELF, why)
    return None if paused else 0


def _cause(tally: Tally) -> Cause:
    """What the stopping rule looks at: first answers only, and nothing of what was never released."""
    return Cause(tally.released, tally.passed, tally.relapsed, tally.strayed, tally.dropped, tally.left)


async def driven(store: Store, clock: Clock, id: str, reshape: Reshape = PLAIN) -> None:
    """Drive a redrive until it has ended or is paused, beside whoever else does."""
    while (rest := await drive(store, clock, id, reshape)) is not None:  # noqa: ASYNC110 - others change it
        await asyncio.sleep(rest / SECOND)


# the report -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """How a redrive stands, or how it ended."""

    redrive: Redrive
    causes: tuple[Tally, ...]
    stages: tuple[Stage, ...]
    patterns: tuple[Pattern, ...]
    now: int

    @property
    def id(self) -> str:
        """The redrive's id."""
        return self.redrive.id

    @property
    def state(self) -> str:
        """freezing, waiting, running, paused, finished or cancelled."""
        return self.redrive.state

    @property
    def total_items(self) -> int:
        """How many letters are in it."""
        return self.redrive.total

    @property
    def successful(self) -> int:
        """How many jobs have finished."""
        return sum(cause.succeeded for cause in self.causes)

    @property
    def failed(self) -> int:
        """How many died again."""
        return sum(cause.recurred + cause.otherwise for cause in self.causes)

    @property
    def skipped(self) -> int:
        """How many were not brought back, or were discarded afterwards; `skips` says why."""
        return sum(cause.skipped + cause.discarded for cause in self.causes)

    @property
    def ended(self) -> int:
        """How many are over, whichever way."""
        return self.successful + self.failed + self.skipped

    @property
    def running(self) -> int:
        """How many are released and have not ended."""
        return sum(cause.running for cause in self.causes)

    @property
    def left(self) -> int:
        """How many are still dead and untouched."""
        return sum(cause.left for cause in self.causes)

    @property
    def stopped(self) -> tuple[Tally, ...]:
        """The causes that recurred, so that no more of them was released."""
        return tuple(cause for cause in self.causes if cause.stopped is not None)

    @property
    def duration(self) -> float:
        """Seconds from its opening to its end, or until now."""
        return ((self.redrive.ended_at or self.now) - self.redrive.opened_at) / SECOND

    @property
    def skips(self) -> dict[str, int]:
        """Why letters were skipped, and how many."""
        return {each.why: each.n for each in self.patterns if each.state in ("skipped", "discarded")}

    @property
    def error_patterns(self) -> tuple[Pattern, ...]:
        """Of what jobs died again, most of them first; `recurred` as before, `otherwise` of something new."""
        return tuple(each for each in self.patterns if each.state in ("recurred", "otherwise"))


async def report(store: Store, clock: Clock, id: str) -> Run:
    """How a redrive stands."""
    redrive = await store.redrives.get(id)
    if redrive is None:
        raise NotFound(f"there is no redrive {id} in {store.url}")
    causes = await store.redrives.tally(id)
    stages, patterns = await store.redrives.stages(id), await store.redrives.patterns(id)
    return Run(redrive, tuple(causes), tuple(stages), tuple(patterns), clock.now())


async def run(app: "App", filter: str, options: Options) -> Run:
    """Open a redrive from code, and drive it to its end unless the workers are to."""
    plan = plan_from(filter, options, app.config.retry.named)
    store = await app.opened()
    actor = options.get("actor") or f"app@{socket.gethostname()}"
    redrive = await store.redrives.open(plan, actor, options.get("reason", ""))
    if options.get("wait", True):
        await driven(store, app.clock, redrive.id, Reshaper(app))
    return await report(store, app.clock, redrive.id)

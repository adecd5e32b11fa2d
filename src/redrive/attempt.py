"""One attempt: started -> resolve task -> open scope -> run -> outcome -> classify -> decide -> settlement.

Nothing here raises: whatever a handler, a payload or a policy does, a settlement comes back.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from redrive import autopsy, calls
from redrive import job as jobs
from redrive.clock import SECOND, spoken
from redrive.context import Context, current_context
from redrive.errors import BadArguments, Discard, RedriveError, Snooze
from redrive.evidence import essence, is_a
from redrive.job import Job
from redrive.letter import Failure
from redrive.outcome import Crashed, Failed, Interrupted, Lost, Outcome, Succeeded
from redrive.reasons import Verdict, classify
from redrive.retry import Drop, GiveUp, RetryAt, attempts_of, decide, decide_loss, limits_of
from redrive.runners.deadlines import Expiring, deadlines
from redrive.runners.loop import run_on_loop
from redrive.runners.process import Died, Reply, StartFailed, TimedOut
from redrive.store import AnySettlement, Buried, Discarded, Done, Released, Retried, Snoozed

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.runners.process import ChildPool
    from redrive.runners.thread import ThreadRunner
    from redrive.task import Task

SUSPECT_RUNS = 3
UNKNOWN_TASK_DELAY = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs an attempt."""

    worker: str
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)


@dataclass(slots=True)
class Bench:
    """What an attempt finds in the process that runs it."""

    app: "Redrive"
    identity: Identity
    state: Any = None
    threads: "ThreadRunner | None" = None
    children: "ChildPool | None" = None
    parent: Callable[[float], None] | None = None
    """In a child process: asks the parent, who keeps the deadline, to move it to so many seconds from now."""


@dataclass(slots=True)
class Trial:
    """An attempt under way."""

    bench: Bench
    job: Job
    started: int
    task: "Task[..., Any] | None" = None
    call: Callable[[], Any] | None = None


async def attempt(bench: Bench, job: Job) -> AnySettlement:
    """Run a job once and answer what follows from it."""
    trial = start(bench, job)
    try:
        misfit = resolve(trial)
        if misfit is not None:
            return await set_aside(trial, misfit)
        if runs_apart(trial):
            return await run_apart(trial)
        return conclude(trial, await run_here(trial))
    except asyncio.CancelledError as error:
        return conclude(trial, Interrupted(str(error) or "stopped"))
    except BaseException as error:  # noqa: BLE001 - a fault of ours is a failure of the attempt, never a lost job
        return conclude(trial, Failed(error))


def start(bench: Bench, job: Job) -> Trial:
    """The attempt begins."""
    if bench.app.events.wanted("job.started"):
        bench.app.events.emit("job.started", job, attempt=job.attempts + 1, limit=attempts_of(job))
    return Trial(bench, job, bench.app.clock.steady())


def resolve(trial: Trial) -> Failure | None:
    """Find the handler and bind the payload to it, or say as a failure why this worker cannot."""
    job = trial.job
    trial.task = trial.bench.app.registry.get(job.task)
    if trial.task is None:
        return _bare(trial, "unknown_task", "UnknownTask", f"no live worker knows a task named {job.task!r}")
    try:
        args, kwargs = trial.task.bind(job.payload)
    except BadArguments as error:
        return _bare(trial, "validation", "BadArguments", f"the payload does not fit: {error}")
    trial.call = partial(trial.task.function, *args, **kwargs)
    return None


async def set_aside(trial: Trial, misfit: Failure) -> AnySettlement:
    """Give back what this worker has no handler for; bury it once its grace is over and nobody knows it."""
    app, job = trial.bench.app, trial.job
    store = await app.opened()
    now = app.clock.now()
    record = await store.jobs.get(job.id)
    since = (record.unknown_since if record else None) or now
    known = misfit.reason == "unknown_task" and any(job.task in worker.tasks for worker in await store.workers.find())
    if not known and now - since >= app.config.unknown_task_grace:
        return Buried(job=job, failure=misfit, ran=False, spend=0, why=f"not retryable ({misfit.reason})")
    return Released(job=job, at=now + UNKNOWN_TASK_DELAY, why=misfit.message, unknown_task=True, ran=False)


# run ----------------------------------------------------------------------------------------------------------------


def runs_apart(trial: Trial) -> bool:
    """Whether the handler runs in a child process: because its task says so, or the job is a suspect."""
    assert trial.task is not None
    return trial.bench.children is not None and (trial.job.suspect > 0 or trial.task.options.isolation == "process")


async def run_here(trial: Trial) -> Outcome:
    """Run the handler on this loop or in a thread of this process, within its scope and its deadline."""
    scope = open_scope(trial)
    hooks = trial.bench.app.hooks
    if not hooks.has_around_attempt:
        return await run_handler(trial, scope)
    surrounded = partial(hooks.around_attempt, scope.context, partial(_returned, trial, scope))
    return await run_on_loop(surrounded, None)


async def run_handler(trial: Trial, scope: "Scope") -> Outcome:
    """Run the handler itself where its kind wants to run."""
    task, call = trial.task, trial.call
    assert task is not None
    assert call is not None
    seconds = scope.seconds
    token = current_context.set(scope.context)
    try:
        if task.runs_on_loop:
            return await run_on_loop(call, seconds, opened=scope.opened)
        assert trial.bench.threads is not None
        return await trial.bench.threads.run(call, seconds, opened=scope.opened)
    finally:
        current_context.reset(token)


async def _returned(trial: Trial, scope: "Scope") -> object:
    """The handler as hooks see it: it returns or raises."""
    match await run_handler(trial, scope):
        case Succeeded(result):
            return result
        case Failed(error):
            raise error
        case other:
            raise asyncio.CancelledError(other.why if isinstance(other, Interrupted) else str(other))


class Scope:
    """What surrounds a handler: its context and a deadline that it can move."""

    __slots__ = ("_loop", "_parent", "_run", "clock", "context", "seconds")

    def __init__(self, trial: Trial, limit: int) -> None:
        self.clock = trial.bench.app.clock
        self._parent = trial.bench.parent
        self.seconds = None if self._parent else limit / SECOND
        self.context = Context(trial.job, self.clock.now() + limit, trial.bench.state, self.extend)
        self._loop = asyncio.get_running_loop()
        self._run: Expiring | None = None

    def opened(self, run: Expiring) -> None:
        """The handler has begun, and this is what its deadline hangs on."""
        self._run = run

    def extend(self, duration: int) -> None:
        """Move the deadline, from whichever thread the handler is in."""
        self.context.deadline = self.clock.now() + duration
        if self._parent is not None:
            self._parent(duration / SECOND)
        elif self._run is not None:
            self._loop.call_soon_threadsafe(deadlines().add, self._run, duration / SECOND)


def open_scope(trial: Trial) -> Scope:
    """The scope of this attempt, its deadline by the job, its task or the configuration."""
    return Scope(trial, time_limit(trial))


def time_limit(trial: Trial) -> int:
    """How long the handler may run, in microseconds."""
    assert trial.task is not None
    limits = limits_of(trial.job.policy)
    return limits.timeout or trial.task.options.timeout or trial.bench.app.config.worker.timeout


async def run_apart(trial: Trial) -> AnySettlement:
    """Run the handler in a child process; the child decides what follows unless it dies or is killed."""
    children, task, job = trial.bench.children, trial.task, trial.job
    assert children is not None
    assert task is not None
    answer = await children.run(
        calls.encode(job),
        timeout=time_limit(trial) / SECOND,
        memory=task.options.memory,
        alone=job.suspect > 0,
    )
    match answer:
        case Reply(frame):
            return calls.decode_settlement(frame, job)
        case Died(outcome):
            return conclude(trial, outcome)
        case TimedOut(limit):
            return conclude(
                trial, Failed(TimeoutError(f"ran longer than its limit of {spoken(round(limit * SECOND))}"))
            )
        case StartFailed(sentence):
            return conclude(trial, Failed(ChildNotStarted(sentence)))
    return conclude(trial, answer)


# outcome -> classify -> decide -> settlement --------------------------------------------------------------------------


def conclude(trial: Trial, outcome: Outcome) -> AnySettlement:
    """What follows from how the attempt ended."""
    job, now = trial.job, trial.bench.app.clock.now()
    duration = trial.bench.app.clock.steady() - trial.started
    match outcome:
        case Succeeded(result):
            return Done(job=job, duration=duration, result=_kept(result))
        case Failed(error):
            return _asked(trial, essence(error), now, duration) or _failed(trial, error, now, duration)
        case Interrupted(why):
            return Released(job=job, duration=duration, at=now, why=why)
        case Crashed():
            return _crashed(trial, outcome, now, duration)
        case Lost(cause):
            return suspected(trial, cause, now)


def _kept(result: object) -> bytes | None:
    """A result that can be kept, else nothing: the job is done all the same."""
    if result is None:
        return None
    try:
        return jobs.encode(result, limit=jobs.RESULT_LIMIT, what="the result")
    except RedriveError:
        return None


def _asked(trial: Trial, signal: BaseException, now: int, duration: int) -> AnySettlement | None:
    """What the handler asked for by what it raised; None if it only failed."""
    if is_a(signal, Snooze):
        return Snoozed(job=trial.job, duration=duration, until=now + signal.delay, why=str(signal))
    if is_a(signal, Discard):
        return Discarded(job=trial.job, duration=duration, reason="discarded", why=signal.message)
    return None


def _failed(trial: Trial, error: BaseException, now: int, duration: int) -> AnySettlement:
    job, app = trial.job, trial.bench.app
    verdict = judge(trial, error)
    failure = _examined(trial, error, verdict, now, duration)
    policy = trial.task.policy if trial.task else app.policy_named(None)
    match decide(policy, job, verdict, error, now, app.random):
        case RetryAt(at, note):
            return Retried(job=job, duration=duration, at=at, failure=failure, note=note)
        case Drop(reason, note):
            return Discarded(job=job, duration=duration, reason=reason, why=failure.message, note=note)
        case GiveUp(why, note):
            return Buried(job=job, duration=duration, failure=failure, why=why, note=note)


def judge(trial: Trial, error: BaseException) -> Verdict:
    """What kind of failure this is."""
    app = trial.bench.app
    return classify(error, app.rules, app.classify, now=app.clock.now())


def _crashed(trial: Trial, crash: Crashed, now: int, duration: int) -> AnySettlement:
    """The job ran alone and its process died of it: a crash is counted, no attempt."""
    job = trial.job
    failure = _bare(trial, "crashed", "ProcessDied", f"its process died: {crash.cause}", crash)
    match decide_loss(job, "crashed", now, trial.bench.app.random):
        case RetryAt(at):
            return Retried(job=job, duration=duration, at=at, failure=failure, spend=0, crashed=1, suspect=1)
        case GiveUp(why) | Drop(why):
            return Buried(job=job, duration=duration, failure=failure, spend=0, crashed=1, why=why)


def suspected(trial: Trial, cause: str, now: int) -> AnySettlement:
    """The job was in a process that ended: it runs next alone, which costs nothing the first times."""
    job = trial.job
    if job.suspect < SUSPECT_RUNS:
        return Released(job=job, at=now, why=cause, suspect=job.suspect + 1, ran=False)
    failure = _bare(trial, "lost", "WorkerLost", cause)
    match decide_loss(job, "lost", now, trial.bench.app.random):
        case RetryAt(at):
            return Retried(job=job, at=at, failure=failure, lost=1, suspect=SUSPECT_RUNS, ran=False)
        case GiveUp(why) | Drop(why):
            return Buried(job=job, failure=failure, lost=1, ran=False, why=why)


class ChildNotStarted(Exception):
    """The child process for an isolated job could not get ready."""


def _examined(trial: Trial, error: BaseException, verdict: Verdict, now: int, duration: int) -> Failure:
    return autopsy.examine(error, verdict=verdict, **_circumstances(trial, now, duration))


def _bare(trial: Trial, reason: str, kind: str, message: str, crash: Crashed | None = None) -> Failure:
    """A failure without an exception."""
    now = trial.bench.app.clock.now()
    duration = trial.bench.app.clock.steady() - trial.started
    return autopsy.minimal(
        reason=reason, type=kind, message=message, cause=_cause(crash), **_circumstances(trial, now, duration)
    )


def _cause(crash: Crashed | None) -> str | None:
    if crash is None:
        return None
    memory = f", last seen with {crash.memory / 1024**2:.0f} MiB" if crash.memory else ""
    return f"{crash.cause}{memory}\n{crash.stderr}".strip()


def _circumstances(trial: Trial, now: int, duration: int) -> dict[str, Any]:
    bench = trial.bench
    return {
        "job": trial.job,
        "at": now,
        "duration": duration,
        "host": bench.identity.host,
        "process": bench.identity.process,
        "worker": bench.identity.worker,
        "release": bench.app.release,
    }

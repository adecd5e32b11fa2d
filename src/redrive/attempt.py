"""One attempt: started -> resolve task -> open scope -> run -> outcome -> classify -> decide -> settlement.

Nothing here raises: whatever a handler, a payload or a policy does, a settlement comes back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from redrive import calls
from redrive.autopsy import TRACEBACK_LIMIT
from redrive.bench import Bench, Settled, Trial
from redrive.clock import SECOND
from redrive.conclusion import WHY_LIMIT, bare, concluded, told
from redrive.context import current_context
from redrive.errors import BadArguments, StoreError
from redrive.failpoints import reached
from redrive.job import Job
from redrive.letter import Failure
from redrive.outcome import Crashed, Failed, Interrupted, Lost, Outcome, Succeeded
from redrive.redact import said, shortened
from redrive.retry import attempts_of, limits_of
from redrive.runners.deadlines import too_long
from redrive.runners.loop import run_on_loop
from redrive.runners.process import Died, Reply, StartFailed, TimedOut
from redrive.scope import Scope
from redrive.store import AnySettlement, Buried, Released

if TYPE_CHECKING:
    from redrive.store import Worker
    from redrive.task import Task

ASIDE_SHORTEST = 5 * SECOND
ASIDE_LONGEST = 60 * SECOND


class Waited:
    """An attempt in a task that waits for its end, and then tells what follows from it."""

    __slots__ = ("_bench", "_job", "_settled", "_task")

    def __init__(self, bench: Bench, job: Job, settled: Settled) -> None:
        self._bench = bench
        self._job = job
        self._settled = settled
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start it."""
        self._task = asyncio.create_task(self._run())

    def cancel(self, why: str) -> None:
        """Let it end."""
        if self._task is not None:
            self._task.cancel(why)

    async def _run(self) -> None:
        self._settled(self, await attempt(self._bench, self._job))


async def attempt(bench: Bench, job: Job) -> AnySettlement:
    """Run a job once and answer what follows from it."""
    trial = Trial(bench, job, bench.app.clock.steady())
    try:
        misfit = resolve(trial)
        if misfit is not None:
            return await set_aside(trial, misfit)
        announce_start(trial)
        if runs_apart(trial):
            return await run_apart(trial)
        outcome = await run_here(trial)
    except asyncio.CancelledError as error:
        outcome = Interrupted(said(error) or "stopped")
    except BaseException as error:  # noqa: BLE001 - a fault of ours is a failure of the attempt, never a lost job
        outcome = Failed(error)
    return concluded(trial, outcome)


def resolve(trial: Trial) -> Failure | None:
    """Find the handler and bind the payload to it, or say as a failure why this worker cannot."""
    job = trial.job
    task = trial.task = trial.task or trial.bench.app.registry.get(job.task)
    if task is None:
        return bare(trial, "unknown_task", "UnknownTask", f"no task named {job.task!r} is known here")
    try:
        args, kwargs = task.bind(job.payload)
    except BadArguments as error:
        return bare(trial, "unknown_task", "BadArguments", f"the payload does not fit here: {error}")
    trial.call = partial(task.function, *args, **kwargs)
    return None


def announce_start(trial: Trial) -> None:
    """The handler is about to begin."""
    events, job = trial.bench.app.events, trial.job
    if events.wanted("job.started"):
        events.emit("job.started", job, attempt=job.attempts + 1, limit=attempts_of(job))


# set aside ----------------------------------------------------------------------------------------------------------


async def set_aside(trial: Trial, misfit: Failure) -> AnySettlement:
    """Give back what this worker cannot run; bury it once nobody alive could run it for the whole of its grace."""
    app, job, now = trial.bench.app, trial.job, trial.bench.app.clock.now()
    waits = partial(Released, job=job, why=shortened(misfit.message, WHY_LIMIT), ran=False, suspect=job.suspect)
    if trial.bench.parent is not None:  # a child whose code is newer than its parent's: the parent judges
        return waits(at=now, unknown_task=True)
    try:
        store = await app.opened()
        record = await store.jobs.get(job.id)
        able = any(could_run(worker, trial) for worker in await store.workers.find())
    except StoreError:  # what cannot be asked now is asked at the next claim
        return waits(at=now + ASIDE_SHORTEST, unknown_task=True)
    since = (record.unknown_since if record else None) or now
    if not able and now - since >= app.config.unknown_task_grace:
        return Buried(job=job, failure=misfit, ran=False, spend=0, why=f"not retryable ({misfit.reason})")
    delay = min(max((now - since) // 4, ASIDE_SHORTEST), ASIDE_LONGEST)
    return waits(at=now + delay, unknown_task=not able)


def could_run(worker: "Worker", trial: Trial) -> bool:
    """Whether another worker knows the task and serves the queue; one of the same code is no better than this one."""
    job, bench = trial.job, trial.bench
    if worker.id == bench.identity.worker or job.task not in worker.tasks:
        return False
    if worker.queues and job.queue not in worker.queues:
        return False
    return trial.task is None or worker.release != bench.app.release


# run ----------------------------------------------------------------------------------------------------------------


def runs_apart(trial: Trial) -> bool:
    """Whether the handler runs in a child process: because its task says so, or the job is a suspect."""
    assert trial.task is not None
    return trial.bench.children is not None and (trial.job.suspect > 0 or trial.task.options.isolation == "process")


async def run_here(trial: Trial) -> Outcome:
    """Run the handler on this loop or in a thread of this process, within its scope and its deadline."""
    scope = Scope(trial, time_limit(trial))
    token = current_context.set(scope.context)
    try:
        hooks = trial.bench.app.hooks
        if not hooks.has_around_attempt:
            return await run_handler(trial, scope)
        surrounded = partial(hooks.around_attempt, scope.context, partial(_returned, trial, scope))
        return await run_on_loop(surrounded, scope.whole, listed=trial.bench.left, opened=scope.opened)
    finally:
        scope.close()
        current_context.reset(token)


async def run_handler(trial: Trial, scope: "Scope") -> Outcome:
    """Run the handler itself where its kind wants to run."""
    task, call, bench = trial.task, trial.call, trial.bench
    assert task is not None
    assert call is not None
    reached("handler.mid.before")
    if task.runs_on_loop:
        outcome = await run_on_loop(_awaited(task, call), scope.seconds, listed=bench.left, opened=scope.began)
    else:
        assert bench.threads is not None
        outcome = await bench.threads.run(partial(_plain, call), scope.seconds, opened=scope.began)
    reached("handler.end.before")
    reached("handler.end")
    return outcome


def _awaited(task: "Task[..., Any]", call: Callable[[], Any]) -> Callable[[], Awaitable[object]]:
    """A plain wrapper round a coroutine function may also answer at once."""
    if task.is_coroutine:
        return call

    async def called() -> object:
        answer = call()
        return await answer if isinstance(answer, Awaitable) else answer

    return called


def _plain(call: Callable[[], Any]) -> object:
    answer = call()
    if asyncio.iscoroutine(answer):
        answer.close()
        raise TypeError("the handler is a plain function that returned a coroutine, which nobody awaits; use async def")
    return answer


async def _returned(trial: Trial, scope: "Scope") -> object:
    """The handler as hooks see it: it returns or raises."""
    match await run_handler(trial, scope):
        case Succeeded(result):
            return result
        case Failed(error):
            raise error
        case Interrupted(why):
            raise asyncio.CancelledError(why)
        case other:
            raise AssertionError(f"a handler of this process cannot end as {other}")


def time_limit(trial: Trial) -> int:
    """How long the handler may run, in microseconds: by the job, its task or the configuration."""
    assert trial.task is not None
    limits = limits_of(trial.job.policy)
    return limits.timeout or trial.task.options.timeout or trial.bench.app.config.worker.timeout


async def run_apart(trial: Trial) -> AnySettlement:
    """Run the handler in a child process; the child decides what follows unless it dies or is killed."""
    children, task, job = trial.bench.children, trial.task, trial.job
    assert children is not None
    assert task is not None
    answer = await children.run(
        calls.encode(job, trial.bench.app.clock.now()),
        timeout=time_limit(trial) / SECOND,
        memory=task.options.memory,
        alone=job.suspect > 0,
    )
    match answer:
        case Reply(frame):
            return await _answered(trial, calls.decode_settlement(frame, job))
        case Died(Crashed() as crash, fresh=False):  # an earlier job in that child may have broken it
            return concluded(trial, Lost(f"its process died after it had run other jobs: {crash.cause}"))
        case Died(outcome):
            return concluded(trial, outcome)
        case TimedOut(limit, memory, stderr):
            cause = told("ended at its deadline", memory, stderr)
            return concluded(trial, Failed(too_long(limit)), cause)
        case StartFailed(sentence, traceback):
            failure = bare(trial, "unavailable", "ChildNotStarted", f"its child process did not start: {sentence}")
            trace = shortened(traceback, TRACEBACK_LIMIT) or None
            return await set_aside(trial, msgspec.structs.replace(failure, traceback=trace))
    return concluded(trial, answer)


async def _answered(trial: Trial, settlement: AnySettlement) -> AnySettlement:
    if isinstance(settlement, Released) and settlement.unknown_task:
        return await set_aside(trial, bare(trial, "unknown_task", "UnknownTask", settlement.why))
    return settlement

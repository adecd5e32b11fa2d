"""What follows from how an attempt ended: outcome -> classify -> decide -> settlement. Nothing here raises."""

from typing import Any

from redrive import autopsy, results
from redrive.bench import Trial
from redrive.clock import SECOND
from redrive.errors import Discard, Snooze
from redrive.evidence import essence, is_a
from redrive.job import Job
from redrive.letter import Failure
from redrive.outcome import Crashed, Failed, Interrupted, Lost, Outcome, Succeeded
from redrive.reasons import classify
from redrive.redact import class_name, said, shortened
from redrive.retry import Drop, GiveUp, Retry, RetryAt, attempts_of, decide, decide_loss
from redrive.store import AnySettlement, Buried, Discarded, Done, Released, Retried, Snoozed

SUSPECT_RUNS = 3
"""So often a job may be found in a process that ended before that spends an attempt, in one epoch."""

WHY_LIMIT = 1_000
LAST_DELAY = 5 * SECOND


def concluded(trial: Trial, outcome: Outcome, cause: str | None = None) -> AnySettlement:
    """What follows from how the attempt ended; if even that cannot be told, a minimal failure."""
    try:
        return conclude(trial, outcome, cause)
    except BaseException as fault:  # noqa: BLE001 - the failure path cannot fail
        text = f"the attempt ended as {class_name(outcome)}, and what follows could not be decided: {class_name(fault)}"
        return _minimal(trial.job, trial.bench.app.clock.now(), text, said(fault))


def conclude(trial: Trial, outcome: Outcome, cause: str | None) -> AnySettlement:
    """What follows from how the attempt ended."""
    job, clock = trial.job, trial.bench.app.clock
    duration = clock.steady() - trial.started
    if isinstance(outcome, Succeeded):  # first, because nearly all are
        kept, note = results.kept(outcome.result)
        return Done(job=job, duration=duration, result=kept, note=note)
    now = clock.now()
    match outcome:
        case Failed(error):
            return _signalled(trial, error, now, duration) or _failed(trial, error, now, duration, cause)
        case Interrupted(why):
            return Released(job=job, duration=duration, at=now, why=why, suspect=job.suspect)
        case Crashed():
            return _crashed(trial, outcome, now, duration)
        case Lost(why):
            return suspected(trial, why, now)


def _signalled(trial: Trial, error: BaseException, now: int, duration: int) -> AnySettlement | None:
    """What the handler asked for on purpose, if that is what it raised; a task group wraps it in a group of one."""
    signal = essence(error)
    why = shortened(said(signal), WHY_LIMIT)
    if is_a(signal, Snooze):
        return Snoozed(job=trial.job, duration=duration, until=now + signal.delay, why=why)
    if is_a(signal, Discard):
        return Discarded(job=trial.job, duration=duration, reason="discarded", why=why)
    return None


def _failed(trial: Trial, error: BaseException, now: int, duration: int, cause: str | None) -> AnySettlement:
    """The handler raised. A suspect stays one until its job has ended: who runs alone can harm nobody."""
    job, app = trial.job, trial.bench.app
    verdict = classify(error, app.rules, app.classify, now=now)
    failure = autopsy.examine(error, verdict=verdict, cause=cause, **_circumstances(trial, now, duration))
    failure = trial.bench.grouping.of(failure, job)
    policy, fault = policy_of(trial)
    decision = decide(policy, job, verdict, error, now, app.random)
    note = decision.note or fault
    match decision:
        case RetryAt(at):
            return Retried(job=job, duration=duration, at=at, failure=failure, note=note, suspect=job.suspect)
        case Drop(reason):
            return Discarded(job=job, duration=duration, reason=reason, why=failure.message, note=note)
        case GiveUp(why):
            return Buried(job=job, duration=duration, failure=failure, why=why, note=note)


def policy_of(trial: Trial) -> tuple[Retry, str | None]:
    """The policy of the task, and what is wrong with it when the default had to take its place."""
    try:
        return (trial.task.policy if trial.task else trial.bench.app.policy_named(None)), None
    except Exception as error:  # noqa: BLE001 - a policy that cannot be read must not cost the job
        return Retry(), f"the retry policy could not be read ({said(error)}); the built-in one was used"


def _crashed(trial: Trial, crash: Crashed, now: int, duration: int) -> AnySettlement:
    """The job ran alone and its process died of it: a crash is counted, no attempt."""
    job = trial.job
    cause = told(crash.cause, crash.memory, crash.stderr)
    failure = bare(trial, "crashed", "ProcessDied", f"its process died: {crash.cause}", cause)
    match decide_loss(job, "crashed", now, trial.bench.app.random):
        case RetryAt(at):
            suspect = max(job.suspect, 1)
            return Retried(job=job, duration=duration, at=at, failure=failure, spend=0, crashed=1, suspect=suspect)
        case GiveUp(why) | Drop(why):
            return Buried(job=job, duration=duration, failure=failure, spend=0, crashed=1, why=why)


def suspected(trial: Trial, cause: str, now: int) -> AnySettlement:
    """The job was in a process that ended: it runs next alone, which costs nothing the first times."""
    job = trial.job
    if job.suspect < SUSPECT_RUNS:
        return Released(job=job, at=now, why=shortened(cause, WHY_LIMIT), suspect=job.suspect + 1, ran=False)
    failure = bare(trial, "lost", "WorkerLost", cause)
    match decide_loss(job, "lost", now, trial.bench.app.random):
        case RetryAt(at):
            return Retried(job=job, at=at, failure=failure, lost=1, suspect=job.suspect, ran=False)
        case GiveUp(why) | Drop(why):
            return Buried(job=job, failure=failure, lost=1, ran=False, why=why)


def unwritable(settlement: AnySettlement, fault: Exception, now: int) -> AnySettlement:
    """What takes the place of a settlement that the store could not write."""
    text = f"how the attempt ended ({class_name(settlement)}) could not be written: {class_name(fault)}"
    return _minimal(settlement.job, now, text, said(fault))


def _minimal(job: Job, now: int, text: str, fault: str) -> AnySettlement:
    """An attempt of which little can be told still counts, and still ends."""
    message = shortened(f"{text}: {fault}", WHY_LIMIT)
    failure = Failure(reason="unknown", type="Unwritable", message=message, fingerprint="0", title=text, at=now)
    most = attempts_of(job)
    if job.attempts + 1 >= most:
        return Buried(job=job, failure=failure, why=f"exhausted {most} attempts")
    return Retried(job=job, at=now + LAST_DELAY, failure=failure, suspect=job.suspect)


def bare(trial: Trial, reason: str, kind: str, message: str, cause: str | None = None) -> Failure:
    """A failure without an exception."""
    now = trial.bench.app.clock.now()
    duration = trial.bench.app.clock.steady() - trial.started
    failure = autopsy.minimal(reason, kind, message, cause=cause, **_circumstances(trial, now, duration))
    return trial.bench.grouping.of(failure, trial.job)


def told(cause: str, memory: int | None, stderr: str) -> str:
    """How a process ended, in the words of an autopsy."""
    size = f", last seen with {memory / 1024**2:.0f} MiB" if memory else ""
    return f"{cause}{size}\n{stderr}".strip()


def _circumstances(trial: Trial, now: int, duration: int) -> dict[str, Any]:
    bench = trial.bench
    return {
        "job": trial.job,
        "task": trial.task.name if trial.task else None,
        "at": now,
        "duration": duration,
        "host": bench.identity.host,
        "process": bench.identity.process,
        "worker": bench.identity.worker,
        "release": bench.app.release,
    }

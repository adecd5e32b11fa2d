"""Why a job is not running: what stands between it and a handler, each reason as a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redrive.cli.output import counted
from redrive.cli.shapes import paused_by
from redrive.cli.times import beside, span
from redrive.job import Job, State
from redrive.store import Depth, Gate, Record, Worker


@dataclass(frozen=True, slots=True)
class Scene:
    """What surrounds a job."""

    now: int
    gates: Sequence[Gate]
    workers: Sequence[Worker]
    depth: Depth
    grace: int = 0
    """How long a job waits for a worker that knows its task."""


def why(record: Record, scene: Scene) -> list[str]:
    """The sentences, most important first."""
    job = record.job
    if job is None:
        return ["it is done"]
    match job.state:
        case State.DEAD:
            return [f"it was given up on{_ended(record)}; it stays dead until somebody brings it back"]
        case State.DISCARDED:
            return [f"it was ended on purpose{_ended(record)}"]
        case State.LEASED:
            return [_leased(record, scene)]
    return list(_waiting(job, record, scene))


def _ended(record: Record) -> str:
    return f" ({record.end_reason})" if record.end_reason else ""


def _leased(record: Record, scene: Scene) -> str:
    left = record.lease_left or 0
    holder = next((worker for worker in scene.workers if worker.id == record.worker), None)
    if left <= 0:
        return (
            f"its worker {record.worker} let the lease end {span(-left)} ago and no worker has taken it over yet; "
            f"start a worker if none runs"
        )
    if holder is None:
        return f"its worker {record.worker} is gone; another takes it over within {span(left)}"
    return f"worker {holder.id} (pid {holder.pid} on {holder.host}) is running it; its lease has {span(left)} left"


def _waiting(job: Job, record: Record, scene: Scene) -> Iterator[str]:
    due = job.state is State.READY or job.due_at <= scene.now
    if not due:
        again = f" again after failed attempt {job.attempts}" if job.attempts else ""
        yield f"it is scheduled{again}: due {beside(job.due_at, scene.now)}"
    if job.expires is not None and job.expires <= scene.now:
        yield f"it expired {beside(job.expires, scene.now)}; the next worker that sees it discards it"
    yield from _gated(job, scene)
    if record.unknown_since is not None:
        end = record.unknown_since + scene.grace
        yield (
            f"for {span(max(0, scene.now - record.unknown_since))} no worker has had a task {job.task} that takes its "
            f"payload; start one that has, else it is buried {beside(end, scene.now)}"
        )
    served = list(_unserved(job, scene))
    yield from served
    if due and not served:
        yield from _in_line(job, scene)


def _gated(job: Job, scene: Scene) -> Iterator[str]:
    for gate in scene.gates:
        keys = {"queue": (job.queue,), "task": (job.task,), "dependency": job.needs}[gate.kind]
        closed = paused_by(gate, scene.now)
        if closed is None or gate.key not in keys:
            continue
        until = f" until {beside(gate.until, scene.now)}" if gate.until else ""
        because = f" ({gate.reason})" if gate.reason else ""
        undo = f"; `redrive queues resume {gate.key}` opens it" if gate.kind == "queue" else ""
        by = f" by {gate.actor}" if gate.actor else ""
        yield f"{gate.kind} {gate.key} is paused{until}{by}{because}{undo}"


def _unserved(job: Job, scene: Scene) -> Iterator[str]:
    if not scene.workers:
        yield "no worker is running; start one with `redrive worker`"
        return
    serving = [worker for worker in scene.workers if not worker.queues or job.queue in worker.queues]
    knowing = [worker for worker in serving if job.task in worker.tasks]
    if not serving:
        served = sorted({queue for worker in scene.workers for queue in worker.queues})
        yield f"no worker serves queue {job.queue}; those that run serve {', '.join(served)}"
    elif not knowing:
        yield f"no worker that serves queue {job.queue} knows the task {job.task}; start one with the code that has it"
    elif all(_drains(worker) for worker in knowing):
        yield f"every worker for it drains ({', '.join(worker.id for worker in knowing)}); start another"


def _in_line(job: Job, scene: Scene) -> Iterator[str]:
    if job.suspect:
        yield "a process that held it has died, so it waits to run alone in a child process"
    serving = [worker for worker in scene.workers if not worker.queues or job.queue in worker.queues]
    able = [worker for worker in serving if job.task in worker.tasks and not _drains(worker)]
    busy = [worker for worker in able if len(worker.running) >= worker.slots]
    others = max(0, scene.depth.ready - 1)
    line = f"queue {job.queue} has {counted(others, 'other ready job') if others else 'no other'}"
    if len(busy) == len(able):
        slots = sum(worker.slots for worker in able)
        yield f"all {slots} slots of the workers for it are busy, and {line}; add workers or raise -c if this lasts"
    else:
        yield f"nothing holds it: it starts when a slot for it is free ({line})"


def _drains(worker: Worker) -> bool:
    return worker.state == "draining" or worker.order == "drain"

"""What the doctor looks at beside what the store tells of itself: settings, app, disk, workers and queues."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from redrive.cli.output import counted
from redrive.cli.shapes import paused_by
from redrive.cli.times import at_and_beside, beside, span
from redrive.config import Config
from redrive.grouping import grouping_from
from redrive.reasons import rules_from
from redrive.retention import Removal, removals
from redrive.retry import Retry, policy_from, rides_out
from redrive.rules import automatic_rules
from redrive.store import Check, Depth, Gate, Store, Worker

if TYPE_CHECKING:
    from redrive.app import Redrive

ROOM = 256 * 1024 * 1024
SILENT = 3
"""Missed beats after which a worker that still holds jobs is said to be silent."""


@runtime_checkable
class Migrating(Protocol):
    """A store with a schema that has versions."""

    def pending(self) -> list[str]:
        """The migrations that opening would apply; changes nothing."""
        ...


def of_config(config: Config) -> Iterator[Check]:
    """The settings, and the policies and rules in them, which are otherwise read when they are needed."""
    rules_from(config.reasons)
    grouping_from(config.fingerprints)
    rules = automatic_rules(config)
    policies = {"[retry]": policy_from(config.retry.default)}
    policies |= {f"[retry.{name}]": policy_from(table, f"[retry.{name}]") for name, table in config.retry.named.items()}
    sources = sorted({source for source in config.sources.values() if source != "default"})
    yield Check(name="settings", ok=True, found=f"from {', '.join(sources)}" if sources else "all have their defaults")
    for name, policy in policies.items():
        yield Check(name=f"policy {name}", ok=True, found=_patience(policy))
    for rule in rules:
        yield Check(name=f"rule {rule.name}", ok=True, found=rule.said())


def of_app(app: "Redrive") -> Iterator[Check]:
    """The tasks, and how long an outage each policy rides out."""
    tasks = app.tasks
    yield Check(
        name="app",
        ok=bool(tasks),
        found=counted(len(tasks), "task"),
        advice="it has no tasks; put @app.task above a function, and import its module where the app is made",
    )
    by_policy: dict[str, list[str]] = {}
    for name, task in sorted(tasks.items()):
        by_policy.setdefault(_patience(task.policy), []).append(name)
    for patience, names in by_policy.items():
        yield Check(name=f"policy of {', '.join(names)}", ok=True, found=patience)


def _patience(policy: Retry) -> str:
    outage = rides_out(policy)
    attempts = counted(policy.max_attempts, "attempt") if policy.max_attempts > 1 else "one attempt, no retry"
    if outage is None:
        return f"{attempts}; a function decides the delays, so how long an outage it rides out is not known"
    return f"{attempts}; rides out an outage of about {span(outage)}"


def of_missing(path: Path) -> Iterator[Check]:
    """A file that will be made: whether its folder allows that."""
    from redrive.stores.sqlite.files import file_system, is_network

    folder = path.parent
    yield Check(name="store", ok=True, found=f"{path} does not exist yet; it is made at first use")
    fit = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    yield Check(
        name="folder",
        ok=fit,
        found=f"{folder} {'can be written' if fit else 'cannot be written' if folder.exists() else 'does not exist'}",
        advice="make the folder, let the user who runs this write in it, or name another path with --url",
    )
    if not folder.is_dir():
        return
    kind = file_system(folder)
    yield Check(
        name="file system",
        ok=not is_network(kind),
        found=kind,
        advice="use a local disk: locks of a network file system do not hold",
    )
    free = shutil.disk_usage(folder).free
    yield Check(name="disk space", ok=free >= ROOM, found=f"{free // 1024**2:,} MiB free", advice="make room")


def of_pending(store: Store) -> list[Check]:
    """What opening would change, where the store has a schema."""
    missing = store.pending() if isinstance(store, Migrating) else []
    if not missing:
        return []
    return [
        Check(
            name="migrations",
            ok=False,
            found=f"{len(missing)} pending: {', '.join(missing)}",
            advice="run `redrive migrate`; a worker that starts would apply them too",
        )
    ]


async def of_workers(store: Store, now: int) -> Check:
    """Who runs jobs, and whether somebody has to."""
    workers = await store.workers.find()
    waiting = sum(depth.ready + depth.leased for depth in await store.jobs.depth())
    silent = [worker for worker in workers if _is_silent(worker, now)]
    if silent:
        named = ", ".join(f"{worker.id} ({beside(worker.beat_at, now)})" for worker in silent)
        return Check(
            name="workers",
            ok=False,
            found=f"silent and still holding jobs: {named}",
            advice="their jobs are taken over when the leases end, as long as another worker runs",
        )
    stuck = [worker.id for worker in workers if worker.stuck]
    if stuck:
        return Check(
            name="workers",
            ok=False,
            found=f"threads are stuck in {', '.join(stuck)}",
            advice="give those tasks isolation='process', where a handler beyond its deadline is killed",
        )
    return Check(
        name="workers",
        ok=bool(workers) or not waiting,
        found=_spoken(workers, waiting),
        advice="start one with `redrive worker`",
    )


def _is_silent(worker: Worker, now: int) -> bool:
    return bool(worker.running) and worker.beat_at > 0 and now - worker.beat_at > SILENT * 10_000_000


def _spoken(workers: list[Worker], waiting: int) -> str:
    slots = sum(worker.slots for worker in workers)
    busy = sum(len(worker.running) for worker in workers)
    some = f"{len(workers)} with {counted(slots, 'slot')}, {busy} of them busy" if workers else "none runs"
    return f"{some}; {counted(waiting, 'job')} ready or running"


async def of_queues(store: Store, now: int) -> list[Check]:
    """Queues that hold jobs and do not move: paused, or served by nobody."""
    workers = await store.workers.find()
    gates = {gate.key: gate for gate in await store.jobs.gates() if gate.kind == "queue"}
    checks = [_of_queue(depth, gates.get(depth.queue), workers, now) for depth in await store.jobs.depth()]
    return [check for check in checks if check is not None]


def _of_queue(depth: Depth, gate: Gate | None, workers: list[Worker], now: int) -> Check | None:
    name = f"queue {depth.queue}"
    waiting = f"{counted(depth.ready, 'job')} ready"
    if (paused := paused_by(gate, now)) is not None:
        until = f" until {at_and_beside(paused.until, now)}" if paused.until else ""
        because = f" ({paused.reason})" if paused.reason else ""
        return Check(name=name, ok=True, found=f"paused by {paused.actor}{until}{because}; {waiting}")
    served = any(not worker.queues or depth.queue in worker.queues for worker in workers)
    if not depth.ready or served or not workers:
        return None
    return Check(
        name=name,
        ok=False,
        found=f"no worker serves it; {waiting}",
        advice=f"start a worker with -q {depth.queue}, or without -q",
    )


async def of_retention(store: Store, config: Config) -> list[Check]:
    """What a policy removes although nobody has dealt with it: announced, or still to be."""
    policies = removals(config.retention.open, config.retention.own("open"))
    notices = {notice.removal: notice for notice in await store.letters.notices()}
    said = [notices[policy].said if policy in notices else _unsaid(policy, config) for policy in policies]
    return [Check(name="retention", ok=True, found=each) for each in said]


def _unsaid(policy: Removal, config: Config) -> str:
    after, notice = span(policy.after), span(config.retention.notice)
    return (
        f"open letters of {policy.of} are to go {after} after they failed; "
        f"a worker announces that first, and removes none before {notice} later"
    )

"""Rows for tests, made by the store's own verbs, so that no test stands on a row that cannot be."""

from collections import Counter
from typing import Any

import msgspec

from redrive.clock import SECOND
from redrive.job import Job, State, new_id
from redrive.letter import Failure
from redrive.query.tree import of_group
from redrive.store import (
    Accepted,
    AnySettlement,
    Buried,
    Depth,
    Discarded,
    Done,
    Entry,
    Gate,
    Lease,
    Record,
    Released,
    Retried,
    Snoozed,
    Store,
    Want,
    Worker,
)

LEASE = 30 * SECOND
"""How long the leases of these factories last."""


def a_job(**changes: Any) -> Job:
    """A job that a client might have built."""
    plain = Job(id=new_id(), task="email.send", payload=b'{"to":"a@b.c"}')
    return msgspec.structs.replace(plain, **changes)


def a_failure(**changes: Any) -> Failure:
    """A failure that an attempt might have ended with."""
    plain = Failure(
        reason="network",
        type="builtins.ConnectionError",
        message="connection refused",
        traceback="Traceback (most recent call last): ...",
        fingerprint="f00d",
        title="ConnectionError in email.send",
        host="host-1",
        worker="w1",
    )
    return msgspec.structs.replace(plain, **changes)


def a_worker(**changes: Any) -> Worker:
    """A worker that says it lives."""
    plain = Worker(id="w1", host="host-1", boot="boot-1", pid=4711, started_at=1_767_225_600 * SECOND)
    return msgspec.structs.replace(plain, **changes)


def wanted(limit: int = 100, **changes: Any) -> Want:
    """What a worker with this many free slots asks for."""
    return msgspec.structs.replace(Want(worker="w1", limit=limit, lease=LEASE), **changes)


def closed(kind: str, key: str, **changes: Any) -> Gate:
    """A gate that holds jobs back."""
    return msgspec.convert({"kind": kind, "key": key, "state": "closed", **changes}, Gate)


def lease_of(job: Job) -> Lease:
    """The lease under which this job was claimed."""
    return Lease(job.id, job.fence)


async def added(store: Store, **changes: Any) -> Job:
    """A job that the store has accepted."""
    job = a_job(**changes)
    assert await store.jobs.add([job]) == [Accepted(job.id)]
    return job


async def added_many(store: Store, n: int, **changes: Any) -> list[Job]:
    """So many accepted jobs, in the order of their ids."""
    jobs = [a_job(**changes) for _ in range(n)]
    assert await store.jobs.add(jobs) == [Accepted(job.id) for job in jobs]
    return jobs


async def claimed(store: Store, n: int = 1, **changes: Any) -> list[Job]:
    """The first n in line, leased."""
    jobs = await store.jobs.claim(wanted(n, **changes))
    assert len(jobs) == n
    return jobs


async def leased(store: Store, **changes: Any) -> Job:
    """A new job that is leased; no other may be before it in line."""
    job = await added(store, **changes)
    [first] = await claimed(store)
    assert first.id == job.id
    return first


async def settled(store: Store, settlement: AnySettlement) -> Job:
    """End a lease that is held; answers the job as it was claimed."""
    assert await store.jobs.settle([settlement]) == frozenset()
    return settlement.job


async def done(store: Store, **changes: Any) -> Job:
    """A job that has finished well."""
    return await settled(store, Done(job=await leased(store, **changes)))


async def buried(store: Store, *, failure: Failure | None = None, **changes: Any) -> Job:
    """A job that was given up on at its first attempt."""
    return await settled(store, Buried(job=await leased(store, **changes), failure=failure or a_failure()))


async def discarded(store: Store, **changes: Any) -> Job:
    """A job that its handler ended on purpose."""
    return await settled(store, Discarded(job=await leased(store, **changes), reason="discarded", why="a duplicate"))


def every_ending(job: Job, at: int) -> list[AnySettlement]:
    """One settlement of each kind for the same lease."""
    return [
        Done(job=job, result=b"1"),
        Retried(job=job, at=at, failure=a_failure()),
        Snoozed(job=job, until=at),
        Buried(job=job, failure=a_failure()),
        Discarded(job=job, reason="discarded"),
        Released(job=job, at=at, why="the worker drains"),
    ]


async def record_of(store: Store, id: str) -> Record:
    """Everything about a job that is there."""
    record = await store.jobs.get(id)
    assert record is not None
    return record


async def live(store: Store, id: str) -> Job:
    """The job as the store has it now, while it is not done."""
    job = (await record_of(store, id)).job
    assert job is not None
    return job


async def state_of(store: Store, id: str) -> State | None:
    """The state of a job; None when the store does not know it."""
    record = await store.jobs.get(id)
    if record is None:
        return None
    return record.job.state if record.job else State.DONE


async def depth_of(store: Store, queue: str = "default") -> Depth:
    """How deep a queue is."""
    depths = await store.jobs.depth([queue])
    return depths[0] if depths else Depth(queue=queue)


async def totals(store: Store) -> Counter[str]:
    """Every counter by name, over all minutes, queues and tasks."""
    names: Counter[str] = Counter()
    for count in await store.journal.counters():
        names[count.name] += count.n
    return names


async def entries_of(store: Store, id: str) -> list[Entry]:
    """What the journal tells of a job, oldest first."""
    return await store.journal.events(limit=1_000, job=id)


async def open_in(store: Store, group: str) -> list[str]:
    """The jobs of a group's open letters, in the order of their ids."""
    page = await store.letters.find(of_group(group), None, 1_000)
    return sorted(letter.id for letter in page.letters)

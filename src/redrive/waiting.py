"""A redrive that waits for a fix: until a worker that serves its letters reports the release that was asked for."""

from collections.abc import Sequence

from redrive.clock import SECOND
from redrive.releases import is_wanted
from redrive.store import Redrive, Store, Worker

LOOK = SECOND
"""Microseconds between two looks at the workers."""

ITSELF = "redriver"


async def begin(store: Store, redrive: Redrive) -> int | None:
    """Let it begin if its time has come; answers how many microseconds to rest."""
    workers = fixed(redrive, await store.workers.find())
    places = await store.redrives.places(redrive.id) if workers else []
    if not workers or not serve(workers, places):
        return LOOK
    one = next((each for each in workers if serve([each], places[:1])), workers[0])
    why = f"worker {one.id} reports release {one.release}"
    begun = await store.redrives.change(redrive.id, redrive.version, "running", ITSELF, why)
    return 0 if begun else LOOK


def fixed(redrive: Redrive, workers: Sequence[Worker]) -> list[Worker]:
    """The workers of the release that it waits for; one that drains takes no more jobs."""
    wanted = redrive.plan.when_release or ""
    return [each for each in workers if not _drains(each) and is_wanted(wanted, each.release)]


def serve(workers: Sequence[Worker], places: Sequence[tuple[str, str]]) -> bool:
    """Whether there is a worker for each queue and task among them: one of other work says nothing of the fix."""
    return all(any(_serves(worker, queue, task) for worker in workers) for queue, task in places)


def sentence(redrive: Redrive) -> str:
    """What it waits for."""
    return f"waits until a worker that serves its letters reports release {redrive.plan.when_release}"


def _drains(worker: Worker) -> bool:
    return worker.state == "draining" or worker.order == "drain"


def _serves(worker: Worker, queue: str, task: str) -> bool:
    return task in worker.tasks and (not worker.queues or queue in worker.queues)

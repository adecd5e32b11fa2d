"""Who would run the jobs of a redrive: the tasks and queues they are of, and the workers that are alive."""

from collections.abc import Collection, Iterable, Sequence

from redrive.letter import LetterState
from redrive.query.parsing import parse
from redrive.query.tree import Both, Compare, Tree
from redrive.store import Plan, Store, Worker

GROUPS = 10_000

_STATES = tuple(Compare("state", "=", state.value) for state in (LetterState.OPEN, LetterState.REDRIVEN))
"""Of letters that will be brought back and of those that have been; one by one, as there are indexes."""


async def tasks_of(store: Store, plan: Plan, now: int) -> set[str]:
    """The tasks of its jobs."""
    trees = [Both((state, parse(plan.filter, now))) for state in _STATES]
    return {group.task for tree in trees for group in await store.letters.groups(tree, GROUPS)}


async def queues_of(store: Store, plan: Plan, now: int) -> list[str]:
    """The queues in which its jobs will be."""
    if plan.queue is not None:
        return [plan.queue]
    found = [depth.queue for depth in await store.jobs.depth()]
    return [name for name in found if await _has(store, parse(plan.filter, now), name)]


async def _has(store: Store, tree: Tree, queue: str) -> bool:
    for state in _STATES:
        if await store.letters.count(Both((state, Compare("queue", "=", queue), tree))):
            return True
    return False


async def queues_asked_for(store: Store, plan: Plan, workers: Iterable[Worker], now: int) -> Sequence[str]:
    """The same where it makes a difference: a worker that names no queues serves all of them."""
    named = [each for each in workers if each.state == "running" and each.queues]
    return await queues_of(store, plan, now) if named else ()


def unserved(workers: Iterable[Worker], tasks: Collection[str], queues: Sequence[str]) -> str | None:
    """Why nobody would run these jobs, or some of them."""
    alive = [each for each in workers if each.state == "running"]
    if not alive:
        return "no worker is alive"
    served = set(queues) if any(not each.queues for each in alive) else {name for each in alive for name in each.queues}
    lonely = sorted(set(queues) - served)
    if lonely:
        return f"no worker that is alive serves queue {', '.join(lonely)}"
    known = {task for each in alive for task in each.tasks}
    strange = sorted(set(tasks) - known)
    return f"no worker that is alive knows task {', '.join(strange)}" if strange else None

"""What a redrive would skip and how long it would take, for `redrive dlq retry --dry-run`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redrive.cli.looking import looking
from redrive.cli.output import clean
from redrive.clock import SECOND
from redrive.edits import difference
from redrive.forecast import Forecast, Measured, forecast, measured, slots_for
from redrive.job import State, decode
from redrive.letter import Group
from redrive.reshaping import Reshape
from redrive.serving import queues_asked_for
from redrive.store import Due, JobQuery, Plan, Store
from redrive.triage import meant, pages

DAY = 86_400 * SECOND
WEIGHED = 100_000
"""So many letters are looked at one by one at the most; of those that get another payload RESHAPED."""

RESHAPED = 10_000
AT_ONCE = 500
SAMPLE = 20
"""So many finished jobs of a task say how long one takes."""

PAYLOADS = 50


@dataclass(frozen=True, slots=True)
class Foresight:
    """What can be known before it begins."""

    skips: Counter[str]
    weighed: int
    letters: int
    time: Forecast
    example: tuple[str, list[str]] | None = None  # a letter, and what changes in what its job is given

    def lines(self) -> Iterator[str]:
        """For a person."""
        part = f" of the {self.weighed:,} that were looked at" if self.weighed < self.letters else ""
        skipped = self.skips.total()
        yield f"{skipped:,} would be skipped{part}{':' if skipped else ''}"
        for why, n in self.skips.most_common():
            yield f"{n:>7,}  {clean(why)}"
        if self.example is not None:
            id, lines = self.example
            yield f"changed on the way, such as letter {id[-8:]}:"
            yield from (f"  {clean(line)}" for line in lines)
        yield self.time.said

    def shape(self) -> dict[str, Any]:
        """For a program."""
        return {
            "would_skip": dict(self.skips.most_common()),
            "looked_at": self.weighed,
            "example": self.example and {"letter": self.example[0], "difference": self.example[1]},
            "seconds": self.time.seconds,
            "based_on": self.time.said,
        }


async def foreseen(
    store: Store,
    plan: Plan,
    groups: Sequence[Group],
    size: tuple[int, int],
    stages: Sequence[int],
    reshape: Reshape,
    *,
    now: int,
    slots: int | None,
) -> Foresight:
    """Look at its letters one by one, so many taken of so many, and at what is known of their tasks."""
    all_of_them, taken = size
    passed_by = all_of_them - taken if plan.order == "oldest" else 0
    looked = _Looked(plan, reshape)
    await looked.at(store, range(passed_by, passed_by + taken), now)
    tasks: Counter[str] = Counter()
    for group in groups:
        tasks[group.task] += group.count
    total = max(1, tasks.total())
    letters = {task: round(n * taken / total) for task, n in tasks.items()}
    known = measured(await store.journal.counters(now - DAY), letters) | await _successes(store, letters)
    if slots is None:
        workers = await store.workers.find()
        slots = slots_for(workers, letters, await queues_asked_for(store, plan, workers, now))
    time = forecast(letters, known, stages, slots=slots, rate=plan.rate, parallel=plan.parallel)
    return Foresight(looked.skips, looked.weighed, taken, time, looked.example)


async def _successes(store: Store, tasks: Iterable[str]) -> dict[str, Measured]:
    """How long the last jobs of these tasks took that went well."""
    found: dict[str, Measured] = {}
    for task in tasks:
        jobs = await store.jobs.find(JobQuery(states=(State.DONE,), task=task, limit=SAMPLE))
        records = [await store.jobs.get(job.id) for job in jobs]
        lengths = [each.finished.duration for each in records if each is not None and each.finished is not None]
        if lengths:
            found[task] = Measured(len(lengths), sum(lengths) / len(lengths) / SECOND, True)
    return found


class _Looked:
    """What was found in the letters that would be taken."""

    def __init__(self, plan: Plan, reshape: Reshape) -> None:
        self._plan = plan
        self._reshape = reshape
        self.skips: Counter[str] = Counter()
        self.weighed = 0
        self.example: tuple[str, list[str]] | None = None

    async def at(self, store: Store, taken: range, now: int) -> None:
        """Look at those in these places, where the first one failed last."""
        reshapes, place, tree = self._plan.reshapes, 0, meant(self._plan.filter, now)
        end = taken.start + min(len(taken), RESHAPED if reshapes else WEIGHED)
        size = PAYLOADS if reshapes else AT_ONCE
        async with looking(store, tree) as look:
            async for page in pages(store, tree, end, size, look):
                ids = [letter.id for letter in page[max(0, taken.start - place) :]]
                place += len(page)
                await self._weigh(store, ids)

    async def _weigh(self, store: Store, ids: Sequence[str]) -> None:
        found = await store.redrives.weigh(ids, self._plan)
        self.skips.update(found.skipped.values())
        for due in found.due:
            self._change(due)
        self.weighed += len(ids)

    def _change(self, due: Due) -> None:
        given = self._reshape(self._plan, due)
        if given.why:
            self.skips[given.why] += 1
        elif self.example is None and given.payload is not None:
            self.example = due.id, difference(decode(due.payload), decode(given.payload))

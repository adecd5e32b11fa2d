"""How long a redrive will take, as far as anything is known of it. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redrive.clock import SECOND, spoken
from redrive.store import BOUNDS, Count, Worker, lasted

PAUSE = 0.1
"""Seconds between the last answer of a stage and the next stage."""

_MIDDLES = {lasted(high): (low + high) / 2 for low, high in zip((0, *BOUNDS), BOUNDS, strict=False)} | {
    lasted(BOUNDS[-1] + 1): BOUNDS[-1] * 2.0
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """A guess, and what it stands on."""

    seconds: float | None
    said: str


@dataclass(frozen=True, slots=True)
class Measured:
    """How long runs of a task took."""

    runs: int
    seconds: float  # on average
    succeeded: bool  # whether only of runs that went well; one that fails may be quicker


def measured(counts: Iterable[Count], tasks: Iterable[str]) -> dict[str, Measured]:
    """How long all runs of these tasks took, by their histograms."""
    wanted, runs, time = set(tasks), Counter[str](), Counter[str]()
    for each in counts:
        if each.task in wanted and each.name in _MIDDLES:
            runs[each.task] += each.n
            time[each.task] += int(each.n * _MIDDLES[each.name])
    return {task: Measured(n, time[task] / n / SECOND, False) for task, n in runs.items() if n}


def slots_for(workers: Iterable[Worker], tasks: Iterable[str], queues: Sequence[str]) -> int:
    """How many jobs of these tasks and queues can run at once."""
    wanted = set(tasks)
    return sum(
        max(0, each.slots - each.stuck)
        for each in workers
        if each.state == "running" and wanted & set(each.tasks) and (not each.queues or set(queues) & set(each.queues))
    )


def forecast(
    letters: Mapping[str, int],
    known: Mapping[str, Measured],
    stages: Sequence[int],
    *,
    slots: int,
    rate: float | None = None,
    parallel: int | None = None,
) -> Forecast:
    """How long so many letters of each task take in these stages, if each job ends at its first attempt."""
    total = sum(letters.values())
    least = total / rate if rate else 0.0
    bound = f"; by its rate at least {spoken(int(least * SECOND))}" if rate else ""
    strange = sorted(task for task in letters if task not in known)
    if strange:
        names = ", ".join(strange[:3]) + (", …" if len(strange) > 3 else "")
        return Forecast(None, f"how long it takes is unknown: no run of {names} was measured in the last day{bound}")
    if not slots:
        return Forecast(None, f"how long it takes is unknown: nobody who is alive runs these jobs{bound}")
    mean = sum(n * known[task].seconds for task, n in letters.items()) / max(1, total)
    longest = max((known[task].seconds for task in letters), default=0.0)
    width = min(slots, parallel or slots)
    seconds = sum(max(n * mean / min(width, n), longest, n / rate if rate else 0.0) + PAUSE for n in stages)
    runs = sum(known[task].runs for task in letters)
    which = "that went well" if all(known[task].succeeded for task in letters) else "of the last day, also failed ones,"
    based = f"{runs:,} runs {which} took {spoken(int(mean * SECOND))} on average, {width:,} at once"
    return Forecast(seconds, f"it takes about {spoken(int(seconds * SECOND))}, without retries ({based}{bound})")

"""What the demo enqueues, and what should become of it: the run is compared with this, and differences are told."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from redrive.demo import tasks
from redrive.job import Job

FIX = f"release {tasks.FIXED} also reads addresses with a name beside them"
"""What is deployed in the middle, and why the letters of that cause are brought back."""

ENDLESS = 100_000
"""Pages of a report that does not end in time."""

_NAMES = ("Ada", "Alan", "Bob", "Eve", "Grace", "Ida", "Joan", "Ken", "Lin", "Max", "Radia", "Tony")


@dataclass(frozen=True, slots=True)
class Part:
    """The jobs of one task, not made yet: their trouble, how many die of it, and whether the fix heals those."""

    task: str
    jobs: Sequence[partial[Job]]
    trouble: str
    dying: int = 0
    fixed: bool = False


def parts() -> list[Part]:
    """The whole cast."""
    addresses = [f"{name} <{name.lower()}@example.com>" for name in _NAMES]
    plain = [f"customer{number}@example.com" for number in range(33)]
    pages = [3, 4, 2, 5, ENDLESS, 3, 4, 2, 5, ENDLESS, 3, 4]
    pictures = [f"picture{number}.png" for number in range(12)]
    return [
        Part(
            "payments.charge",
            [partial(tasks.charge.job, number, 1_999 + 50 * number) for number in range(1, 91)],
            "the network drops every third, then it heals",
        ),
        Part(
            "crm.sync",
            [partial(tasks.sync.job, number) for number in range(1, 41)],
            f"{tasks.CALLS} calls in {tasks.WINDOW:g}s, more get 429 with Retry-After",
        ),
        Part(
            "mail.welcome",
            [partial(tasks.welcome.job, to) for to in (*plain, *addresses)],
            f"{len(addresses)} addresses that release {tasks.FIRST} cannot read",
            dying=len(addresses),
            fixed=True,
        ),
        Part(
            "report.render",
            [partial(tasks.render.job, f"2026-{month:02}", count) for month, count in enumerate(pages, 1)],
            f"{pages.count(ENDLESS)} that do not end, and are killed at their deadline",
            dying=pages.count(ENDLESS),
        ),
        Part(
            "thumbnail.make",
            [partial(tasks.make.job, picture) for picture in (*pictures, tasks.BROKEN)],
            "1 that kills its process with a segfault",
            dying=1,
        ),
    ]


def jobs(cast: Sequence[Part]) -> list[Job]:
    """All jobs, mixed and the same each time, but for those that have to come first."""
    calls = [call for part in cast for call in part.jobs]
    random.Random(2).shuffle(calls)
    calls.sort(key=_rank)
    return [call() for call in calls]  # made in this order: their ids are their places in the line


def _rank(call: "partial[Job]") -> int:
    """What takes long until it is given up on, then what has to come at once to be too much for the other side."""
    if {tasks.BROKEN, ENDLESS}.intersection(call.args):
        return 0
    return 1 if call.func == tasks.sync.job else 2

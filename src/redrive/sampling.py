"""Which successes are kept for comparison: a few of each task, chosen by chance, so that the rest cost nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

from redrive.clock import Random

SIZE = 100
"""So many successes of each task are kept."""

HORIZON = 20_000
"""The sample is about even over the last so many: beyond it the chance of a success to be kept falls no further."""

PAYLOAD_LIMIT = 16 * 1024
"""A longer payload is not kept, only its size."""


@dataclass(slots=True)
class _Course:
    """How many successes of a task there were, as far as this process knows, and how many to skip next."""

    seen: int | None = None
    passed: int = 0
    skip: int = 0


class Sampler:
    """Says which successes to keep: all at first, then each with the chance of SIZE among those there were."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._courses: dict[str, _Course] = {}
        self.unwritten: dict[tuple[str, int], tuple[Any, ...]] = {}
        """What a store will write of those that are kept, by task and place; written together, they cost nothing."""
        self.written_at = 0

    def passes(self, task: str) -> bool:
        """Count one success; True when it is one of those that are not kept."""
        course = self._courses.get(task)
        if course is None:
            course = self._courses[task] = _Course()
        course.passed += 1
        if course.skip:
            course.skip -= 1
            return True
        return False

    def place(self, task: str, before: Callable[[], int]) -> tuple[int, int]:
        """Where to keep the one that did not pass, and the how many-th it is.

        How many there were before this process is asked for once. So many are skipped after it as chance would have
        passed over one by one.
        """
        course = self._courses[task]
        seen = (before() if course.seen is None else course.seen) + course.passed
        course.seen, course.passed, course.skip = seen, 0, self._skip(seen)
        return (seen - 1 if seen <= SIZE else int(self._random.random() * SIZE)), seen

    def _skip(self, seen: int) -> int:
        if seen < SIZE:
            return 0
        chance = SIZE / min(seen + 1, HORIZON)
        return int(log(1 - self._random.random()) / log(1 - chance))

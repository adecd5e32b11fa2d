"""How fast a redrive goes, and when it stops by itself: stages, and one sequential test for each cause.

The test asks whether more than a bound (20 %) of a cause's letters fail again as they did before. It is a mixture of
Wald's likelihood ratios over shares above the bound; by Ville's inequality a cause that is below the bound is stopped
with a probability of at most 1 % however often one looks, so that it may be asked after every single answer.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

ERROR = 0.01
"""The chance that a cause which recurs no more often than the bound allows is stopped all the same."""

SHARES = 8
"""So many shares between the bound and all of them are weighed against the bound."""

GROWTH = 5
"""After the last stage that was given, each is so many times the one before."""

FIRST_STAGES = (1, 5, 25, 125)


@dataclass(frozen=True, slots=True)
class Pace:
    """What was asked for."""

    stages: tuple[int, ...] = FIRST_STAGES  # none: everything at once
    stop_at: float | None = 0.2  # None: never stop
    stage_timeout: int | None = None  # microseconds without a verdict until it pauses


@dataclass(frozen=True, slots=True)
class Cause:
    """How the letters of one cause have done so far in a redrive."""

    released: int = 0
    succeeded: int = 0
    recurred: int = 0  # failed again as they did before
    otherwise: int = 0  # failed, but of something new
    skipped: int = 0
    left: int = 0  # not released yet

    @property
    def judged(self) -> int:
        """The answers that say something about the cause: one that failed otherwise got past the old fault."""
        return self.succeeded + self.recurred + self.otherwise

    @property
    def pending(self) -> int:
        """Released, and no answer yet."""
        return self.released - self.judged - self.skipped


@dataclass(frozen=True, slots=True)
class Step:
    """What a redrive does next."""

    action: Literal["release", "wait", "pause", "finish"]
    stage: int = 0
    count: int = 0  # letters to release
    stopped: frozenset[str] = frozenset()  # the causes that recur


def stage_size(number: int, stages: tuple[int, ...]) -> int | None:
    """How many letters the stage of this number (from 1) releases; None for all there are."""
    if not stages:
        return None
    if number <= len(stages):
        return stages[number - 1]
    return int(stages[-1] * GROWTH ** (number - len(stages)))


@lru_cache(maxsize=4096)
def evidence(recurred: int, judged: int, bound: float) -> float:
    """How much better shares above the bound explain these answers than the bound does, as a logarithm."""
    others = judged - recurred
    weighed = [
        recurred * ratio + (others * rest if others else 0.0)
        for ratio, rest in _ratios(bound)
        if not others or rest > -math.inf
    ]
    highest = max(weighed, default=-math.inf)
    if highest == -math.inf:
        return highest
    return highest + math.log(sum(math.exp(one - highest) for one in weighed) / SHARES)


def recurs(cause: Cause, bound: float) -> bool:
    """Whether the cause is still there."""
    return evidence(cause.recurred, cause.judged, bound) >= -math.log(ERROR)


@lru_cache(maxsize=64)
def _ratios(bound: float) -> tuple[tuple[float, float], ...]:
    """For each share: what a recurrence and what any other answer adds to the logarithm of its likelihood ratio."""
    found = []
    for number in range(1, SHARES + 1):
        share = bound + (1 - bound) * number / SHARES
        rest = math.log((1 - share) / (1 - bound)) if number < SHARES else -math.inf
        found.append((math.log(share / bound), rest))
    return tuple(found)


def next_step(pace: Pace, causes: Mapping[str, Cause], stage: int, stopped: frozenset[str], waited: int) -> Step:
    """What follows, after the stage of this number (0: none yet) was released and `waited` microseconds have passed.

    A stage begins when every answer of the one before is there. A cause that recurs is stopped at once, the others
    go on.
    """
    if pace.stop_at is not None:
        bound = pace.stop_at
        stopped |= {name for name, cause in causes.items() if cause.left and recurs(cause, bound)}
    going = {name: cause for name, cause in causes.items() if name not in stopped}
    pending = sum(cause.pending for cause in causes.values())
    left = sum(cause.left for cause in going.values())
    if pending:
        late = left and pace.stage_timeout is not None and waited >= pace.stage_timeout
        return Step("pause" if late else "wait", stage, 0, stopped)
    if not left:
        return Step("finish", stage, 0, stopped)
    size = stage_size(stage + 1, pace.stages)
    return Step("release", stage + 1, left if size is None else min(size, left), stopped)

"""How fast a redrive goes, and when it stops by itself: stages, and one sequential test for each cause.

The test asks whether more than a bound (20 %) of a cause's letters fail again as they did before. It is a mixture of
Wald's likelihood ratios over shares above the bound; by Ville's inequality a cause that is below the bound is stopped
with a probability of at most 1 % however often one looks, so that it may be asked after every single answer.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
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


# --- pace -------------------------------------------------------------------------------------------------------------

BURST = 250_000
"""Microseconds of a rate that may be made up for at once."""


def room(rate: float | None, parallel: int | None, running: int, now: int, paced_at: int) -> int | None:
    """How many letters may be released now; None for any number. `paced_at` is up to when the rate is used up."""
    free = None if parallel is None else max(0, parallel - running)
    if rate is None:
        return free
    due = int((now - _from(rate, now, paced_at)) * rate / 1_000_000 + 1e-6)
    return max(0, due if free is None else min(due, free))


def paced(rate: float | None, released: int, now: int, paced_at: int) -> int:
    """Up to when the rate is used up once so many more are released."""
    return now if rate is None else int(_from(rate, now, paced_at) + released * 1_000_000 / rate)


def _from(rate: float, now: int, paced_at: int) -> int:
    return max(paced_at, now - max(BURST, math.ceil(1_000_000 / rate)))


def shared(waiting: Mapping[str, tuple[int, int]], n: int) -> dict[str, int]:
    """How many of each cause to release so that the causes take turns; given how many went before and are left."""
    line = [(taken, cause) for cause, (taken, left) in waiting.items() if left]
    heapq.heapify(line)
    found: dict[str, int] = {}
    for _ in range(n):
        if not line:
            break
        taken, cause = heapq.heappop(line)
        found[cause] = found.get(cause, 0) + 1
        if found[cause] < waiting[cause][1]:
            heapq.heappush(line, (taken + 1, cause))
    return found


def turn_of(redrive: bytes, letter: bytes) -> int:
    """The place of a letter among those of its cause.

    Seven of eight, drawn by chance, come last, seven of eight of the others before them, and so on, so that the first
    ones are of all hosts and ages; within such a share they follow their ids, so that a store finds them beside each
    other.
    """
    chance = int.from_bytes(blake2b(redrive + letter, digest_size=8).digest())
    share = 64 - ((chance & -chance).bit_length() + 2) // 3 if chance else 0
    return share << 56 | int.from_bytes(letter[:7])


FIRST_TURN = -(2**62)
"""Turns below zero are those of a redrive that begins with the oldest letter."""


def turn_by_age(failed_at: int) -> int:
    """The place of a letter among all of a redrive: by when it failed last."""
    return FIRST_TURN + failed_at


# --- verdicts ---------------------------------------------------------------------------------------------------------

Ending = Literal["succeeded", "retried", "buried", "discarded"]
Verdict = Literal["passed", "relapsed", "strayed", "dropped"]
Outcome = Literal["succeeded", "recurred", "otherwise", "discarded"]


def judged(ending: Ending, *, same: bool, judge: str) -> tuple[Outcome | None, Verdict | None]:
    """What an attempt says of a letter: how it has ended, if it has, and what it tells about the cause.

    `same`: it failed with the letter's own fingerprint. Waiting for the whole policy (`final`) a retry tells nothing.
    """
    match ending:
        case "succeeded":
            return "succeeded", "passed"
        case "discarded":
            return "discarded", "dropped"
        case "buried":
            return ("recurred", "relapsed") if same else ("otherwise", "strayed")
    return None, "relapsed" if same and judge == "first" else None

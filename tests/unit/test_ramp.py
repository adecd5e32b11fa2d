"""The ramp of a redrive: it stops where the cause is still there, and runs through where it is not."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.ramp import (
    FIRST_STAGES,
    Cause,
    Pace,
    evidence,
    next_step,
    paced,
    recurs,
    room,
    shared,
    stage_size,
    turn_of,
)

rule = settings(max_examples=200, deadline=None, database=None, derandomize=True)
BOUND = 0.2
Fate = Callable[[str], float]
"""With what probability a letter of a cause fails again as before."""


class Played:
    """A redrive of letters whose fate is drawn, driven by nothing but `next_step`."""

    def __init__(self, left: dict[str, int], fate: Fate, seed: int, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.causes = {name: Cause(left=n) for name, n in left.items()}
        self.stopped: frozenset[str] = frozenset()
        self.stage = 0
        self._fate = fate
        self._chance = random.Random(seed)

    @property
    def released(self) -> int:
        return sum(cause.released for cause in self.causes.values())

    def run(self) -> "Played":
        """To its end."""
        while (step := next_step(self.pace, self.causes, self.stage, self.stopped, 0)).action != "finish":
            assert step.action == "release"
            self.stage, self.stopped = step.stage, step.stopped
            self._release(step.count)
        self.stopped = step.stopped
        return self

    def _release(self, count: int) -> None:
        """Interleaved by cause; each answers at once."""
        while count:
            for name, cause in self.causes.items():
                if name in self.stopped or not cause.left or not count:
                    continue
                count -= 1
                again = self._chance.random() < self._fate(name)
                self.causes[name] = Cause(
                    released=cause.released + 1,
                    succeeded=cause.succeeded + (not again),
                    recurred=cause.recurred + again,
                    left=cause.left - 1,
                )


# --- the test for one cause -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15, 0.2])
def test_a_cause_below_the_bound_is_hardly_ever_stopped(share: float) -> None:
    """In at most 1 % of 500 cases, although it is asked after each of 1,000 answers."""
    chance, wrong = random.Random(1), 0
    for _ in range(500):
        recurred = 0
        for judged in range(1, 1_001):
            recurred += chance.random() < share
            if recurs(Cause(recurred=recurred, succeeded=judged - recurred), BOUND):
                wrong += 1
                break
    assert wrong <= 5


@pytest.mark.parametrize(("share", "within"), [(1.0, 4), (0.75, 20), (0.5, 60), (0.35, 400)])
def test_a_cause_above_the_bound_is_found(share: float, within: int) -> None:
    """The sooner the more often it recurs, in nine of ten cases within so many answers."""
    chance, found = random.Random(2), 0
    for _ in range(300):
        recurred = 0
        for judged in range(1, within + 1):
            recurred += chance.random() < share
            if recurs(Cause(recurred=recurred, succeeded=judged - recurred), BOUND):
                found += 1
                break
    assert found >= 270


@rule
@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.01, 0.9))
def test_each_recurrence_is_evidence_and_each_other_answer_is_none(recurred: int, others: int, bound: float) -> None:
    """It rises with every failure of the old kind, and falls with everything else."""
    judged = recurred + others
    assert evidence(recurred + 1, judged + 1, bound) > evidence(recurred, judged, bound)
    assert evidence(recurred, judged + 1, bound) < evidence(recurred, judged, bound)


def test_what_fails_of_something_new_is_no_recurrence() -> None:
    """It got past the old fault; it is reported apart."""
    assert recurs(Cause(recurred=4), BOUND)
    assert not recurs(Cause(otherwise=400), BOUND)
    assert not recurs(Cause(recurred=4, otherwise=20), BOUND)


# --- stages -----------------------------------------------------------------------------------------------------------


def test_after_the_last_stage_each_is_five_times_the_one_before() -> None:
    """And without stages everything goes at once."""
    assert [stage_size(number, FIRST_STAGES) for number in range(1, 7)] == [1, 5, 25, 125, 625, 3125]
    assert stage_size(3, (2,)) == 50
    assert stage_size(1, ()) is None


def test_a_stage_begins_when_the_one_before_is_judged() -> None:
    """Until then it waits, and pauses when that takes too long; what is late at the very end is waited for."""
    pace = Pace(stage_timeout=10)
    waiting = {"a": Cause(released=6, succeeded=5, left=10)}
    assert next_step(pace, waiting, 2, frozenset(), 9).action == "wait"
    assert next_step(pace, waiting, 2, frozenset(), 10).action == "pause"
    assert next_step(pace, {"a": Cause(released=6, succeeded=5)}, 2, frozenset(), 10).action == "wait"
    judged = {"a": Cause(released=6, succeeded=5, skipped=1, left=10)}
    step = next_step(pace, judged, 2, frozenset(), 0)
    assert (step.action, step.stage, step.count) == ("release", 3, 10)
    assert next_step(pace, {"a": Cause(released=6, succeeded=6)}, 2, frozenset(), 0).action == "finish"


def test_a_cause_that_recurs_stops_while_others_wait() -> None:
    """At once: nothing more of it is released, whatever the stage."""
    causes = {"a": Cause(released=6, recurred=5, left=10), "b": Cause(released=6, succeeded=6, left=10)}
    step = next_step(Pace(), causes, 2, frozenset(), 0)
    assert (step.action, set(step.stopped)) == ("wait", {"a"})
    assert next_step(Pace(stop_at=None), causes, 2, frozenset(), 0).stopped == frozenset()


# --- whole redrives, as the guarantees have them ----------------------------------------------------------------------


def test_a_cause_that_is_not_fixed_touches_only_the_first_stages() -> None:
    """12,000 letters: at most 31 are released, and nobody has to watch."""
    played = Played({"a": 12_000}, lambda name: 1.0, seed=1).run()
    assert (set(played.stopped), played.released) == ({"a"}, 6)


def test_one_that_is_half_fixed_stops_within_156() -> None:
    """In at least 95 % of 1,000 seeded redrives."""
    runs = [Played({"a": 12_000}, lambda name: 0.5, seed).run() for seed in range(1_000)]
    assert sum(run.stopped == {"a"} and run.released <= 156 for run in runs) >= 950


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
def test_one_that_is_fixed_runs_through(share: float) -> None:
    """In at least 99 % of 200 seeded redrives, also if a few fail again by chance."""
    runs = [Played({"a": 3_000}, lambda name: share, seed).run() for seed in range(200)]
    assert sum(not run.stopped and run.released == 3_000 for run in runs) >= 198


def test_a_small_cause_that_is_not_fixed_is_stopped_alone() -> None:
    """A tenth of the letters, among causes that are fixed, which run through."""
    letters = {"a": 1_500, "b": 1_200, "broken": 300}
    runs = [Played(letters, lambda name: 1.0 if name == "broken" else 0.0, seed).run() for seed in range(20)]
    for run in runs:
        assert run.stopped == {"broken"}
        assert (run.causes["a"].left, run.causes["b"].left) == (0, 0)
        assert run.causes["broken"].released <= 60


def test_without_stages_and_without_a_stop_all_go_at_once() -> None:
    """What `--no-ramp --no-stop` asks for."""
    played = Played({"a": 500}, lambda name: 1.0, 1, Pace(stages=(), stop_at=None)).run()
    assert (played.stage, played.released, played.stopped) == (1, 500, frozenset())


def test_a_rate_makes_room_and_is_used_up() -> None:
    """What was not used in a while is lost, so that nothing comes in a gush; the slots that are free bound it too."""
    assert room(None, None, 7, 0, 0) is None
    assert room(None, 10, 7, 0, 0) == 3
    now = 1_000_000_000
    assert room(4.0, None, 0, now, 0) == 1
    assert room(100.0, None, 0, now, 0) == 25
    at = paced(100.0, 25, now, 0)
    assert room(100.0, None, 0, now, at) == 0
    assert room(100.0, 3, 1, now + 100_000, at) == 2
    assert room(1 / 60, None, 0, now, 0) == 1


def test_causes_take_turns() -> None:
    """Those of which least went before come first; none gives more than it has."""
    assert shared({"a": (0, 100), "b": (0, 2), "c": (5, 9)}, 6) == {"a": 4, "b": 2}
    assert shared({"a": (0, 1), "b": (0, 0)}, 5) == {"a": 1}
    assert shared({}, 5) == {}


def test_the_first_of_a_cause_are_spread() -> None:
    """Of a thousand letters in a row the first fifty come from all parts of it, and each place is its own."""
    letters = [number.to_bytes(16) for number in (n << 72 for n in range(1_000))]
    order = sorted(range(1_000), key=lambda n: turn_of(b"redrive", letters[n]))
    assert order != sorted(order)
    assert {place // 250 for place in order[:50]} == {0, 1, 2, 3}
    assert sum(later > earlier for earlier, later in pairwise(order)) > 900
    assert max(turn_of(b"redrive", letter) for letter in letters) < 1 << 63

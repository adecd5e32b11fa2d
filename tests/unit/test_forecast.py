"""How long a redrive will take: from what was measured, and unknown where nothing was."""

import pytest

from redrive.forecast import Measured, forecast, measured, slots_for
from redrive.store import Count
from redrive.testing.factories import a_worker

KNOWN = {"mail": Measured(20, 2.0, True), "pay": Measured(10, 0.5, False)}


def count(name: str, n: int, task: str = "mail") -> Count:
    """So many in some minute."""
    return Count(minute=0, queue="default", task=task, name=name, n=n)


def test_runs_are_measured_by_their_histogram() -> None:
    """By the middle of each bar; other counts and other tasks are passed by."""
    counts = [count("lasted_10ms", 1), count("lasted_30ms", 3), count("started", 9), count("lasted_10ms", 5, "other")]
    found = measured(counts, ["mail", "pay"])
    assert found.keys() == {"mail"}
    assert (found["mail"].runs, found["mail"].succeeded) == (4, False)
    assert found["mail"].seconds == pytest.approx((6.5 + 3 * 20) / 4 / 1_000)


def test_it_takes_the_work_by_the_slots() -> None:
    """Stage after stage, each at least as long as one run."""
    found = forecast({"mail": 100}, KNOWN, [100], slots=10)
    assert found.seconds == pytest.approx(20.1)
    assert found.said.startswith("it takes about 20.1s, without retries (20 runs that went well took 2.0s")
    staged = forecast({"mail": 31}, KNOWN, [1, 5, 25], slots=10)
    assert staged.seconds == pytest.approx(2 + 2 + 5 + 0.3)


def test_a_rate_and_a_bound_slow_it_down() -> None:
    """Whichever is the slowest."""
    assert forecast({"mail": 100}, KNOWN, [100], slots=10, rate=1.0).seconds == pytest.approx(100.1)
    assert forecast({"mail": 100}, KNOWN, [100], slots=10, parallel=2).seconds == pytest.approx(100.1)
    assert "at least 1m40s" in forecast({"mail": 100}, KNOWN, [100], slots=10, rate=1.0).said


def test_runs_that_also_failed_are_called_so() -> None:
    assert "10 runs of the last day, also failed ones," in forecast({"pay": 4}, KNOWN, [4], slots=1).said


def test_what_nobody_measured_is_unknown() -> None:
    """And so is when nobody is there; a rate still says the least."""
    strange = forecast({"mail": 1, "new": 1}, KNOWN, [2], slots=1, rate=0.1)
    assert strange.seconds is None
    assert strange.said == (
        "how long it takes is unknown: no run of new was measured in the last day; by its rate at least 20.0s"
    )
    assert "nobody who is alive" in forecast({"mail": 1}, KNOWN, [1], slots=0).said


def test_slots_are_those_of_workers_that_could_run_it() -> None:
    """Alive, of the task, of the queue, and not stuck."""
    workers = [
        a_worker(slots=8, stuck=1, tasks=("mail",)),
        a_worker(slots=4, tasks=("mail",), queues=("email",)),
        a_worker(slots=16, tasks=("mail",), queues=("other",)),
        a_worker(slots=32, tasks=("pay",)),
        a_worker(slots=64, tasks=("mail",), state="draining"),
    ]
    assert slots_for(workers, ["mail"], ["email"]) == 11

"""Which successes are kept: a few of each task, evenly by chance, and hardly any work for the rest."""

import random
from collections import Counter

import pytest

from redrive.sampling import HORIZON, SIZE, Sampler


def run(sampler: Sampler, n: int, task: str = "t", before: int = 0) -> tuple[dict[int, int], int]:
    """What is kept after n successes, by place, and how often one was."""
    kept: dict[int, int] = {}
    times = 0
    for number in range(n):
        if not sampler.passes(task):
            place, seen = sampler.place(task, lambda: before)
            assert seen == before + number + 1
            kept[place] = number
            times += 1
    return kept, times


def test_the_first_are_all_kept() -> None:
    assert run(Sampler(random.Random(1)), SIZE) == ({place: place for place in range(SIZE)}, SIZE)


def test_the_sample_is_even_over_what_there_was() -> None:
    """Each tenth of 5,000 successes has about a tenth of it; summed over 40 runs, five deviations aside."""
    tenths: Counter[int] = Counter()
    for seed in range(40):
        kept, _ = run(Sampler(random.Random(seed)), 5_000)
        assert sorted(kept) == list(range(SIZE))
        tenths.update(number // 500 for number in kept.values())
    expected = 40 * SIZE / 10
    assert [n for n in tenths.values() if abs(n - expected) > 5 * (expected * 0.9) ** 0.5] == []


def test_few_are_kept_later() -> None:
    """After the first thousands about one of two hundred, and never fewer: the sample follows what is recent."""
    _, times = run(Sampler(random.Random(3)), 100_000, before=HORIZON)
    assert 400 < times < 600


def test_a_process_goes_on_where_another_was() -> None:
    """It asks once how many there were, and skips as if it had seen all of them."""
    sampler, asked = Sampler(random.Random(5)), []
    for _ in range(1_000):
        if not sampler.passes("t"):
            sampler.place("t", lambda: asked.append(1) or HORIZON)  # type: ignore[func-returns-value]
    assert asked == [1]
    assert len(run(Sampler(random.Random(5)), 1_000, before=HORIZON)[0]) < 40


@pytest.mark.parametrize("others", [0, 50])
def test_tasks_do_not_disturb_each_other(others: int) -> None:
    sampler = Sampler(random.Random(1))
    for number in range(others):
        run(sampler, 10, task=f"other {number}")
    kept, _ = run(sampler, SIZE)
    assert len(kept) == SIZE

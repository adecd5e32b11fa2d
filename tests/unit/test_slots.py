"""Slots: what a worker may take, and what it asks for turn by turn."""

from typing import Any

import pytest

from redrive import Redrive
from redrive.config import Config
from redrive.errors import UsageError
from redrive.job import Job, new_id
from redrive.slots import GLANCE, Appetite, Slots, queue_caps, slot_count

SIZES = {"loop": 4, "thread": 2, "process": 1}


def an_app(*tasks: str) -> Redrive:
    """An app with one task of each of these kinds."""
    app = Redrive("memory://", config=Config())

    async def on_loop() -> None: ...

    def plain() -> None: ...

    if "loop" in tasks:
        app.task(name="loop")(on_loop)
    if "thread" in tasks:
        app.task(name="thread")(plain)
    if "process" in tasks:
        app.task(name="process", isolation="process")(lambda: None)
    return app


def some_slots(*tasks: str, queues: Any = None, apart: bool = True) -> Slots:
    """The slots of a worker of such an app."""
    return Slots(an_app(*tasks).registry, SIZES, queues, apart)


def a_job(task: str, **options: Any) -> Job:
    return Job(id=new_id(), task=task, payload=b"{}", **options)


def taken(slots: Slots, task: str, n: int = 1, **options: Any) -> list[Job]:
    """So many jobs of a task have begun."""
    jobs = [a_job(task, **options) for _ in range(n)]
    for job in jobs:
        slots.take(job)
    return jobs


def test_a_job_takes_the_slot_of_its_kind_and_gives_it_back() -> None:
    """And of no other."""
    slots = some_slots("loop", "thread")
    [job] = taken(slots, "thread")
    assert (slots.free("thread"), slots.free("loop"), slots.idle) == (1, 4, False)
    slots.give(job)
    assert (slots.free("thread"), slots.idle) == (2, True)


def test_a_suspect_takes_a_child_where_there_are_any() -> None:
    """Else the slot of its kind, and the whole worker with it."""
    suspect = a_job("loop", suspect=1)
    assert some_slots("loop").kind(suspect) == "process"
    slots = some_slots("loop", apart=False)
    slots.take(suspect)
    assert (slots.free("loop"), slots.given_over) == (3, True)
    slots.give(suspect)
    assert not slots.given_over


def test_an_unknown_task_takes_a_slot_of_the_loop() -> None:
    """It is only set aside there."""
    assert some_slots("thread").kind(a_job("new")) == "loop"


def test_a_stuck_handler_keeps_its_slot() -> None:
    """Its job has ended, its thread has not."""
    slots = some_slots("thread")
    slots.stuck["thread"] = 1
    assert slots.free("thread") == 1


def test_the_limit_fits_the_scarcest_kind_and_full_kinds_are_left_out() -> None:
    """Whatever tasks come, there is a slot for each."""
    slots = some_slots("loop", "thread")
    appetite = Appetite(slots, "w", 30)
    first = appetite.want(0)
    assert first is not None
    appetite.came(first, [])  # nothing of the kind is about: no more care is needed
    assert _asked(appetite, 0) == (2, (), True)
    threads = taken(slots, "thread", 2)
    assert _asked(appetite, 0) == (4, ("thread",), True)
    taken(slots, "loop", 4)
    assert appetite.want(0) is None
    slots.give(threads[0])
    assert _asked(appetite, 0) == (1, ("loop",), True)


def _asked(appetite: Appetite, now: float) -> tuple[int, tuple[str, ...], bool]:
    want = appetite.want(now)
    assert want is not None
    return want.limit, want.without, want.suspects


def test_isolated_tasks_do_not_make_every_claim_small() -> None:
    """One look at everything, then larger claims without them, and another look before long."""
    slots = some_slots("loop", "process")
    appetite = Appetite(slots, "w", 30)
    want = appetite.want(0)
    assert want is not None
    assert (want.limit, want.without, appetite.whole) == (1, (), True)
    appetite.came(want, taken(slots, "loop"))
    want = appetite.want(GLANCE / 2)
    assert want is not None
    assert (want.limit, want.without, want.suspects, appetite.whole) == (3, ("process",), False, False)
    appetite.came(want, taken(slots, "loop", want.limit - 1))
    assert _asked(appetite, GLANCE / 2) == (1, (), True)
    assert appetite.whole


def test_a_claim_that_came_back_short_is_followed_by_a_look_at_everything() -> None:
    """So that no worker rests while there is an isolated job to run."""
    slots = some_slots("loop", "process")
    appetite = Appetite(slots, "w", 30)
    want = appetite.want(0)
    assert want is not None
    appetite.came(want, taken(slots, "loop"))
    bulk = appetite.want(0)
    assert bulk is not None
    assert not appetite.whole
    appetite.came(bulk, [])
    assert appetite.want(0) is not None
    assert appetite.whole


def test_suspects_come_as_many_as_there_are_children_for() -> None:
    """The first look may bring one; while it runs, none is asked for; and care lasts until a look brings none."""
    slots = some_slots("loop")
    appetite = Appetite(slots, "w", 30)
    want = appetite.want(0)
    assert want is not None
    assert (want.limit, want.suspects) == (1, True)
    [suspect] = taken(slots, "loop", suspect=1)
    appetite.came(want, [suspect])
    assert _asked(appetite, 1)[2] is False
    slots.give(suspect)
    assert _asked(appetite, 2) == (1, (), True)


def test_without_children_a_suspect_is_asked_for_by_itself_when_nothing_runs() -> None:
    """And while it runs nothing is asked for at all."""
    slots = some_slots("loop", apart=False)
    appetite = Appetite(slots, "w", 30)
    want = appetite.want(0)
    assert want is not None
    assert (want.limit, want.suspects) == (1, True)
    [suspect] = taken(slots, "loop", suspect=1)
    appetite.came(want, [suspect])
    assert appetite.want(0) is None
    slots.give(suspect)
    [plain] = taken(slots, "loop")
    assert _asked(appetite, 0) == (3, (), False)
    slots.give(plain)


def test_queues_with_caps() -> None:
    """What a queue has taken is taken from its cap; one that is full is not asked for, and none is nothing."""
    slots = some_slots("loop", queues={"a": 1, "b": None})
    assert slots.open_queues() == {"a": 1, "b": 4}
    taken(slots, "loop", queue="a")
    assert slots.open_queues() == {"b": 4}
    full = some_slots("loop", queues={"a": 1})
    taken(full, "loop", queue="a")
    assert Appetite(full, "w", 30).want(0) is None


def test_a_task_registered_later_counts() -> None:
    """Modules may be imported while a worker runs."""
    app = an_app("loop")
    slots = Slots(app.registry, SIZES, None, apart=True)
    assert (slots.kinds, slots.total) == ({"loop"}, 4)
    app.task(name="later")(lambda: None)
    assert (slots.kinds, slots.total) == ({"loop", "thread"}, 6)


def test_sizes_and_queues_as_they_are_given() -> None:
    """Checked where they are written."""
    assert (slot_count("threads", None, 8), slot_count("threads", 3, 8)) == (8, 3)
    for wrong in (0, -1, True, "3"):
        with pytest.raises(UsageError, match="threads="):
            slot_count("threads", wrong, 8)  # type: ignore[arg-type]
    assert queue_caps(["a", "b"]) == {"a": None, "b": None}
    assert queue_caps({"a": 2}) == {"a": 2}
    assert queue_caps([]) is queue_caps({}) is queue_caps(None) is None
    with pytest.raises(UsageError, match=r"write queues=\['email'\]"):
        queue_caps("email")

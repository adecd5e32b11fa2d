"""The settler: settlements go in batches, in order, and none is lost on the way."""

import pytest

from redrive.clock import ManualClock
from redrive.errors import StoreFull, StoreUnavailable
from redrive.job import Job, State
from redrive.settler import BATCH, Settler
from redrive.store import AnySettlement, Done, Released
from redrive.stores.memory import MemoryStore
from redrive.testing.factories import added_many, claimed, state_of, wanted
from redrive.testing.flaky import FlakyStore

pytestmark = pytest.mark.anyio


class Desk:
    """A settler on a flaky store, and what it reported."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = FlakyStore(MemoryStore(clock=self.clock))
        self.told: list[tuple[str, bool]] = []
        self.settler = Settler(self.store, self.clock, self.settled)

    def settled(self, settlement: AnySettlement, late: bool) -> None:
        self.told.append((settlement.job.id, late))

    async def jobs(self, n: int) -> list[Job]:
        """So many leased jobs."""
        await added_many(self.store, n)
        return await claimed(self.store, n)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_what_has_gathered_goes_with_the_next_claim(desk: Desk) -> None:
    """One round trip for both."""
    jobs = await desk.jobs(3)
    for job in jobs:
        desk.settler.add(Released(job=job, at=0, why="drains"))
    turn = await desk.settler.turn(wanted())
    assert {job.id for job in turn.jobs} == {job.id for job in jobs}
    assert desk.told == [(job.id, False) for job in jobs]
    assert (len(desk.settler), desk.store.calls.count("jobs.turn")) == (0, 1)


async def test_a_batch_is_bounded(desk: Desk) -> None:
    """What is beyond it goes next."""
    for job in await desk.jobs(BATCH + 3):
        desk.settler.add(Done(job=job))
    await desk.settler.turn(None)
    assert len(desk.settler) == 3
    await desk.settler.turn(None)
    assert len(desk.told) == BATCH + 3


async def test_an_error_of_the_store_keeps_everything_in_order(desk: Desk) -> None:
    """Also what was added meanwhile."""
    jobs = await desk.jobs(3)
    for job in jobs[:2]:
        desk.settler.add(Done(job=job))
    desk.store.raise_once("jobs.turn", StoreFull("no space"))
    with pytest.raises(StoreFull):
        await desk.settler.turn(None)
    assert desk.told == []
    desk.settler.add(Done(job=jobs[2]))
    await desk.settler.turn(None)
    assert desk.told == [(job.id, False) for job in jobs]


async def test_late_after_an_unknown_outcome_is_not_late(desk: Desk) -> None:
    """The first try had arrived; another that is late later on is late."""
    [job] = await desk.jobs(1)
    desk.settler.add(Done(job=job))
    desk.store.lose_answers("jobs.turn")
    with pytest.raises(StoreUnavailable):
        await desk.settler.turn(None)
    await desk.settler.turn(None)
    assert desk.told == [(job.id, False)]
    desk.settler.add(Done(job=job))
    await desk.settler.turn(None)
    assert desk.told[1:] == [(job.id, True)]


async def test_a_settlement_nobody_can_write_is_found_alone(desk: Desk) -> None:
    """Its neighbours are settled as they are, it becomes a failure, and claiming waits until it is over."""
    jobs = await desk.jobs(3)
    for job in jobs:
        desk.settler.add(Done(job=job))
    desk.store.raise_once("jobs.turn", OverflowError("three of them"))
    desk.store.raise_once("jobs.turn", OverflowError("the first of them"))
    while len(desk.settler):
        assert (await desk.settler.turn(wanted())).jobs == []
    assert [late for _, late in desk.told] == [False] * 3
    states = [await state_of(desk.store.real, job.id) for job in jobs]
    assert states == [State.SCHEDULED, State.DONE, State.DONE]
    record = await desk.store.real.jobs.get(jobs[0].id)
    assert record is not None
    assert "OverflowError: the first of them" in record.failures[0].message
    assert len((await desk.settler.turn(wanted(1))).jobs) <= 1


async def test_one_that_cannot_be_written_in_any_form_is_let_go(desk: Desk) -> None:
    """Its lease ends, and others find it; nothing else waits for it."""
    bad, good = await desk.jobs(2)
    desk.settler.add(Done(job=bad))
    for text in ("as it is", "as a minimal failure"):
        desk.store.raise_once("jobs.turn", OverflowError(text))
    await desk.settler.turn(None)
    with pytest.raises(OverflowError, match="as a minimal failure"):
        await desk.settler.turn(None)
    assert desk.told == [(bad.id, True)]
    desk.settler.add(Done(job=good))
    await desk.settler.turn(None)
    assert desk.told[1:] == [(good.id, False)]
    assert await state_of(desk.store.real, bad.id) == State.LEASED

"""Rules of workers, duties and wake-ups."""

import asyncio
import time

from redrive.clock import ManualClock
from redrive.store import Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import LEASE, a_worker, added, leased

ENOUGH = 10.0
"""Seconds after which a wake-up that has not come is missing."""


class WorkerRules(Rules):
    """What the workers facet and `wait` promise."""

    async def test_a_worker_that_beats_is_found(self, store: Store, clock: ManualClock) -> None:
        """With everything that it said of itself."""
        worker = a_worker(
            lock_device=2**63, lock_inode=2**64 - 1, release="v2", tasks=("a", "b"), queues=("q",), slots=8, stuck=1
        )
        assert await store.workers.beat(worker, LEASE) is None
        [found] = await store.workers.find()
        assert (found.id, found.host, found.boot, found.pid) == ("w1", "host-1", "boot-1", 4711)
        assert (found.lock_device, found.lock_inode) == (2**63, 2**64 - 1)
        assert (found.release, found.tasks, found.queues) == ("v2", ("a", "b"), ("q",))
        assert (found.slots, found.stuck, found.state, found.beat_at) == (8, 1, "running", clock.now())

    async def test_a_later_beat_replaces_the_earlier(self, store: Store) -> None:
        """One row per worker: what it runs now, and its state now."""
        await store.workers.beat(a_worker(running=("a",)), LEASE)
        await store.workers.beat(a_worker(running=("b", "c"), state="draining"), LEASE)
        [found] = await store.workers.find()
        assert (found.running, found.state) == (("b", "c"), "draining")

    async def test_a_worker_whose_beat_is_over_is_not_found(self, store: Store, clock: ManualClock) -> None:
        """Until then it is, whatever the wall clock says."""
        await store.workers.beat(a_worker(), LEASE)
        clock.set_wall(clock.now() + 10**12)
        assert len(await store.workers.find()) == 1
        clock.advance(31)
        assert await store.workers.find() == []

    async def test_a_silent_worker_is_found_while_it_holds_leases(self, store: Store, clock: ManualClock) -> None:
        """Somebody has to look after its jobs."""
        await store.workers.beat(a_worker(), LEASE)
        job = await leased(store)
        clock.advance(31)
        assert [worker.id for worker in await store.workers.find()] == ["w1"]
        await store.jobs.cancel([job.id], "alice")
        assert await store.workers.find() == []

    async def test_a_worker_that_left_is_not_found(self, store: Store) -> None:
        """Leaving twice, or without having been there, is no error."""
        await store.workers.beat(a_worker(), LEASE)
        await store.workers.beat(a_worker(id="w2"), LEASE)
        await store.workers.leave("w1")
        await store.workers.leave("w1")
        assert [worker.id for worker in await store.workers.find()] == ["w2"]

    async def test_a_worker_is_told_at_its_next_beat(self, store: Store) -> None:
        """The order is left for that worker alone, and the journal says who gave it."""
        for name in ("w1", "w2"):
            await store.workers.beat(a_worker(id=name), LEASE)
        assert await store.workers.tell("w1", "drain", "alice")
        assert await store.workers.beat(a_worker(id="w2"), LEASE) is None
        assert await store.workers.beat(a_worker(id="w1"), LEASE) == "drain"
        assert "alice" in [entry.actor for entry in await store.journal.events()]

    async def test_nobody_of_that_name_can_be_told(self, store: Store) -> None:
        """False, and nothing is left behind."""
        assert not await store.workers.tell("nobody", "drain", "alice")
        assert await store.workers.beat(a_worker(id="nobody"), LEASE) is None

    async def test_a_duty_is_held_by_one_at_a_time_and_passes_on_after_its_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Its holder keeps it by asking again; another gets it once it was let go."""
        assert await store.workers.duty("reaper", "a", LEASE)
        assert not await store.workers.duty("reaper", "b", LEASE)
        assert await store.workers.duty("pruner", "b", LEASE)
        clock.advance(20)
        assert await store.workers.duty("reaper", "a", LEASE)
        clock.advance(29)
        assert not await store.workers.duty("reaper", "b", LEASE)
        clock.advance(1)
        assert await store.workers.duty("reaper", "b", LEASE)
        assert not await store.workers.duty("reaper", "a", LEASE)

    async def test_who_leaves_frees_its_duties(self, store: Store) -> None:
        """Another one takes them at once; those of others stay where they are."""
        assert await store.workers.duty("redriver", "a", LEASE)
        assert await store.workers.duty("pruner", "b", LEASE)
        await store.workers.leave("a")
        assert await store.workers.duty("redriver", "c", LEASE)
        assert not await store.workers.duty("pruner", "c", LEASE)

    async def test_a_duty_of_another_boot_is_free(self, store: Store, opener: Opener) -> None:
        """Its holder is gone with the machine's last life."""
        assert await store.workers.duty("reaper", "a", LEASE)
        assert await (await opener(boot="next-boot")).workers.duty("reaper", "b", LEASE)

    async def test_a_wait_ends_at_its_timeout(self, store: Store) -> None:
        """With nothing to do it answers False, not early and not much later."""
        begin = time.monotonic()
        assert not await store.wait("w1", 0.05)
        assert 0.04 <= time.monotonic() - begin < ENOUGH

    async def test_a_wake_up_comes_when_a_job_is_added(self, store: Store, opener: Opener) -> None:
        """Whoever adds it, a resting listener is told at once."""
        assert not await store.wait("w1", 0.01)
        waiting = asyncio.create_task(store.wait("w1", ENOUGH))
        await asyncio.sleep(0)
        begin = time.monotonic()
        await added(await opener())
        assert await waiting
        assert time.monotonic() - begin < ENOUGH / 2

    async def test_a_job_that_is_due_in_a_moment_wakes_too(self, store: Store, clock: ManualClock) -> None:
        """Who rests for a second has to hear of a job that is due before."""
        assert not await store.wait("w1", 0.01)
        await added(store, due_at=clock.now() + 300_000)
        assert await store.wait("w1", ENOUGH)

    async def test_a_wake_up_between_two_waits_is_not_lost(self, store: Store, opener: Opener) -> None:
        """A listener that was busy hears of it when it rests again; many hints are one."""
        assert not await store.wait("w1", 0.01)
        other = await opener()
        for _ in range(3):
            await added(other)
        assert await store.wait("w1", ENOUGH)
        assert not await store.wait("w1", 0.01)

    async def test_every_listener_is_woken(self, store: Store, opener: Opener) -> None:
        """Each has its own hint."""
        other = await opener()
        for name, each in (("w1", store), ("w2", other)):
            assert not await each.wait(name, 0.01)
        waits = asyncio.gather(store.wait("w1", ENOUGH), other.wait("w2", ENOUGH))
        await asyncio.sleep(0)
        await added(store)
        assert all(await waits)

    async def test_a_store_says_what_it_is(self, store: Store, opener: Opener) -> None:
        """Its address is the same for all who open it, and the doctor gets an answer."""
        assert store.url == (await opener()).url
        assert store.url.startswith(store.traits.engine + ":")
        assert await store.check()

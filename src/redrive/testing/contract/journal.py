"""Rules of the journal: what goes off the happy path has a row, what goes well costs a count."""

from collections import Counter

import pytest

from redrive.clock import SECOND, ManualClock
from redrive.store import Done, Released, Retried, Snoozed, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    LEASE,
    a_failure,
    added,
    added_many,
    buried,
    claimed,
    discarded,
    done,
    entries_of,
    leased,
    settled,
    totals,
)

MINUTE = 60 * SECOND


class JournalRules(Rules):
    """What the journal facet promises."""

    async def test_a_success_writes_no_journal_row(self, store: Store) -> None:
        """The happy path costs counters only."""
        await done(store)
        assert await store.journal.events() == []
        counts = await totals(store)
        assert (counts["enqueued"], counts["started"], counts["done"]) == (1, 1, 1)

    async def test_journal_all_records_every_transition(self, opener: Opener) -> None:
        """With `journal = "all"` the happy path can be read too."""
        store = await opener(journal="all")
        job = await done(store)
        events = [entry.event for entry in await entries_of(store, job.id)]
        assert events == ["job.enqueued", "job.started", "job.succeeded"]

    async def test_every_step_off_the_happy_path_has_a_row(self, store: Store) -> None:
        """In the order in which they happened, with the names that subscribers know."""
        job = await leased(store)
        await settled(store, Snoozed(job=job, until=0))
        await settled(store, Released(job=(await claimed(store))[0], at=0, why="drains"))
        await settled(store, Retried(job=(await claimed(store))[0], at=0, failure=a_failure()))
        await settled(store, Done(job=(await claimed(store))[0]))
        events = [entry.event for entry in await entries_of(store, job.id)]
        assert events == ["job.snoozed", "job.released", "job.retried"]

    async def test_a_row_tells_of_its_attempt(self, store: Store, clock: ManualClock) -> None:
        """Task, queue, epoch, the attempt that failed, reason and worker; and when."""
        job = await buried(store, queue="email")
        [entry] = await entries_of(store, job.id)
        assert (entry.event, entry.at, entry.job) == ("job.buried", clock.now(), job.id)
        assert (entry.task, entry.queue, entry.epoch, entry.attempt) == (job.task, "email", 1, 1)
        assert (entry.reason, entry.worker) == ("network", "w1")

    async def test_a_takeover_has_a_row(self, store: Store) -> None:
        """It names who was lost."""
        job = await leased(store)
        await store.jobs.reap("reaper", ["w1"], 10, LEASE)
        [entry] = await entries_of(store, job.id)
        assert "w1" in (entry.worker, entry.text)

    async def test_events_are_paged_by_sequence(self, store: Store) -> None:
        """Numbers rise, pages neither repeat nor leave out, and a job's own rows can be asked for."""
        jobs = [await buried(store) for _ in range(3)]
        first = await store.journal.events(limit=2)
        rest = await store.journal.events(after=first[-1].seq)
        assert [entry.job for entry in (*first, *rest)] == [job.id for job in jobs]
        numbers = [entry.seq for entry in (*first, *rest)]
        assert numbers == sorted(set(numbers))
        assert [entry.job for entry in await store.journal.events(job=jobs[1].id)] == [jobs[1].id]
        assert await store.journal.events(after=numbers[-1]) == []

    async def test_latest_answers_the_last_ones_oldest_first(self, store: Store) -> None:
        """As a person reads them."""
        for number in range(3):
            await store.journal.note("tick", text=str(number))
        assert [entry.text for entry in await store.journal.latest(2)] == ["1", "2"]
        assert await store.journal.latest(0) == []

    async def test_a_note_belongs_to_no_job(self, store: Store, clock: ManualClock) -> None:
        """It says what was given, and when."""
        await store.journal.note("config.changed", actor="alice", worker="w9", text="lease 60s \x00 ☃")
        [entry] = await store.journal.events()
        assert (entry.event, entry.actor, entry.worker, entry.text) == (
            "config.changed",
            "alice",
            "w9",
            "lease 60s \x00 ☃",
        )
        assert (entry.job, entry.at) == (None, clock.now())

    async def test_counters_are_per_minute_queue_and_task(self, store: Store, clock: ManualClock) -> None:
        """Each count stands under the minute in which it happened, workers and priorities added up."""
        begin = clock.now() // MINUTE * MINUTE
        await added(store, queue="a", task="t")
        await added(store, queue="a", task="t", priority=9)
        clock.advance(60)
        await added(store, queue="b", task="t")
        counts = {(c.minute, c.queue, c.task): c.n for c in await store.journal.counters() if c.name == "enqueued"}
        assert counts == {(begin, "a", "t"): 2, (begin + MINUTE, "b", "t"): 1}
        since = await store.journal.counters(since=begin + MINUTE)
        assert {c.minute for c in since} == {begin + MINUTE}

    async def test_crashes_are_counted(self, store: Store) -> None:
        """A crash is a failure of its own kind."""
        job = await leased(store)
        await settled(store, Retried(job=job, at=0, failure=a_failure(reason="crashed"), spend=0, crashed=1))
        counts = await totals(store)
        assert (counts["crashed"], counts["failed"], counts["retried"]) == (1, 1, 1)

    @pytest.mark.parametrize(
        ("duration", "name"),
        [(0, "lasted_1ms"), (1_000, "lasted_1ms"), (1_001, "lasted_3ms"), (1_000_000_000, "lasted_1000000ms"),
         (1_000_000_001, "lasted_longer"), (2**50, "lasted_longer")],
    )  # fmt: skip
    async def test_how_long_a_run_lasted_is_counted(self, store: Store, duration: int, name: str) -> None:
        """In the part of the histogram that holds its duration."""
        await settled(store, Done(job=await leased(store), duration=duration))
        assert _lasted(await totals(store)) == {name: 1}

    async def test_every_run_is_in_the_histogram_once(self, store: Store) -> None:
        """Failed and snoozed ones too; what never ran and what came too late is not."""
        job = await leased(store)
        await settled(store, Retried(job=job, at=0, failure=a_failure(), duration=2_000))
        [job] = await claimed(store)
        await settled(store, Snoozed(job=job, until=0, duration=40_000))
        [job] = await claimed(store)
        await settled(store, Released(job=job, at=0, why="drains", ran=False))
        [job] = await claimed(store)
        await settled(store, Done(job=job, duration=2_500))
        await store.jobs.settle([Done(job=job, duration=2_500)])
        assert _lasted(await totals(store)) == {"lasted_3ms": 2, "lasted_100ms": 1}

    async def test_a_sample_says_how_deep_each_queue_is(self, store: Store, clock: ManualClock) -> None:
        """Scheduled, ready, leased and open letters, under the minute in which it was taken, and of no task."""
        await leased(store, queue="b")
        await buried(store, queue="a", failure=a_failure())
        await added_many(store, 2, queue="a")
        await added(store, queue="a", due_at=clock.now() + SECOND)
        await store.journal.sample()
        minute = clock.now() // MINUTE * MINUTE
        assert await _samples(store) == {
            (minute, "a", "", "depth_scheduled"): 1,
            (minute, "a", "", "depth_ready"): 2,
            (minute, "a", "", "letters_open"): 1,
            (minute, "b", "", "depth_leased"): 1,
        }

    async def test_the_last_sample_of_a_minute_counts(self, store: Store, clock: ManualClock) -> None:
        """It is set, not added; nothing is a sample too where there was something before, and elsewhere no row."""
        begin = clock.now() // MINUTE * MINUTE
        await added(store)
        await store.journal.sample()
        await store.journal.sample()
        assert await _samples(store) == {(begin, "default", "", "depth_ready"): 1}
        await settled(store, Done(job=(await claimed(store))[0]))
        await store.journal.sample()
        assert await _samples(store) == {(begin, "default", "", "depth_ready"): 0}
        clock.advance(60)
        await store.journal.sample()
        assert await _samples(store) == {(begin, "default", "", "depth_ready"): 0}

    async def test_a_merge_leaves_every_sum_as_it_was(self, store: Store, clock: ManualClock) -> None:
        """Counts of all workers and priorities are folded in shares until there is nothing to fold."""
        for priority in (2, 5, 8):
            await added_many(store, 2, priority=priority)
        for worker in ("w1", "w2", "w3"):
            for job in await claimed(store, 2, worker=worker):
                await settled(store, Done(job=job))
        await store.journal.sample()
        clock.advance(60)
        await added(store)
        before = await store.journal.counters()
        shares = [await store.journal.merge(4)]
        while shares[-1] == 4:
            shares.append(await store.journal.merge(4))
        assert all(share <= 4 for share in shares)
        assert await store.journal.merge(100) == 0
        assert await store.journal.counters() == before

    async def test_what_is_counted_after_a_merge_is_added(self, store: Store, clock: ManualClock) -> None:
        """A clock that was set back writes into a minute that was merged; that is merged as well."""
        now = clock.now()
        await added(store)
        clock.advance(60)
        await store.journal.merge(100)
        clock.set_wall(now)
        await added(store)
        clock.set_wall(now + MINUTE)
        await store.journal.merge(100)
        assert [count.n for count in await store.journal.counters() if count.name == "enqueued"] == [2]

    async def test_the_ledger_adds_up(self, store: Store, clock: ManualClock) -> None:
        """Enqueued is done plus live plus dead plus discarded, also after pruning."""
        await done(store)
        await buried(store)
        await discarded(store)
        await leased(store)
        await added(store)
        clock.advance("60d")
        await store.jobs.prune(100)
        counts = await totals(store)
        [depth] = await store.jobs.depth(["default"])
        alive = depth.scheduled + depth.ready + depth.leased + depth.dead
        assert counts["enqueued"] == counts["done"] + counts["discarded"] + alive == 5


def _lasted(counts: Counter[str]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if name.startswith("lasted_")}


async def _samples(store: Store) -> dict[tuple[int, str, str, str], int]:
    return {
        (count.minute, count.queue, count.task, count.name): count.n
        for count in await store.journal.counters()
        if count.name.startswith("depth_") or count.name == "letters_open"
    }

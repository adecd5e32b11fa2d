"""Rules of the journal: what goes off the happy path has a row, what goes well costs a count."""

from redrive.clock import SECOND, ManualClock
from redrive.store import Done, Released, Retried, Snoozed, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    LEASE,
    a_failure,
    added,
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

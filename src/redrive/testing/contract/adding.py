"""Rules of adding: what is accepted is kept as it came, and only once."""

from typing import Any

import msgspec
import pytest

from redrive.clock import SECOND, ManualClock
from redrive.errors import UsageError
from redrive.job import PAYLOAD_LIMIT, Job, State
from redrive.store import Accepted, Done, Existing, Gate, Refused, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    a_job,
    added,
    buried,
    claimed,
    depth_of,
    discarded,
    done,
    leased,
    live,
    settled,
    state_of,
    totals,
    wanted,
)

ODD_PAYLOADS = [
    b"null",
    b'{"a":[],"b":{}}',
    b'{ "spaced" : 1.0 , "again":1.00 }',
    b"123456789012345678901234567890",
    b'"\\ud800 half a pair, as JSON may write it"',
    b'"\\u0000"',
    b'{"twice":1,"twice":2}',
    '"\'; drop table jobs; -- ☃ \u202e"'.encode(),
    b"\x00\xff not even text",
    b'"' + b"x" * (PAYLOAD_LIMIT - 2) + b'"',
]
ENDED = {State.LEASED: leased, State.DONE: done, State.DEAD: buried, State.DISCARDED: discarded}


class AddingRules(Rules):
    """What `add` promises."""

    async def test_an_accepted_job_is_there_for_everybody(self, store: Store, opener: Opener) -> None:
        """What was accepted is seen at once by whoever else has the store open."""
        job = await added(store)
        assert (await live(await opener(), job.id)).task == job.task

    async def test_answers_come_in_the_order_of_the_jobs(self, store: Store) -> None:
        """The n-th answer is about the n-th job."""
        first, second, third = await added(store), a_job(), a_job()
        answers = await store.jobs.add([second, first, third])
        assert answers == [Accepted(second.id), Existing(first.id, State.READY), Accepted(third.id)]

    async def test_adding_nothing_answers_nothing(self, store: Store) -> None:
        """An empty batch is a batch."""
        assert await store.jobs.add([]) == []

    async def test_a_job_is_added_once(self, store: Store) -> None:
        """After an unknown outcome the client adds again with the same id, and one job results."""
        job = await added(store)
        assert await store.jobs.add([job]) == [Existing(job.id, State.READY)]
        assert (await depth_of(store)).ready == 1
        assert [each.id for each in await store.jobs.claim(wanted())] == [job.id]

    async def test_a_duplicate_leaves_the_first_as_it_was(self, store: Store) -> None:
        """The second job of an id may differ; the first one stays."""
        job = await added(store, payload=b"1")
        await store.jobs.add([msgspec.structs.replace(job, payload=b"2", queue="other", priority=9)])
        kept = await live(store, job.id)
        assert (kept.payload, kept.queue, kept.priority) == (b"1", "default", 5)
        assert (await depth_of(store, "other")).ready == 0

    @pytest.mark.parametrize("state", ENDED)
    async def test_an_id_stays_taken_whatever_became_of_the_job(self, store: Store, state: State) -> None:
        """The same id after an end is Existing, with the state it ended in, and nothing runs again."""
        job = await ENDED[state](store)
        assert await store.jobs.add([a_job(id=job.id)]) == [Existing(job.id, state)]
        assert await state_of(store, job.id) == state
        assert await store.jobs.claim(wanted()) == []

    async def test_duplicates_within_one_batch_become_one_job(self, store: Store) -> None:
        """A batch may name a job or a key twice; the second is answered as existing."""
        job = a_job(key="k")
        answers = await store.jobs.add([job, job, a_job(key="k")])
        assert answers == [Accepted(job.id), Existing(job.id, State.READY), Existing(job.id, State.READY)]
        assert (await depth_of(store)).ready == 1

    async def test_a_key_is_held_while_its_job_waits_runs_or_is_dead(self, store: Store) -> None:
        """A duplicate is answered with the job that holds the key."""
        first = await added(store, key="k")
        assert await store.jobs.add([a_job(key="k")]) == [Existing(first.id, State.READY)]
        [job] = await claimed(store)
        assert await store.jobs.add([a_job(key="k")]) == [Existing(first.id, State.LEASED)]
        await settled(store, Done(job=job))
        dead = await buried(store, key="other")
        assert await store.jobs.add([a_job(key="other")]) == [Existing(dead.id, State.DEAD)]

    async def test_a_key_is_held_while_its_job_is_scheduled(self, store: Store, clock: ManualClock) -> None:
        """A job that waits for its time holds its key."""
        first = await added(store, key="k", due_at=clock.now() + SECOND)
        assert await store.jobs.add([a_job(key="k")]) == [Existing(first.id, State.SCHEDULED)]

    async def test_a_key_is_held_for_a_day_after_done(self, store: Store, clock: ManualClock) -> None:
        """For 24 hours after its job is done a key makes no second one; then it is free, pruned or not."""
        first = await done(store, key="k")
        clock.advance("23h59m")
        assert await store.jobs.add([a_job(key="k")]) == [Existing(first.id, State.DONE)]
        clock.advance("2m")
        await added(store, key="k")

    async def test_a_key_may_end_before_its_finished_row(self, opener: Opener, clock: ManualClock) -> None:
        """With a short key lifetime the key is free while the id is still known."""
        store = await opener(key_lifetime=3_600 * SECOND)
        first = await done(store, key="k")
        clock.advance("2h")
        second = await added(store, key="k")
        assert await store.jobs.add([a_job(id=first.id)]) == [Existing(first.id, State.DONE)]
        assert await store.jobs.add([a_job(key="k")]) == [Existing(second.id, State.READY)]

    async def test_a_discard_frees_the_key(self, store: Store) -> None:
        """What was ended on purpose may be asked for again."""
        await discarded(store, key="k")
        await added(store, key="k")

    async def test_cancel_and_purge_free_the_key(self, store: Store) -> None:
        """Both are discards."""
        job = await added(store, key="k")
        await store.jobs.cancel([job.id], "alice")
        await added(store, key="k")
        await store.jobs.purge("default", "alice", 10)
        await added(store, key="k")

    async def test_a_refusal_adds_nothing(self, store: Store) -> None:
        """At its depth limit a queue refuses before acceptance; no row, no key, no journal, one count."""
        await store.jobs.gate(Gate(kind="queue", key="default", depth_limit=2), "alice")
        jobs = [a_job(), a_job(), a_job(key="k")]
        answers = await store.jobs.add(jobs)
        assert isinstance(answers[2], Refused)
        assert answers[2].why
        assert answers[:2] == [Accepted(jobs[0].id), Accepted(jobs[1].id)]
        assert await store.jobs.get(jobs[2].id) is None
        assert await store.journal.events(job=jobs[2].id) == []
        assert (await totals(store))["refused"] == 1
        await added(store, queue="other", key="k")

    async def test_a_full_queue_still_answers_existing(self, store: Store) -> None:
        """Asking again for an accepted job is not one more job."""
        job = await added(store)
        await store.jobs.gate(Gate(kind="queue", key="default", depth_limit=1), "alice")
        assert await store.jobs.add([job]) == [Existing(job.id, State.READY)]

    async def test_only_waiting_jobs_fill_a_queue(self, store: Store, clock: ManualClock) -> None:
        """A depth limit counts scheduled and ready jobs; what runs makes room."""
        await store.jobs.gate(Gate(kind="queue", key="default", depth_limit=2), "alice")
        await added(store)
        await added(store, due_at=clock.now() + SECOND)
        assert isinstance((await store.jobs.add([a_job()]))[0], Refused)
        await claimed(store)
        await added(store)

    @pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=range(len(ODD_PAYLOADS)))
    async def test_payload_bytes_come_back_untouched(self, store: Store, payload: bytes) -> None:
        """A store never reads a payload: not its numbers, not its empty lists, not its spaces."""
        await added(store, payload=payload)
        [job] = await claimed(store)
        assert job.payload == payload
        assert (await live(store, job.id)).payload == payload

    @pytest.mark.parametrize(
        "odd",
        [{"task": "half \ud800"}, {"queue": "\udfff"}, {"key": "\ud800"}, {"needs": ("\ud800",)}, {"expires": 1 << 63}],
        ids=["task", "queue", "key", "needs", "number"],
    )
    async def test_what_cannot_be_stored_is_refused_in_one_sentence(self, store: Store, odd: dict[str, Any]) -> None:
        """Half a character or a number beyond 64 bits: nothing of that batch is accepted, and what was there stays."""
        before = await added(store)
        fine = a_job()
        with pytest.raises(UsageError, match="stored") as raised:
            await store.jobs.add([fine, a_job(**odd)])
        assert "\n" not in str(raised.value)
        assert await store.jobs.get(fine.id) is None
        assert [job.id for job in await store.jobs.claim(wanted())] == [before.id]

    async def test_everything_a_client_says_survives(self, store: Store, clock: ManualClock) -> None:
        """Every field of a job comes back as it went in, from claim and from get."""
        job = a_full_job(clock.now())
        await store.jobs.add([job])
        [got] = await claimed(store)
        runs = msgspec.structs.replace(job, state=State.LEASED, starts=1, fence=got.fence)
        assert got == runs
        assert await live(store, job.id) == runs

    async def test_a_job_without_times_is_due_now(self, store: Store, clock: ManualClock) -> None:
        """The store writes when it was added, where the client left it open."""
        kept = await live(store, (await added(store)).id)
        assert (kept.due_at, kept.created_at, kept.epoch_at) == (clock.now(),) * 3
        assert (kept.state, kept.epoch, kept.starts, kept.attempts, kept.fence) == (State.READY, 1, 0, 0, 0)

    async def test_a_job_for_later_is_scheduled(self, store: Store, clock: ManualClock) -> None:
        """Its state says that it waits for its time."""
        job = await added(store, due_at=clock.now() + SECOND)
        assert await state_of(store, job.id) == State.SCHEDULED

    async def test_a_batch_of_a_thousand_is_one_batch(self, store: Store) -> None:
        """Nothing in a batch is lost, whatever its size."""
        jobs = [a_job() for _ in range(1_000)]
        assert await store.jobs.add(jobs) == [Accepted(job.id) for job in jobs]
        assert (await depth_of(store)).ready == 1_000


def a_full_job(now: int) -> Job:
    """A job with every field that a client may set."""
    return a_job(
        queue="naïve queue ☃",
        priority=7,
        due_at=now,
        key="key with 'quotes' and \x00",
        external_id="order/4711",
        headers=b'{"traceparent":"00-aa-bb-01","x":""}',
        batch="batch-1",
        item="item-9",
        parent="parent-2",
        redrive="redrive-3",
        needs=("payments", "naïve"),
        expires=now + 3_600 * SECOND,
        release="v2.4",
        policy=b'{"attempts":5}',
        created_at=now - SECOND,
        epoch_at=now - SECOND,
    )

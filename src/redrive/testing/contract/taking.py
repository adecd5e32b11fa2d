"""Rules of taking in letters from elsewhere: each becomes a dead job and its letter, once."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from redrive.clock import SECOND, ManualClock
from redrive.job import Job, State
from redrive.letter import LetterState
from redrive.query.parsing import parse
from redrive.store import Accepted, Buried, Done, Existing, Foreign, Store, Total
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    a_failure,
    a_job,
    added,
    buried,
    claimed,
    depth_of,
    discarded,
    done,
    entries_of,
    leased,
    live,
    record_of,
    settled,
    state_of,
    totals,
)

LONG_AGO = 1_700_000_000 * SECOND
MADE: dict[State, Callable[[Store], Awaitable[Job]]] = {
    State.READY: added,
    State.LEASED: leased,
    State.DONE: done,
    State.DEAD: buried,
    State.DISCARDED: discarded,
}


def foreign(at: int = LONG_AGO, **changes: Any) -> Foreign:
    """A letter of somebody else, with two failures."""
    first = a_failure(at=at - 60 * SECOND, attempt=1, reason="timeout", fingerprint="cafe", traceback="the first")
    ruled: dict[str, Any] = {"plain": "beef", "plain_title": "no rule", "frame": "a.py:f", "process": 7}
    last = a_failure(at=at, attempt=2, release="v2", cause="exit code 101", step="shell", truncated=True, **ruled)
    plain = {"attempts": 2, "batch": "map-1", "headers": b'{"a":"b"}', "external_id": "item-1", "epoch": 3}
    job = a_job(**{**plain, **changes})
    return Foreign(
        job=job, failures=(first, last), first_failed_at=at - 3_600 * SECOND, version=4, returns=2, rule="r1"
    )


class TakingRules(Rules):
    """What taking in promises."""

    async def test_what_was_purged_is_not_taken_in_again(self, store: Store) -> None:
        """G5: a purged letter does not return; the others of the batch do come in."""
        gone, new = foreign(), foreign(external_id="item-2")
        assert await store.letters.take_in([gone], "alice") == [Accepted(gone.job.id)]
        assert (await store.letters.purge([gone.job.id], "alice", "old")).ids == [gone.job.id]
        answers = await store.letters.take_in([gone, new], "alice")
        assert answers == [Existing(gone.job.id, "purged"), Accepted(new.job.id)]
        assert await store.letters.get(gone.job.id) is None

    async def test_what_is_taken_in_is_a_letter_like_any_other(self, store: Store) -> None:
        """With its payload, its headers, every failure and the times it had elsewhere."""
        one = foreign(queue="email", priority=8)
        assert await store.letters.take_in([one], "alice") == [Accepted(one.job.id)]
        letter = await store.letters.get(one.job.id)
        assert letter is not None
        assert (letter.task, letter.queue, letter.priority, letter.state) == (
            "email.send",
            "email",
            8,
            LetterState.OPEN,
        )
        assert (letter.attempts, letter.epochs, letter.version, letter.workflow) == (2, 3, 4, "map-1")
        assert (letter.returns, letter.rule) == (2, "r1")
        assert (letter.first_failed_at, letter.failed_at) == (LONG_AGO - 3_600 * SECOND, LONG_AGO)
        assert (letter.payload, letter.headers) == (one.job.payload, one.job.headers)
        assert letter.failures == one.failures
        page = await store.letters.find(parse("reason = network and payload.to = a@b.c", 0))
        assert [each.id for each in page.letters] == [one.job.id]

    async def test_its_job_is_dead_with_what_it_was_given(self, store: Store) -> None:
        """And keeps the id that others know it by."""
        one = foreign()
        await store.letters.take_in([one], "alice")
        job, record = await live(store, one.job.id), await record_of(store, one.job.id)
        assert (job.state, job.epoch, job.attempts, job.external_id) == (State.DEAD, 3, 2, "item-1")
        assert (record.ended_at, record.end_reason, record.worker) == (LONG_AGO, "network", None)
        assert job.created_at == one.first_failed_at

    async def test_what_was_taken_in_is_counted(self, store: Store) -> None:
        """In the depth, the totals, the counters, and with an entry in the journal that says who did it."""
        several = [foreign() for _ in range(3)]
        await store.letters.take_in(several, "alice")
        assert (await depth_of(store)).dead == 3
        kinds = (await store.letters.totals()).kinds
        assert kinds == [Total(queue="default", task="email.send", priority=5, reason="network", n=3)]
        assert (await totals(store))["imported"] == 3
        [entry] = await entries_of(store, several[0].job.id)
        assert (entry.event, entry.actor, entry.reason, entry.text) == (
            "job.imported", "alice", "network", "connection refused",
        )  # fmt: skip

    async def test_letters_from_elsewhere_join_the_group_of_their_cause(self, store: Store, clock: ManualClock) -> None:
        """Which is as old then as the oldest of them."""
        own = await buried(store, failure=a_failure(at=clock.now()))
        await store.letters.take_in([foreign(LONG_AGO + 5), foreign(LONG_AGO)], "alice")
        [group] = await store.letters.groups()
        assert (group.count, group.sample, group.first_seen, group.last_seen) == (3, own.id, LONG_AGO, clock.now())

    async def test_a_cause_that_was_not_known_becomes_a_group(self, store: Store) -> None:
        """With the first of the letters as its sample."""
        several = [foreign(LONG_AGO + 5), foreign(LONG_AGO), foreign(LONG_AGO + 9)]
        await store.letters.take_in(several, "alice")
        [group] = await store.letters.groups()
        assert (group.fingerprint, group.title, group.task) == ("f00d", several[0].failures[-1].title, "email.send")
        assert (group.count, group.sample) == (3, several[0].job.id)
        assert (group.first_seen, group.last_seen) == (LONG_AGO, LONG_AGO + 9)

    async def test_taking_in_again_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        """Neither the letter nor any count, also when it was changed elsewhere meanwhile, and within one batch."""
        one = foreign()
        assert await store.letters.take_in([one, one], "alice") == [
            Accepted(one.job.id),
            Existing(one.job.id, State.DEAD),
        ]
        before = await self._everything(store, one.job.id)
        clock.advance(5)
        other = msgspec.structs.replace(one, job=msgspec.structs.replace(one.job, task="other", payload=b"1"))
        assert await store.letters.take_in([other], "bob") == [Existing(one.job.id, State.DEAD)]
        assert await self._everything(store, one.job.id) == before

    async def _everything(self, store: Store, id: str) -> tuple[Any, ...]:
        return (
            await store.letters.get(id), await record_of(store, id), await store.letters.groups(),
            await store.letters.totals(), await store.jobs.depth(), await totals(store), await entries_of(store, id),
        )  # fmt: skip

    @pytest.mark.parametrize("state", MADE)
    async def test_a_job_that_is_there_is_not_changed(self, store: Store, state: State) -> None:
        """Whatever has become of it: its state is the answer."""
        job = await MADE[state](store)
        before = (await record_of(store, job.id), await store.letters.get(job.id))
        assert await store.letters.take_in([foreign(id=job.id)], "alice") == [Existing(job.id, state)]
        assert (await record_of(store, job.id), await store.letters.get(job.id)) == before
        assert (await totals(store))["imported"] == 0

    async def test_a_letter_of_which_only_history_is_left_does_not_come_back(
        self, opener: Opener, clock: ManualClock
    ) -> None:
        """Its job succeeded and is forgotten; the closed letter says that it was there."""
        store = await opener(done_retention=SECOND, key_lifetime=SECOND)
        job = await buried(store)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        clock.advance("1h")
        await store.jobs.prune(100)
        assert await state_of(store, job.id) is None
        assert await store.letters.take_in([foreign(id=job.id)], "alice") == [Existing(job.id, State.DONE)]
        assert await state_of(store, job.id) is None

    async def test_what_was_taken_in_can_be_brought_back(self, store: Store, clock: ManualClock) -> None:
        """It runs in the next epoch, and when it dies again its letter goes on, with its history before it."""
        one = foreign()
        await store.letters.take_in([one], "alice")
        assert await store.letters.revive([one.job.id], "alice", "fixed") == [one.job.id]
        assert (await store.letters.totals()).kinds == []
        [job] = await claimed(store)
        assert (job.id, job.epoch, job.attempts, job.payload) == (one.job.id, 4, 0, one.job.payload)
        again = a_failure(at=clock.now(), epoch=4, attempt=1)
        await settled(store, Buried(job=job, failure=again))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.failures == (*one.failures, again)
        assert (letter.first_failed_at, letter.failed_at) == (one.first_failed_at, clock.now())

    async def test_nothing_is_taken_in_from_nothing(self, store: Store) -> None:
        """An empty batch has an empty answer."""
        assert await store.letters.take_in([], "alice") == []

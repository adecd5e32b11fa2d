"""Rules of the ledger and of the seals: everything adds up, and what people did cannot be changed unseen."""

import pytest

from redrive.clock import ManualClock
from redrive.job import new_id
from redrive.ledger import Account, Proof
from redrive.store import Buried, Discarded, Done, Foreign, Plan, Retried, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import (
    a_failure,
    a_job,
    added,
    added_many,
    buried,
    claimed,
    discarded,
    done,
    leased,
    settled,
)

DAYS = "60d"


class ProvingRules(Rules):
    """What `prove` and `seal` promise."""

    # the ledger -------------------------------------------------------------------------------------------------------

    async def test_an_empty_store_adds_up(self, store: Store) -> None:
        """Nothing came, nothing went, nobody did anything."""
        proof = await store.journal.prove()
        assert (proof.accounts, proof.flaws, proof.trail.last, proof.adds_up) == ([], [], None, True)

    async def test_what_came_is_what_went_and_what_is_there(self, store: Store, clock: ManualClock) -> None:
        """Each job of a queue stands in one column."""
        await done(store)
        await discarded(store)
        await buried(store)
        await leased(store)
        await added(store)
        await added(store, due_at=clock.now() + 1_000_000)
        assert await _account(store) == Account(
            queue="default", enqueued=6, done=1, discarded=1, dead=1, leased=1, ready=1, scheduled=1
        )

    async def test_queues_are_accounted_for_apart(self, store: Store) -> None:
        """In the order of their names."""
        await done(store, queue="a")
        await added(store, queue="b")
        assert [(each.queue, each.came) for each in (await _proven(store)).accounts] == [("a", 1), ("b", 1)]

    async def test_what_was_pruned_stays_counted(self, store: Store, clock: ManualClock) -> None:
        """Rows go when their time is over; the account is what it was."""
        await done(store)
        await discarded(store)
        await buried(store)
        before = await _account(store)
        clock.advance(DAYS)
        while await store.jobs.prune(10):
            pass
        await store.journal.merge(1_000)
        assert await _account(store) == before

    async def test_a_moved_job_leaves_one_queue_and_enters_another(self, store: Store) -> None:
        """Counted in both, in the transaction that moves it."""
        await added_many(store, 3, queue="a")
        assert await store.jobs.move("a", "b", "alice", 2) == 2
        assert [(each.moved_in, each.moved_out, each.ready) for each in (await _proven(store)).accounts] == [
            (0, 2, 1),
            (2, 0, 2),
        ]

    async def test_a_redrive_into_another_queue_moves_too(self, store: Store) -> None:
        """Released there, it is missing nowhere; one into its own queue moves nothing."""
        for queue in ("a", "b"):
            await buried(store, queue=queue)
        await _redriven(store, Plan(queue="b", stages=()))
        first, second = (await _proven(store)).accounts
        assert (first.moved_out, first.here) == (1, 0)
        assert (second.moved_in, second.moved_out, second.ready) == (1, 0, 2)

    async def test_a_job_that_fails_again_elsewhere_adds_up(self, store: Store) -> None:
        """Its letter is of the queue in which it died last; discarded and restored it stays there."""
        job = await buried(store, queue="a")
        await _redriven(store, Plan(queue="b", stages=()))
        [again] = await claimed(store)
        await settled(store, Buried(job=again, failure=a_failure()))
        assert (await _proven(store)).accounts[1].dead == 1
        for verb in (store.letters.discard, store.letters.restore, store.letters.purge):
            await verb([job.id], "alice", "")
            await _proven(store)

    async def test_only_a_purge_of_the_dead_takes_a_job(self, store: Store) -> None:
        """A letter that had ended before was counted where its job ended."""
        ids = [(await buried(store)).id for _ in range(3)]
        await store.letters.revive(ids[:1], "alice", "")
        await settled(store, Done(job=(await claimed(store))[0]))
        await store.letters.discard(ids[1:2], "alice", "")
        assert (await store.letters.purge(ids, "alice", "")).ids == ids
        account = await _account(store)
        assert (account.done, account.discarded, account.dead_purged, account.here) == (1, 1, 1, 0)

    async def test_imported_and_restored_letters_come_in(self, store: Store) -> None:
        """As an enqueued job does."""
        failure = a_failure(at=5)
        foreign = Foreign(job=a_job(id=new_id(), attempts=1), failures=(failure,), first_failed_at=5)
        await store.letters.take_in([foreign], "alice")
        await store.letters.discard([foreign.job.id], "alice", "")
        await store.letters.restore([foreign.job.id], "alice", "")
        account = await _account(store)
        assert (account.imported, account.restored, account.discarded, account.dead) == (1, 1, 1, 1)

    async def test_every_end_of_a_redriven_job_adds_up(self, store: Store) -> None:
        """Done, dead again, discarded, cancelled, waiting for another attempt."""
        for _ in range(5):
            await buried(store)
        await _redriven(store, Plan(stages=()))
        one, two, three, four, five = await claimed(store, 5)
        await store.jobs.settle(
            [
                Done(job=one),
                Buried(job=two, failure=a_failure(fingerprint="beef")),
                Discarded(job=three, reason="discarded"),
                Retried(job=four, at=0, failure=a_failure()),
            ]
        )
        await store.jobs.cancel([five.id], "alice")
        account = await _account(store)
        assert (account.done, account.dead, account.discarded, account.ready) == (1, 1, 2, 1)

    async def test_purged_queues_add_up(self, store: Store) -> None:
        """What is purged from a queue is discarded, once."""
        await added_many(store, 3)
        await store.jobs.purge("default", "alice", 2)
        assert (await _account(store)).discarded == 2

    async def test_who_wants_to_know_hears_how_far_it_is(self, store: Store) -> None:
        """A large store takes its time."""
        heard: list[str] = []
        await store.journal.prove(tell=heard.append)
        assert heard

    # the seals --------------------------------------------------------------------------------------------------------

    async def test_what_people_did_is_sealed_once(self, store: Store) -> None:
        """Acts have an actor; failures and the like have none and are not sealed."""
        job = await buried(store)
        await store.letters.discard([job.id], "alice", "a test")
        await store.jobs.move("default", "other", "bob", 1)
        await store.journal.note("deploy", actor="carol")
        before = (await store.journal.prove()).trail
        assert (before.sealed, before.unsealed, before.last) == (0, 2, None)
        assert await store.journal.seal(100) == 2
        assert await store.journal.seal(100) == 0
        trail = (await _proven(store)).trail
        assert (trail.sealed, trail.unsealed) == (2, 0)
        assert trail.last is not None
        assert (trail.last.number, trail.last.n) == (1, 2)

    async def test_seals_are_put_in_shares(self, store: Store, clock: ManualClock) -> None:
        """Each holds the one before it; what came later waits for the next."""
        for number in range(5):
            await store.journal.note("act", actor="alice", text=str(number))
        assert [await store.journal.seal(2) for _ in range(4)] == [2, 2, 1, 0]
        clock.advance(5)
        await store.journal.note("act", actor="alice")
        trail = (await _proven(store)).trail
        assert trail.last is not None
        assert (trail.sealed, trail.unsealed, trail.last.number) == (5, 1, 3)

    async def test_a_release_is_an_act(self, store: Store) -> None:
        """Who opened the redrive stands under each of its chunks."""
        await buried(store)
        await _redriven(store, Plan(stages=()))
        acts = [entry for entry in await store.journal.events() if entry.actor]
        assert {entry.event for entry in acts} >= {"redrive.opened", "redrive.frozen", "redrive.released"}
        assert await store.journal.seal(100) == len(acts)
        await _proven(store)

    @pytest.mark.parametrize("text", ["plain", "half \ud83d", "\x00 ☃ \U0001f600", ""])
    async def test_any_text_can_be_sealed(self, store: Store, text: str) -> None:
        """Whatever a person wrote."""
        await store.journal.note("act", actor="alice", text=text)
        assert await store.journal.seal(10) == 1
        await _proven(store)

    async def test_a_seal_that_was_noted_is_found_again(self, store: Store) -> None:
        """Another one of that number, or a trail that ends before it, is said."""
        for _ in range(2):
            await store.journal.note("act", actor="alice")
            await store.journal.seal(10)
        last = (await _proven(store)).trail.last
        assert last is not None
        assert (await store.journal.prove(noted=(2, last.hash[:16]))).adds_up
        other = (await store.journal.prove(noted=(1, last.hash[:16]))).trail.broken
        cut = (await store.journal.prove(noted=(3, last.hash[:16]))).trail.broken
        assert other is not None
        assert cut is not None
        assert (other.seal, cut.seal) == (1, 3)
        assert "noted" in other.why
        assert "cut" in cut.why

    async def test_another_process_goes_on_sealing(self, opener: Opener) -> None:
        """The chain is the store's, not the sealer's."""
        one, two = await opener(), await opener()
        await one.journal.note("act", actor="alice")
        await one.journal.seal(10)
        await one.journal.note("act", actor="bob")
        assert await two.journal.seal(10) == 1
        trail = (await _proven(two)).trail
        assert (trail.sealed, trail.last and trail.last.number) == (2, 2)


async def _proven(store: Store) -> Proof:
    proof = await store.journal.prove()
    assert (proof.off, proof.flaws, proof.trail.broken) == ([], [], None)
    assert proof.adds_up
    return proof


async def _account(store: Store) -> Account:
    [account] = (await _proven(store)).accounts
    return account


async def _redriven(store: Store, plan: Plan) -> None:
    redrive = await store.redrives.open(plan, "alice", "")
    while not await store.redrives.freeze(redrive.id, 100):
        pass
    await store.redrives.release(redrive.id, 1, 100, 100)

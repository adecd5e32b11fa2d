"""Rules of the successes that are kept to compare failures with."""

from redrive.clock import SECOND, ManualClock
from redrive.sampling import PAYLOAD_LIMIT, SIZE
from redrive.store import Done, Store, Success
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import a_worker, added_many, buried, claimed, discarded, done


class SamplingRules(Rules):
    """What the sample of successes promises."""

    async def test_a_success_is_kept_with_where_it_ran(self, store: Store, clock: ManualClock) -> None:
        """Its payload, the host and release of its worker, and when."""
        await store.workers.beat(a_worker(release="v2"), 30 * SECOND)
        await done(store, payload=b'{"n":1}')
        clock.advance(5)
        await done(store, payload=b'{"n":22}')
        first, second = await store.jobs.successes("email.send")
        assert first == Success(at=clock.now() - 5 * SECOND, size=7, host="host-1", release="v2", payload=b'{"n":1}')
        assert (second.at, second.payload) == (clock.now(), b'{"n":22}')

    async def test_a_worker_that_is_not_known_has_no_host(self, store: Store) -> None:
        """The success counts nevertheless."""
        await done(store)
        [success] = await store.jobs.successes("email.send")
        assert (success.host, success.release) == ("", None)

    async def test_only_successes_are_kept_and_each_task_has_its_own(self, store: Store) -> None:
        """What is dead or discarded is no success."""
        await buried(store)
        await discarded(store)
        await done(store, task="other")
        assert await store.jobs.successes("email.send") == []
        assert len(await store.jobs.successes("other")) == 1

    async def test_of_a_long_payload_only_the_size_is_kept(self, store: Store) -> None:
        """So that the sample stays small."""
        await done(store, payload=b'"%s"' % (b"x" * PAYLOAD_LIMIT))
        [success] = await store.jobs.successes("email.send")
        assert (success.size, success.payload) == (PAYLOAD_LIMIT + 2, None)

    async def test_however_many_there_are_a_few_are_kept(self, store: Store) -> None:
        """Of the later ones too."""
        for number in range(10):
            await added_many(store, SIZE, payload=b"%d" % number)
            await store.jobs.settle([Done(job=job) for job in await claimed(store, SIZE)])
        kept = [success.payload for success in await store.jobs.successes("email.send")]
        assert len(kept) == SIZE
        assert len(set(kept)) > 5

    async def test_they_are_forgotten_with_history(self, opener: Opener, clock: ManualClock) -> None:
        """A task that nobody runs any more leaves nothing."""
        store = await opener(closed_retention=3_600 * SECOND)
        await done(store)
        await store.jobs.prune(100)
        assert len(await store.jobs.successes("email.send")) == 1
        clock.advance("2h")
        await store.jobs.prune(100)
        assert await store.jobs.successes("email.send") == []

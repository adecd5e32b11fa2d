"""Rules of reading: one job, a page of them, and an id of which only the end is known."""

from redrive.clock import SECOND, ManualClock
from redrive.job import State
from redrive.store import JobQuery, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import (
    a_failure,
    added,
    added_many,
    buried,
    discarded,
    done,
    leased,
)


class ReadingRules(Rules):
    """What `get`, `find` and `resolve` promise."""

    async def test_an_unknown_job_is_none(self, store: Store) -> None:
        """Not an error."""
        assert await store.jobs.get("no-such-id") is None
        assert await store.letters.get("no-such-id") is None

    async def test_a_job_is_found_by_the_end_of_its_id(self, store: Store) -> None:
        """Whether it lives or is done; at most so many answers."""
        job, finished = await done(store), await added(store)
        assert await store.jobs.resolve(job.short) == [job.id]
        assert await store.jobs.resolve(finished.id) == [finished.id]
        assert await store.jobs.resolve("no such end") == []
        await added_many(store, 5)
        assert len(await store.jobs.resolve("", limit=3)) == 3

    async def test_dashes_and_capitals_of_an_id_do_not_matter(self, store: Store) -> None:
        """However it was copied."""
        job = await added(store)
        for typed in (job.id.upper(), job.id.replace("-", ""), job.id[-13:], job.id[-13:].upper()):
            assert await store.jobs.resolve(typed) == [job.id]

    async def test_a_suffix_is_a_text_and_not_a_pattern(self, store: Store) -> None:
        """Wildcards of a query language mean nothing."""
        await added(store)
        assert [await store.jobs.resolve(suffix) for suffix in ("%", "_", "*", "?")] == [[], [], [], []]

    async def test_pages_are_newest_first(self, store: Store) -> None:
        """A page ends before the id that the next one is asked with; together they are all, each once."""
        ids = [job.id for job in await added_many(store, 5)]
        first = await store.jobs.find(JobQuery(limit=3))
        rest = await store.jobs.find(JobQuery(limit=3, before=first[-1].id))
        assert [each.id for each in (*first, *rest)] == ids[::-1]

    async def test_a_listing_shows_every_state(self, store: Store, clock: ManualClock) -> None:
        """No state is hidden, and each can be asked for."""
        ids = {
            State.DONE: (await done(store)).id,
            State.DEAD: (await buried(store)).id,
            State.DISCARDED: (await discarded(store)).id,
            State.LEASED: (await leased(store)).id,
            State.READY: (await added(store)).id,
            State.SCHEDULED: (await added(store, due_at=clock.now() + SECOND)).id,
        }
        assert {each.state: each.id for each in await store.jobs.find(JobQuery())} == ids
        for state in State:
            assert [each.id for each in await store.jobs.find(JobQuery(states=(state,)))] == [ids[state]]
        two = await store.jobs.find(JobQuery(states=(State.DEAD, State.DONE)))
        assert [each.id for each in two] == [ids[State.DEAD], ids[State.DONE]]

    async def test_pages_go_on_across_states(self, store: Store) -> None:
        """Finished rows and live ones are one listing."""
        made = [(await (done if n % 2 else buried)(store)).id for n in range(6)]
        seen: list[str] = []
        while page := await store.jobs.find(JobQuery(limit=2, before=seen[-1] if seen else None)):
            seen += [each.id for each in page]
        assert seen == made[::-1]

    async def test_a_listing_is_narrowed_by_queue_and_task(self, store: Store) -> None:
        """Both together, for every state."""
        wanted = [
            (await done(store, queue="a", task="t")).id,
            (await added(store, queue="a", task="t")).id,
        ]
        await added(store, queue="a", task="u")
        await added(store, queue="b", task="t")
        assert [each.id for each in await store.jobs.find(JobQuery(queue="a", task="t"))] == wanted[::-1]
        assert len(await store.jobs.find(JobQuery(queue="a"))) == 3

    async def test_a_page_of_a_rare_state_is_full(self, store: Store, clock: ManualClock) -> None:
        """States are merged by age, whatever their numbers."""
        old = await buried(store)
        many = await added_many(store, 30)
        later = await added(store, due_at=clock.now() + SECOND)
        both = await store.jobs.find(JobQuery(states=(State.DEAD, State.SCHEDULED), limit=5))
        assert [each.id for each in both] == [later.id, old.id]
        page = await store.jobs.find(JobQuery(limit=5, before=later.id))
        assert [each.id for each in page] == [job.id for job in many[:-6:-1]]

    async def test_a_line_tells_what_matters(self, store: Store, clock: ManualClock) -> None:
        """When it is due or ended, how often it was tried, and what went wrong last."""
        waiting = await added(store, due_at=clock.now() + SECOND)
        dead = await buried(store, priority=8, queue="email", failure=a_failure(message="no route"))
        line, other = await store.jobs.find(JobQuery())
        assert (line.id, line.task, line.queue, line.priority) == (dead.id, dead.task, "email", 8)
        assert (line.attempts, line.epoch, line.at) == (1, 1, clock.now())
        assert line.error is not None
        assert "no route" in line.error
        assert (other.id, other.at, other.error) == (waiting.id, clock.now() + SECOND, None)

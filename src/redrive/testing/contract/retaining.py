"""Rules of retention: each queue keeps things for its own time, redrives end, and what goes unasked is announced."""

from redrive.clock import SECOND, ManualClock
from redrive.letter import LetterState
from redrive.query.parsing import parse
from redrive.retention import Notice, Removal
from redrive.store import Done, Keep, Plan, Store
from redrive.testing.contract.base import Opener, Rules
from redrive.testing.factories import buried, claimed, discarded, done, settled, state_of

HOUR = 3_600 * SECOND
DAY = 24 * HOUR


class RetainingRules(Rules):
    """What `prune`, `announce` and `notices` promise."""

    # per queue --------------------------------------------------------------------------------------------------------

    async def test_a_queue_keeps_finished_jobs_for_its_own_time(self, opener: Opener, clock: ManualClock) -> None:
        """Shorter or longer than the others, and never shorter than a key counts."""
        store = await opener(key_lifetime=HOUR, of_queues={"brief": Keep(done=1), "long": Keep(done=3 * DAY)})
        jobs = [await done(store, queue=queue) for queue in ("brief", "default", "long")]
        left = []
        for hours in (1, 23, 48):
            clock.advance(hours * 3_600)
            await store.jobs.prune(10)
            left.append([await state_of(store, job.id) is not None for job in jobs])
        assert left == [[False, True, True], [False, False, True], [False, False, False]]

    async def test_a_queue_keeps_ended_letters_for_its_own_time(self, opener: Opener, clock: ManualClock) -> None:
        """Closed and discarded ones, with the rows of discarded jobs; open ones stay."""
        store = await opener(of_queues={"brief": Keep(closed=DAY), "long": Keep(closed=90 * DAY)})
        kept: dict[str, list[str]] = {}
        for queue in ("brief", "default", "long"):
            kept[queue] = [(await buried(store, queue=queue)).id for _ in range(3)]
        closed, gone = [ids[0] for ids in kept.values()], [ids[1] for ids in kept.values()]
        await store.letters.revive(closed, "alice", "")
        for job in await claimed(store, 3):
            await settled(store, Done(job=job))
        assert (await store.letters.discard(gone, "alice", "")).ids == gone
        counts = []
        for days in (1, 29, 60):
            clock.advance(days * 86_400)
            while await store.jobs.prune(2):
                pass
            left = (await store.letters.find(parse("state != open", 0))).letters
            counts.append(sorted(letter.queue for letter in left))
        assert counts == [["default", "default", "long", "long"], ["long", "long"], []]
        assert await store.letters.count(parse("state = open", 0)) == 3
        assert (await store.journal.prove()).adds_up

    async def test_a_queue_keeps_discarded_jobs_for_its_own_time(self, opener: Opener, clock: ManualClock) -> None:
        """Those that never died too."""
        store = await opener(of_queues={"brief": Keep(closed=HOUR)})
        brief, other = await discarded(store, queue="brief"), await discarded(store)
        letter = await buried(store, queue="brief")
        await store.letters.discard([letter.id], "alice", "")
        clock.advance(3_600)
        assert await store.jobs.prune(10) == 3
        assert await state_of(store, letter.id) is None
        assert (await state_of(store, brief.id), await state_of(store, other.id) is not None) == (None, True)

    # redrives ---------------------------------------------------------------------------------------------------------

    async def test_ended_redrives_are_forgotten_with_their_letters(self, opener: Opener, clock: ManualClock) -> None:
        """When their time is over, in shares; open ones stay, and everything adds up between two shares."""
        store = await opener(redrive_retention=DAY, closed_retention=90 * DAY)
        for _ in range(5):
            await buried(store)
        ended = await _ended_redrive(store)
        clock.advance(86_399)
        running = await store.redrives.open(Plan(), "alice", "")
        await store.jobs.prune(100)
        assert await store.redrives.get(ended) is not None
        clock.advance(1)
        while await store.jobs.prune(2):
            assert (await store.journal.prove()).adds_up
        assert await store.redrives.get(ended) is None
        assert (await store.redrives.items(ended), await store.redrives.tally(ended)) == ([], [])
        assert (await store.redrives.stages(ended), await store.redrives.patterns(ended)) == ([], [])
        assert [each.id for each in await store.redrives.find()] == [running.id]
        assert (await store.journal.prove()).adds_up

    async def test_what_an_old_redrive_has_released_still_ends(self, opener: Opener, clock: ManualClock) -> None:
        """Its job is settled as any; nobody waits for it any more."""
        store = await opener(redrive_retention=DAY)
        job = await buried(store)
        redrive = await store.redrives.open(Plan(stages=()), "alice", "")
        await store.redrives.freeze(redrive.id, 10)
        await store.redrives.release(redrive.id, 1, 10, 10)
        await store.redrives.change(redrive.id, 2, "cancelled", "alice")
        clock.advance(86_400)
        while await store.jobs.prune(10):
            pass
        assert await store.redrives.get(redrive.id) is None
        await settled(store, Done(job=(await claimed(store))[0]))
        letter = await store.letters.get(job.id)
        assert letter is not None
        assert letter.state is LetterState.CLOSED
        assert (await store.journal.prove()).adds_up

    # the journal ------------------------------------------------------------------------------------------------------

    async def test_the_journal_is_kept_for_ever(self, store: Store, clock: ManualClock) -> None:
        """Unless somebody asks for less."""
        await buried(store)
        clock.advance("3650d")
        await store.jobs.prune(10)
        assert len(await store.journal.events()) == 1

    async def test_old_entries_go_in_shares_and_the_seals_stay(self, opener: Opener, clock: ManualClock) -> None:
        """The trail holds between two shares and afterwards; younger entries stay, and numbers go on rising."""
        store = await opener(journal_retention=DAY)
        for _ in range(3):
            await buried(store)
            await store.journal.note("act", actor="alice")
        await store.journal.seal(2)
        await store.journal.seal(2)
        clock.advance(86_399)
        await store.journal.note("act", actor="bob")
        await buried(store)
        await store.journal.seal(10)
        clock.advance(1)
        shares = []
        while n := await store.jobs.prune(4):
            shares.append(n)
            assert (await store.journal.prove()).adds_up
        assert shares == [4, 2]
        left = await store.journal.events()
        assert [entry.actor for entry in left] == ["bob", None]
        await store.journal.note("act", actor="carol")
        assert (await store.journal.latest(1))[0].seq == left[-1].seq + 1
        assert [entry.actor for entry in await store.journal.events(after=left[0].seq)] == [None, "carol"]
        trail = (await store.journal.prove()).trail
        assert (trail.sealed, trail.forgotten, trail.unsealed) == (4, 3, 1)
        assert await store.journal.seal(10) == 1
        assert (await store.journal.prove()).adds_up

    async def test_an_act_without_a_seal_stays(self, opener: Opener, clock: ManualClock) -> None:
        """However old: it goes once it is sealed."""
        store = await opener(journal_retention=DAY)
        await store.journal.note("act", actor="alice")
        await buried(store)
        clock.advance("2d")
        assert await store.jobs.prune(10) == 1
        assert [entry.actor for entry in await store.journal.events()] == ["alice"]

    # notices ----------------------------------------------------------------------------------------------------------

    async def test_a_removal_is_announced_once(self, store: Store) -> None:
        """The journal has each that is new, with who and when; what stands is not said again."""
        one, other = _notice("email", 90), _notice(None, 365, "email")
        await store.letters.announce([one], "retention")
        await store.letters.announce([one, other], "retention")
        assert await store.letters.notices() == [other, one]
        said = [(entry.event, entry.queue, entry.actor, entry.text) for entry in await store.journal.events()]
        assert said == [
            ("retention.announced", "email", "retention", one.said),
            ("retention.announced", None, "retention", other.said),
        ]
        assert "queue email go 90d after they failed, 3 by now, from 1970-01-08" in one.said
        assert "every queue but email go 365d after" in other.said

    async def test_a_removal_is_withdrawn(self, store: Store) -> None:
        """What is not wanted any more is said too."""
        notice = _notice("email", 90)
        await store.letters.announce([notice], "retention")
        await store.letters.announce([], "retention")
        assert await store.letters.notices() == []
        assert [entry.event for entry in await store.journal.events()] == ["retention.announced", "retention.withdrawn"]


def _notice(queue: str | None, days: int, *but: str) -> Notice:
    removal = Removal(queue=queue, after=days * DAY, but=but)
    return Notice(removal=removal, announced_at=0, acts_at=7 * DAY, letters=3)


async def _ended_redrive(store: Store) -> str:
    redrive = await store.redrives.open(Plan(stages=()), "alice", "")
    await store.redrives.freeze(redrive.id, 10)
    await store.redrives.release(redrive.id, 1, 10, 10)
    for job in await claimed(store, 5):
        await settled(store, Done(job=job))
    assert await store.redrives.change(redrive.id, 2, "finished", "alice")
    return redrive.id

"""Rules of what people say of groups and letters: who looks after them, notes, and what is muted or closed."""

from redrive.clock import SECOND, ManualClock
from redrive.letter import Group, GroupState, Letter, Note
from redrive.query.parsing import parse
from redrive.store import Buried, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import a_failure, buried, claimed, done, entries_of, settled

GROUP = "f00d"


class MarkingRules(Rules):
    """What the verbs that change no job promise."""

    async def test_a_group_is_found_by_the_beginning_of_its_name(self, store: Store) -> None:
        """Also when none of its letters is open any more."""
        job = await buried(store)
        await buried(store, failure=a_failure(fingerprint="f00e"))
        assert [group.fingerprint for group in await store.letters.named("f00")] == ["f00d", "f00e"]
        assert [group.fingerprint for group in await store.letters.named("f00d")] == ["f00d"]
        assert [group.fingerprint for group in await store.letters.named("", limit=1)] == ["f00d"]
        assert await store.letters.named("00d") == []
        await store.letters.revive([job.id], "alice", "fixed")
        assert (await _group(store)).count == 0

    async def test_a_group_has_an_owner_and_so_have_its_letters(self, store: Store) -> None:
        """A letter's own goes before that of its group; nobody is an answer."""
        one, two = await buried(store), await buried(store)
        assert await store.letters.assign("payments", "alice", [GROUP, "nope"], [one.id, "no-such-id"]) == 2
        assert await store.letters.assign("bob", "alice", ids=[one.id]) == 1
        assert (await _group(store)).owner == "payments"
        assert [(await _letter(store, job.id)).owner for job in (one, two)] == ["bob", "payments"]
        page = await store.letters.find(parse("owner = payments", 0))
        assert [(letter.id, letter.owner) for letter in page.letters] == [(two.id, "payments")]
        assert await store.letters.assign(None, "alice", [GROUP], [one.id]) == 2
        assert await store.letters.count(parse("owner is null", 0)) == 2

    async def test_owner_and_notes_outlive_a_retry(self, store: Store, clock: ManualClock) -> None:
        """What was found out stays known when the letter dies again, and when its group was empty meanwhile."""
        job = await buried(store)
        await store.letters.assign("bob", "alice", [GROUP], [job.id])
        await store.letters.note("the relay is down", "alice", [GROUP])
        await store.letters.note("seen", "bob", ids=[job.id])
        before = await _letter(store, job.id)
        await store.letters.revive([job.id], "alice", "fixed")
        clock.advance(5)
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        after = await _letter(store, job.id)
        assert (after.owner, after.notes, after.version) == ("bob", before.notes, before.version + 2)
        assert ((await _group(store)).owner, len((await _group(store)).notes)) == ("bob", 1)

    async def test_notes_are_told_with_who_and_when(self, store: Store, clock: ManualClock) -> None:
        """A letter has its own and its group's, oldest first; a filter looks into all of them."""
        job, other = await buried(store), await buried(store, failure=a_failure(fingerprint="beef"))
        first = Note(at=clock.now(), actor="alice", text="the relay is down", group=True)
        assert await store.letters.note(first.text, "alice", [GROUP, "nope"], ["no-such-id"]) == 1
        clock.advance(5)
        second = Note(at=clock.now(), actor="bob", text="ask ANNA")
        assert await store.letters.note(second.text, "bob", ids=[job.id, job.id]) == 1
        assert (await _letter(store, job.id)).notes == (first, second)
        assert (await _letter(store, other.id)).notes == ()
        assert (await _group(store)).notes == (first,)
        found = await store.letters.find(parse("note ~ anna and note ~ relay", 0))
        assert [letter.id for letter in found.letters] == [job.id]
        assert await store.letters.count(parse("note is null", 0)) == 1
        assert await store.letters.count(parse("note ~ anna and payload.to is not null", 0)) == 1

    async def test_what_is_said_is_journalled(self, store: Store) -> None:
        """Who said what; what is said of a letter stands in its story."""
        job = await buried(store)
        await store.letters.assign("bob", "alice", [GROUP], [job.id])
        await store.letters.note("seen", "carol", [GROUP], [job.id])
        await store.letters.set_groups([GROUP], GroupState.MUTED, "dan", reason="known")
        of_letter = [(each.event, each.actor, each.text) for each in (await entries_of(store, job.id))[-2:]]
        assert of_letter == [("letter.assigned", "alice", "to bob"), ("letter.noted", "carol", "seen")]
        entries = [each for each in await store.journal.latest(10) if each.event.startswith("group.")]
        assert [(each.event, each.actor, each.text, each.task, each.job) for each in entries] == [
            ("group.assigned", "alice", "f00d to bob", job.task, None),
            ("group.noted", "carol", "f00d: seen", job.task, None),
            ("group.muted", "dan", "f00d: known", job.task, None),
        ]

    async def test_a_group_is_muted_until_its_time_is_over(self, store: Store, clock: ManualClock) -> None:
        """New letters do not open it before; without a time it is muted until somebody opens it."""
        await buried(store)
        until = clock.now() + 60 * SECOND
        assert await store.letters.set_groups([GROUP, "nope"], GroupState.MUTED, "alice", until=until) == [GROUP]
        await buried(store)
        assert [(each.state, each.muted_until) for each in await store.letters.groups()] == [(GroupState.MUTED, until)]
        clock.advance(60)
        for group in (*await store.letters.groups(), *await store.letters.groups(parse("", 0)), await _group(store)):
            assert (group.state, group.muted_until) == (GroupState.OPEN, None)
        await store.letters.set_groups([GROUP], GroupState.MUTED, "alice")
        clock.advance("400d")
        assert (await _group(store)).state == GroupState.MUTED
        await store.letters.set_groups([GROUP], GroupState.OPEN, "alice")
        assert (await _group(store)).state == GroupState.OPEN

    async def test_a_new_letter_reopens_a_closed_group(self, store: Store) -> None:
        """The journal says so, with the release in which it was closed; an old letter does not."""
        await buried(store)
        await store.letters.set_groups([GROUP], GroupState.CLOSED, "alice", release="2.4.1", reason="merged")
        await done(store)
        await buried(store, failure=a_failure(fingerprint="beef"))
        group = await _group(store)
        assert (group.state, group.closed_in) == (GroupState.CLOSED, "2.4.1")
        job = await buried(store)
        await buried(store)
        group = await _group(store)
        assert (group.state, group.closed_in, group.count) == (GroupState.REOPENED, "2.4.1", 3)
        told = [each for each in await store.journal.latest(20) if each.event == "group.reopened"]
        assert [(each.job, each.text) for each in told] == [
            (job.id, "group f00d, which was closed in release 2.4.1, has a new letter")
        ]


async def _group(store: Store, name: str = GROUP) -> Group:
    [group] = await store.letters.named(name)
    return group


async def _letter(store: Store, id: str) -> Letter:
    letter = await store.letters.get(id)
    assert letter is not None
    return letter

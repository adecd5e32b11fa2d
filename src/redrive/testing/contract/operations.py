"""Rules of bulk operations: each chunk is done once, whoever does it, and what fails meanwhile is not in it."""

import msgspec

from redrive.clock import ManualClock
from redrive.leftovers import KINDS, OTHERS, SINCE
from redrive.letter import GroupState, Letter
from redrive.query.parsing import parse
from redrive.query.tree import EVERYTHING
from redrive.store import Buried, Change, Done, Edit, Move, Operation, OperationVerb, Part, Share, Store
from redrive.testing.contract.base import Rules
from redrive.testing.factories import a_failure, added_many, buried, claimed, entries_of, live, settled, totals

NO_ID = "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2"


class OperationRules(Rules):
    """What operations promise."""

    async def test_an_operation_is_kept_as_it_was_opened(self, store: Store, clock: ManualClock) -> None:
        """Whoever carries it on knows everything that was asked for."""
        query = parse('payload.to = "a" and not reason in (timeout, network) or $.x[?@ > 1]', clock.now())
        change = Change(settings=("payload.n=1",), patch=[{"op": "remove", "path": "/x"}], force=True)
        opened = await store.operations.open("edit", query, "alice", "a typo", filter="payload.to = a", change=change)
        assert opened == await store.operations.get(opened.id)
        assert (opened.verb, opened.query, opened.change) == ("edit", query, change)
        assert (opened.actor, opened.reason, opened.filter) == ("alice", "a typo", "payload.to = a")
        assert (opened.state, opened.mark, opened.done, opened.opened_at) == ("running", None, 0, clock.now())
        assert await store.operations.get(NO_ID) is None
        [entry] = [each for each in await store.journal.events() if each.event == "operation.opened"]
        assert (entry.actor, entry.text) == ("alice", f"operation {opened.id[-8:]}: edit: a typo")

    async def test_a_step_does_its_share_and_moves_the_mark(self, store: Store, clock: ManualClock) -> None:
        """And the last one ends it, with the counts of all."""
        jobs = [await buried(store) for _ in range(3)]
        operation = await _opened(store, "discard")
        clock.advance(5)
        first = await store.operations.step(operation.id, None, Share(mark=(7, jobs[0].id), ids=(jobs[0].id,)))
        assert first is not None
        assert (first.mark, first.done, first.state, first.moved_at) == ((7, jobs[0].id), 1, "running", clock.now())
        share = Share(mark=None, ids=(jobs[0].id, jobs[1].id), left={jobs[2].id: "it does not fit"})
        last = await store.operations.step(operation.id, first.mark, share)
        assert last is not None
        assert (last.done, last.state, last.ended_at) == (2, "finished", clock.now())
        assert last.left == {"it is discarded, not open": 1, "it does not fit": 1}
        assert [(await _letter(store, job.id)).state for job in jobs] == ["discarded", "discarded", "open"]
        assert last == await store.operations.get(operation.id)
        [entry] = [each for each in await store.journal.events() if each.event == "operation.finished"]
        assert entry.text == f"operation {operation.id[-8:]}: discard, 2 letters"

    async def test_a_share_is_done_once(self, store: Store) -> None:
        """Two drive the same operation: the second finds that the mark was moved, and changes nothing."""
        jobs = [await buried(store, payload=b"1") for _ in range(2)]
        operation = await _opened(store, "edit")
        mark = (7, jobs[0].id)
        first = await store.operations.step(operation.id, None, Share(mark=mark, edits=(Edit(jobs[0].id, 1, b"2"),)))
        other = Share(mark=mark, edits=(Edit(jobs[0].id, 2, b"3"), Edit(jobs[1].id, 1, b"3")))
        assert await store.operations.step(operation.id, None, other) == first
        assert [(await live(store, job.id)).payload for job in jobs] == [b"2", b"1"]
        assert await store.operations.step(NO_ID, None, other) is None

    async def test_what_fails_later_is_not_in_it(self, store: Store) -> None:
        """Also within the same moment; the letter is left, and why is told."""
        before = await buried(store)
        operation = await _opened(store, "discard")
        after = await buried(store)
        ended = await _ended(store, operation, ids=(before.id, after.id))
        assert (ended.done, ended.left) == (1, {SINCE: 1})
        assert (await _letter(store, after.id)).state == "open"

    async def test_what_is_discarded_later_is_not_restored(self, store: Store, clock: ManualClock) -> None:
        """Somebody decided that after the operation was begun."""
        before, after = await buried(store), await buried(store)
        await store.letters.discard([before.id], "bob", "")
        operation = await _opened(store, "restore")
        clock.advance(1)
        await store.letters.discard([after.id], "bob", "")
        ended = await _ended(store, operation, ids=(before.id, after.id))
        assert (ended.done, ended.left) == (1, {"it was discarded since": 1})

    async def test_each_verb_does_what_it_does_to_single_letters(self, store: Store) -> None:
        """With its journal rows and counters; the actor and the reason are those of the operation."""
        job = await buried(store)
        verbs: dict[OperationVerb, str] = {"discard": "discarded", "restore": "restored", "purge": "purged"}
        for verb, event in verbs.items():
            operation = await store.operations.open(verb, EVERYTHING, "alice", "why")
            assert (await _ended(store, operation, ids=(job.id,))).done == 1
            last = (await entries_of(store, job.id))[-1]
            assert (last.event, last.actor, last.text) == (f"job.{event}", "alice", "why")
        assert await store.letters.get(job.id) is None

    async def test_a_cancelled_operation_goes_no_further(self, store: Store) -> None:
        """What it has done stays; one that has ended cannot be cancelled."""
        jobs = [await buried(store) for _ in range(2)]
        operation = await _opened(store, "discard")
        stepped = await store.operations.step(operation.id, None, Share(mark=(7, jobs[0].id), ids=(jobs[0].id,)))
        assert stepped is not None
        cancelled = await store.operations.cancel(operation.id, "bob")
        assert cancelled is not None
        assert (cancelled.state, cancelled.done) == ("cancelled", 1)
        share = Share(mark=None, ids=(jobs[1].id,))
        assert await store.operations.step(operation.id, stepped.mark, share) == cancelled
        assert (await _letter(store, jobs[1].id)).state == "open"
        assert await store.operations.cancel(operation.id, "bob") is None
        assert await store.operations.cancel(NO_ID, "bob") is None

    async def test_operations_are_found_by_their_states(self, store: Store) -> None:
        """The newest first."""
        ids = [(await _opened(store, "discard")).id for _ in range(3)]
        await store.operations.cancel(ids[1], "bob")
        assert [each.id for each in await store.operations.find()] == ids[::-1]
        assert [each.id for each in await store.operations.find(["running"])] == [ids[2], ids[0]]
        assert [each.id for each in await store.operations.find(["cancelled", "finished"])] == [ids[1]]
        assert [each.id for each in await store.operations.find(limit=1)] == [ids[2]]

    async def test_the_reasons_that_are_told_stay_few(self, store: Store) -> None:
        """They may quote payloads; beyond a number they are counted together."""
        operation = await _opened(store, "edit")
        left = {str(n): f"step {n} cannot be done" for n in range(KINDS + 5)}
        ended = await store.operations.step(operation.id, None, Share(mark=None, left=left))
        assert ended is not None
        assert (len(ended.left), ended.left[OTHERS], sum(ended.left.values())) == (KINDS + 1, 5, KINDS + 5)

    # taking an edit back --------------------------------------------------------------------------------------------

    async def test_an_edit_is_taken_back(self, store: Store) -> None:
        """Payload, its number and so the idempotency key are what they were; whoever read it meanwhile is outdated."""
        job = await buried(store, payload=b"1")
        edit = await _edited(store, job.id)
        assert await store.operations.members(edit.id, None, 10) == [job.id]
        undo = await _opened(store, "undo", Change(undo=edit.id))
        assert (await _ended(store, undo, ids=(job.id,))).done == 1
        letter = await _letter(store, job.id)
        assert (letter.payload, letter.payload_version, letter.replaced, letter.version) == (b"1", 1, (), 3)
        assert await store.operations.members(edit.id, None, 10) == []
        last = (await entries_of(store, job.id))[-1]
        assert (last.event, last.actor, last.text) == ("job.edited", "alice", "payload version 1 again")
        assert (await totals(store))["edits_undone"] == 1
        again = await _opened(store, "undo", Change(undo=edit.id))
        why = "it was not edited by this, or that was taken back"
        assert (await _ended(store, again, ids=(job.id,))).left == {why: 1}

    async def test_an_edit_is_not_taken_back_where_something_has_happened_since(self, store: Store) -> None:
        """Edited again, brought back, or ended: the letter is left, and why is told."""
        jobs = [await buried(store, payload=b"1") for _ in range(3)]
        edit = await _edited(store, *(job.id for job in jobs))
        await store.letters.revive([jobs[0].id], "alice", "")
        await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(epoch=2)))
        await store.letters.edit([Edit(jobs[1].id, 2, b"3")], "bob", "")
        await store.letters.discard([jobs[2].id], "bob", "")
        undo = await _opened(store, "undo", Change(undo=edit.id))
        ended = await _ended(store, undo, ids=tuple(job.id for job in jobs))
        assert ended.done == 0
        assert ended.left == {
            "it has been brought back or ended since": 2,
            "it has been edited again since": 1,
        }
        assert [(await live(store, job.id)).payload for job in jobs] == [b"2", b"3", b"2"]

    async def test_the_members_of_an_edit_come_in_pages(self, store: Store) -> None:
        """In the order of their ids, behind the last one seen."""
        jobs = [await buried(store, payload=b"1") for _ in range(3)]
        edit = await _edited(store, *(job.id for job in jobs))
        assert await store.operations.members(edit.id, None, 2) == [jobs[0].id, jobs[1].id]
        assert await store.operations.members(edit.id, (0, jobs[1].id), 2) == [jobs[2].id]

    async def test_a_group_remembers_its_recipes(self, store: Store) -> None:
        """The newest first, and what has become of the letters that they gave a payload."""
        jobs = [await buried(store, payload=b"1") for _ in range(4)]
        other = await buried(store, payload=b"1", failure=a_failure(fingerprint="cafe"))
        first = await _edited(store, *(job.id for job in jobs), other.id)
        second = await _edited(store, jobs[0].id)
        await store.letters.revive([job.id for job in jobs[:3]], "alice", "")
        running = await claimed(store, 2)
        await settled(store, Done(job=running[0]))
        await settled(store, Buried(job=running[1], failure=a_failure(epoch=2)))
        new, old = await store.operations.recipes("f00d")
        assert (new.operation.id, new.edited, new.succeeded) == (second.id, 1, 1)
        assert (old.operation.id, old.edited, old.succeeded, old.again) == (first.id, 4, 1, 1)
        assert (old.running, old.untouched, old.discarded) == (1, 1, 0)
        assert await store.operations.parts(first.id) == [Part(group="f00d", n=4), Part(group="cafe", n=1)]
        assert await store.operations.recipes("beef") == []
        assert await store.operations.last_edits(["beef", "cafe", "f00d"]) == {"cafe": first.id, "f00d": second.id}
        assert [each.operation.id for each in await store.operations.recipes("f00d", 1)] == [second.id]

    # moving letters between groups ----------------------------------------------------------------------------------

    async def test_letters_move_to_another_group(self, store: Store, clock: ManualClock) -> None:
        """With counts, times and samples of both groups; the last failure says it too."""
        jobs = []
        for _ in range(3):
            jobs.append(await buried(store, failure=a_failure(at=clock.now())))
            clock.advance(60)
        ended = await _moved(store, jobs[2].id, jobs[0].id)
        assert (ended.done, ended.left) == (2, {})
        groups = {group.fingerprint: group for group in await store.letters.groups()}
        old, new = groups["f00d"], groups["cafe"]
        letters = [await _letter(store, job.id) for job in jobs]
        assert [letter.group for letter in letters] == ["cafe", "f00d", "cafe"]
        assert (old.count, old.first_seen, old.last_seen) == (1, letters[1].failed_at, letters[1].failed_at)
        assert (new.count, new.first_seen, new.last_seen) == (2, letters[0].failed_at, letters[2].failed_at)
        assert (old.sample, new.title, new.task) == (jobs[1].id, "quota", "email.send")
        assert new.sample in (jobs[0].id, jobs[2].id)
        last = letters[0].failures[-1]
        assert (last.fingerprint, last.title, last.plain, last.plain_title) == ("cafe", "quota", "f00d", "a title")
        assert [(each.reason, each.n) for each in (await store.letters.totals()).kinds] == [("network", 3)]
        assert await store.operations.parts(ended.id) == [Part(group="f00d", n=2, into="cafe")]

    async def test_only_open_letters_count_in_the_group_they_move_to(self, store: Store) -> None:
        """One that was discarded moves too, and counts when it is restored."""
        job, other = await buried(store), await buried(store)
        await store.letters.discard([job.id], "alice", "")
        await _moved(store, job.id, other.id)
        assert {each.fingerprint: each.count for each in await store.letters.groups()} == {"cafe": 1, "f00d": 0}
        await store.letters.restore([job.id], "alice", "")
        assert {each.fingerprint: each.count for each in await store.letters.groups()} == {"cafe": 2, "f00d": 0}

    async def test_owner_and_notes_go_with_the_letters(self, store: Store) -> None:
        """Notes when the group is empty then; a closed group stays closed, because nothing new has failed."""
        jobs = [await buried(store) for _ in range(2)]
        await buried(store, failure=a_failure(fingerprint="cafe"))
        await store.letters.set_groups(["cafe"], GroupState.CLOSED, "bob")
        await store.letters.assign("payments", "bob", groups=["f00d"])
        await store.letters.note("see INC-7", "bob", groups=["f00d"])
        await _moved(store, jobs[0].id)
        [new] = await store.letters.named("cafe")
        assert (new.owner, new.notes, new.state, new.count) == ("payments", (), "closed", 2)
        await _moved(store, jobs[1].id)
        [new], [old] = await store.letters.named("cafe"), await store.letters.named("f00d")
        assert ([note.text for note in new.notes], old.notes, old.count) == (["see INC-7"], (), 0)

    async def test_a_letter_that_has_changed_is_not_moved(self, store: Store, clock: ManualClock) -> None:
        """It has failed again, was moved already, or is gone."""
        job = await buried(store)
        read = await _letter(store, job.id)
        operation = await _opened(store, "regroup")
        stale = [
            msgspec.structs.replace(_move(read), failed_at=read.failed_at - 1),
            msgspec.structs.replace(_move(read), before="beef"),
            msgspec.structs.replace(_move(read), id=NO_ID),
        ]
        for each in stale:
            mark = (0, each.id)
            current = await store.operations.get(operation.id)
            assert current is not None
            await store.operations.step(operation.id, current.mark, Share(mark=mark, moves=(each,)))
        stepped = await store.operations.get(operation.id)
        assert stepped is not None
        assert (stepped.done, sum(stepped.left.values())) == (0, 3)
        assert (await _letter(store, job.id)).group == "f00d"

    async def test_many_letters_take_many_steps(self, store: Store) -> None:
        """The sum of the steps is the operation."""
        jobs = await added_many(store, 6)
        for running in await claimed(store, 6):
            await settled(store, Buried(job=running, failure=a_failure()))
        operation, mark = await _opened(store, "discard"), None
        for begin in (0, 2, 4):
            page = jobs[begin : begin + 2]
            after = mark
            mark = (0, page[-1].id) if begin < 4 else None
            share = Share(mark=mark, ids=tuple(job.id for job in page))
            stepped = await store.operations.step(operation.id, after, share)
        assert stepped is not None
        assert (stepped.done, stepped.state) == (6, "finished")
        assert (await totals(store))["discarded"] == 6


async def _opened(store: Store, verb: OperationVerb, change: Change | None = None) -> Operation:
    return await store.operations.open(verb, EVERYTHING, "alice", "", change=change)


async def _ended(store: Store, operation: Operation, *, ids: tuple[str, ...]) -> Operation:
    """All of it in one step."""
    ended = await store.operations.step(operation.id, None, Share(mark=None, ids=ids))
    assert ended is not None
    assert ended.state == "finished"
    return ended


async def _edited(store: Store, *ids: str) -> Operation:
    """Letters that an operation has given the payload 2."""
    operation = await _opened(store, "edit")
    edits = tuple([Edit(id, (await _letter(store, id)).version, b"2") for id in ids])
    ended = await store.operations.step(operation.id, None, Share(mark=None, edits=edits))
    assert ended is not None
    assert ended.done == len(ids)
    return ended


def _move(letter: Letter) -> Move:
    return Move(
        id=letter.id,
        failed_at=letter.failed_at,
        before=letter.group,
        group="cafe",
        title="quota",
        plain="f00d",
        plain_title="a title",
    )


async def _moved(store: Store, *ids: str) -> Operation:
    operation = await _opened(store, "regroup")
    moves = tuple([_move(await _letter(store, id)) for id in ids])
    ended = await store.operations.step(operation.id, None, Share(mark=None, moves=moves))
    assert ended is not None
    return ended


async def _letter(store: Store, id: str) -> Letter:
    letter = await store.letters.get(id)
    assert letter is not None
    return letter

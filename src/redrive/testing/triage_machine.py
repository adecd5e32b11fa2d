"""The same of what people and rules do to letters: bulk operations, reviews, letters from elsewhere."""

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, invariant, rule

from redrive.bulk import chosen
from redrive.job import State, new_id
from redrive.letter import Letter
from redrive.operations import to_regroup
from redrive.query.tree import EVERYTHING, OPEN, Tree
from redrive.store import Accepted, Change, Edit, Existing, Foreign, Mark, Move, OperationVerb, Share
from redrive.testing.expected import Expected, Operated
from redrive.testing.factories import a_failure, a_job
from redrive.testing.machine import GROUPS, QUEUES, WAITING, StoreMachine

ALIVE = (*WAITING, State.LEASED)
RULES = ("calm", "loud")


@dataclass
class Chosen:
    """A share of an operation that somebody has worked out, and has not handed over yet."""

    of: Operated
    after: Mark | None
    share: Share


class TriageMachine(StoreMachine):
    """Every verb that changes letters, beside those that change jobs."""

    operations: Bundle[Operated] = Bundle("operations")
    shares: Bundle[Chosen] = Bundle("shares")  # also those that come too late

    def __init__(self) -> None:
        super().__init__()
        self.operated: list[Operated] = []
        self.edited = 0

    # --- letters ----------------------------------------------------------------------------------------------------

    @rule(target=StoreMachine.jobs, queue=st.sampled_from(QUEUES), why=st.sampled_from([None, "from elsewhere"]))
    def take_in(self, queue: str, why: str | None) -> str:
        """A dead job from elsewhere; a second time changes nothing."""
        job = a_job(queue=queue, attempts=1)
        failure = a_failure(at=self.clock.now(), epoch=1, attempt=1)
        foreign = Foreign(job=job, failures=(failure,), first_failed_at=failure.at, review=why)
        assert self.runner.run(self.store.letters.take_in([foreign], "alice")) == [Accepted(job.id)]
        assert self.runner.run(self.store.letters.take_in([foreign], "alice")) == [Existing(job.id, State.DEAD)]
        each = self.known[job.id] = Expected(job, State.DEAD, self.clock.now())
        self._fail(each)
        each.dies("f00d")
        each.review = why
        return job.id

    @rule(id=StoreMachine.jobs, why=st.sampled_from([None, "look at it"]), by=st.sampled_from([None, *RULES]))
    def review(self, id: str, why: str | None, by: str | None) -> None:
        """An open letter needs a person, or none any more."""
        each = self._dead(id)
        able = each is not None and (why is not None or each.review is not None)
        answer = self.runner.run(self.store.letters.review([id], why, "alice", rule=by))
        assert (answer.ids, list(answer.left)) == (([id], []) if able else ([], [id]))
        if each is not None and able:
            each.review, each.rule = why, by or each.rule
            each.returns = each.returns if why else 0

    @rule(ids=st.lists(StoreMachine.jobs, max_size=3), by=st.sampled_from(RULES))
    def notify(self, ids: list[str], by: str) -> None:
        """A rule tells once of each death that no rule has dealt with."""
        new = {id for id in ids if (each := self._dead(id)) and each.rule is None}
        assert set(self.runner.run(self.store.letters.notify(ids, by, f"rule:{by}"))) == new
        for id in new:
            self.known[id].rule = by

    @rule(id=StoreMachine.jobs)
    def edit_letter(self, id: str) -> None:
        """Another payload for a dead job, once per version that was read."""
        letter = self.runner.run(self.store.letters.get(id))
        edit = Edit(id, letter.version if letter else 1, self._payload())
        each = self._dead(id)
        assert self.runner.run(self.store.letters.edit([edit], "alice", "")).ids == ([id] if each else [])
        assert self.runner.run(self.store.letters.edit([edit], "alice", "")).ids == []
        if each:
            self._give(each, edit.payload, "")

    # --- operations -------------------------------------------------------------------------------------------------

    @rule(target=operations, verb=st.sampled_from(["discard", "restore", "purge", "edit", "edit", "regroup"]))
    def open_operation(self, verb: OperationVerb) -> Operated:
        """Of all that it can be done to."""
        return self._open(verb, self._tree(verb), Change())

    @rule(target=operations, edit=operations)
    def open_undo(self, edit: Operated) -> Operated:
        """Of an edit, or of something that has edited nothing."""
        return self._open("undo", EVERYTHING, Change(undo=edit.id))

    @rule(
        target=operations,
        verb=st.sampled_from(["discard", "restore", "purge", "edit", "undo", "regroup"]),
        limit=st.integers(1, 3),
        group=st.sampled_from(GROUPS),
    )
    def operate(self, verb: OperationVerb, limit: int, group: str) -> Operated:
        """One from its beginning to its end; what is taken back is the last edit."""
        edits = [of.id for of in self.operated if of.verb == "edit" and of.done]
        change = Change(undo=edits[-1] if edits else new_id()) if verb == "undo" else Change()
        operated = self._open(verb, self._tree(verb), change)
        self.carry_on(operated, limit, group)
        return operated

    @rule(target=shares, operated=operations, limit=st.integers(1, 3), group=st.sampled_from(GROUPS))
    def choose(self, operated: Operated, limit: int, group: str) -> Chosen:
        """Look what the next chunk is; it may be handed over later, or never."""
        return self._chosen(operated, limit, group)

    @rule(operated=operations, limit=st.integers(1, 3), group=st.sampled_from(GROUPS))
    def carry_on(self, operated: Operated, limit: int, group: str) -> None:
        """To its end, unless it has ended."""
        while operated.running:
            self.step(self._chosen(operated, limit, group))

    def _chosen(self, operated: Operated, limit: int, group: str) -> Chosen:
        mark = operated.mark
        if operated.verb == "undo":
            ids = self.runner.run(self.store.operations.members(operated.undo, mark, limit))
            return Chosen(operated, mark, Share(mark=(0, ids[-1]) if len(ids) == limit else None, ids=tuple(ids)))
        page = self.runner.run(self.store.letters.find(self._tree(operated.verb), mark, limit))
        share = Share(mark=page.after)
        match operated.verb:
            case "edit":
                edits = tuple(Edit(letter.id, letter.version, self._payload()) for letter in page.letters)
                share = msgspec.structs.replace(share, edits=edits)
            case "regroup":
                moves = tuple(_move(letter, group) for letter in page.letters if letter.group != group)
                share = msgspec.structs.replace(share, moves=moves)
            case _:
                share = msgspec.structs.replace(share, ids=tuple(letter.id for letter in page.letters))
        return Chosen(operated, mark, share)

    @rule(chosen=shares)
    def step(self, chosen: Chosen) -> None:
        """A share is done once, and only from where it was chosen; what has happened since is left."""
        of = chosen.of
        versions = {edit.id: self.runner.run(self.store.letters.get(edit.id)) for edit in chosen.share.edits}
        if of.running and of.mark == chosen.after:
            of.mark, of.running = chosen.share.mark or of.mark, chosen.share.mark is not None
            for id in chosen.share.ids:
                of.done += self._dispose(of, id)
            for edit in chosen.share.edits:
                letter = versions[edit.id]
                of.done += self._edit(of, edit, letter.version if letter else 0)
            for move in chosen.share.moves:
                of.done += self._move(of, move)
        answer = self.runner.run(self.store.operations.step(of.id, chosen.after, chosen.share))
        assert answer is not None
        assert (answer.done, answer.mark) == (of.done, of.mark)
        assert (answer.state == "running") == of.running

    @rule(operated=operations)
    def cancel_operation(self, operated: Operated) -> None:
        """It goes no further."""
        answer = self.runner.run(self.store.operations.cancel(operated.id, "alice"))
        assert (answer is not None) == operated.running
        operated.running = False

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def letters_say_what_happened(self) -> None:
        """What needs a person, what came back how often, which rule has dealt with it, and what its job is given."""
        for letter in self.runner.run(self.store.letters.find(OPEN, None, 1_000)).letters:
            each, whole = self.known[letter.id], self.runner.run(self.store.letters.get(letter.id))
            assert (letter.group, letter.review, letter.returns) == (each.group, each.review, each.returns)
            assert (letter.rule, whole and whole.payload) == (each.rule, each.job.payload)
            assert whole is not None
            assert [kept.payload for kept in whole.replaced] == [before for _, before, _ in each.edits]

    @invariant()
    def counts_are_of_letters(self) -> None:
        """By kind, and how many of them need a person."""
        dead = self._in(State.DEAD)
        kinds = self.runner.run(self.store.letters.totals()).kinds
        assert (sum(kind.n for kind in kinds), sum(kind.review for kind in kinds)) == (
            len(dead), sum(each.review is not None for each in dead)
        )  # fmt: skip
        groups = self.runner.run(self.store.letters.groups())
        for group in groups:
            ids = [each.job.id for each in dead if each.group == group.fingerprint]
            assert group.count == len(ids)
            assert group.sample in ids or not ids

    @invariant()
    def parts_are_of_operations(self) -> None:
        """What an edit or a regroup has done to groups is all that it has done."""
        for of in self.operated:
            if of.verb in ("edit", "regroup"):
                assert sum(part.n for part in self.runner.run(self.store.operations.parts(of.id))) == of.done

    # --- the reference ----------------------------------------------------------------------------------------------

    def _dead(self, id: str) -> Expected | None:
        each = self.known.get(id)
        return each if each and each.state is State.DEAD else None

    def _open(self, verb: OperationVerb, tree: Tree, change: Change) -> Operated:
        begun = self.runner.run(self.store.operations.open(verb, tree, "alice", "", change=change))
        self.operated.append(Operated(begun.id, verb, self.failures, begun.opened_at, change.undo))
        return self.operated[-1]

    def _tree(self, verb: OperationVerb) -> Tree:
        now = self.clock.now()
        match verb:
            case "regroup" | "undo":
                return to_regroup("state in (open, redriven, closed, discarded)", now, all=False)
            case "purge":
                return chosen(verb, "state in (open, closed, discarded)", None, now, all=False)
        return chosen(verb, "", None, now, all=True)

    def _payload(self) -> bytes:
        self.edited += 1
        return b'{"edit":%d}' % self.edited

    def _give(self, each: Expected, payload: bytes, operation: str) -> None:
        each.edits.append((operation, each.job.payload, each.epoch))
        each.job = msgspec.structs.replace(each.job, payload=payload)

    def _dispose(self, of: Operated, id: str) -> bool:
        each = self.known.get(id)
        if each is None or each.failed_as > of.cut:
            return False
        match of.verb:
            case "discard" if each.state is State.DEAD:
                each.by_hand = True
                self._end(each, State.DISCARDED)
            case "restore" if each.by_hand and each.ended_at <= of.opened_at and self._holder(each.job.key) is None:
                each.by_hand = False
                self._end(each, State.DEAD)
            case "purge" if each.letter and each.state not in ALIVE:
                del self.known[id]
            case "undo" if each.state is State.DEAD and each.edits and each.edits[-1][::2] == (of.undo, each.epoch):
                _, before, _ = each.edits.pop()
                each.job = msgspec.structs.replace(each.job, payload=before)
            case _:
                return False
        return True

    def _edit(self, of: Operated, edit: Edit, version: int) -> bool:
        each = self._dead(edit.id)
        if each is None or each.failed_as > of.cut or version != edit.version:
            return False
        self._give(each, edit.payload, of.id)
        return True

    def _move(self, of: Operated, move: Move) -> bool:
        letter = self.runner.run(self.store.letters.get(move.id))
        each = self.known.get(move.id)
        if letter is None or (letter.group, letter.failed_at) != (move.before, move.failed_at):
            return False
        if each is not None and each.failed_as > of.cut:
            return False
        if each is not None:
            each.group = move.group
        return True


def _move(letter: Letter, group: str) -> Move:
    return Move(id=letter.id, failed_at=letter.failed_at, before=letter.group, group=group, title="another cause")

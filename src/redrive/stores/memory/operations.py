"""Bulk operations in memory."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from redrive.disposal import GONE
from redrive.job import new_id
from redrive.leftovers import SINCE, why_not_undone, with_more
from redrive.letter import Letter, LetterState, Replaced
from redrive.query.tree import Tree
from redrive.store import (
    Change,
    Disposed,
    Edit,
    Mark,
    Operation,
    OperationState,
    OperationVerb,
    Part,
    Recipe,
    Share,
)
from redrive.stores.memory.letters import MemoryLetters
from redrive.stores.memory.regrouping import regroup
from redrive.stores.memory.rows import Given, Memory, Operating


class MemoryOperations:
    """Bulk operations that outlive who began them."""

    def __init__(self, memory: Memory, letters: MemoryLetters) -> None:
        self._memory = memory
        self._rows = memory.rows
        self._letters = letters
        self._known: dict[str, Operating] = memory.rows.operations

    async def open(
        self,
        verb: OperationVerb,
        query: Tree,
        actor: str,
        reason: str,
        *,
        filter: str = "",
        change: Change | None = None,
    ) -> Operation:
        """Begin one; letters that fail from here on are not in it."""
        now = self._memory.clock.now()
        row = Operation(
            id=new_id(), verb=verb, query=query, actor=actor, state="running", opened_at=now, filter=filter,
            reason=reason, change=change or Change(),
        )  # fmt: skip
        with self._rows.lock:
            self._known[row.id] = Operating(row, len(self._rows.entries))
            self._note("operation.opened", row, actor, f"{verb}{f': {reason}' if reason else ''}")
        return row

    async def step(self, id: str, after: Mark | None, share: Share) -> Operation | None:
        """Do a share of it that was chosen behind `after`; answers how it stands then, None when there is none."""
        with self._rows.lock:
            known = self._known.get(id)
            if known is None or known.row.state != "running" or known.row.mark != after:
                return known.row if known else None
            late = {each for each in _ids(share) if self._rows.died.get(each, 0) > known.cut}
            answer = await self._done(known, _without(share, late))
            over, now = share.mark is None, self._memory.clock.now()
            left = (*([SINCE] * len(late)), *share.left.values(), *answer.left.values())
            known.row = msgspec.structs.replace(
                known.row,
                mark=after if share.mark is None else share.mark,
                moved_at=now,
                ended_at=now if over else None,
                state="finished" if over else "running",
                done=known.row.done + len(answer.ids),
                left=with_more(known.row.left, left),
            )
            if over:
                text = f"{known.row.verb}, {known.row.done:,} letters"
                self._note("operation.finished", known.row, known.row.actor, text)
            return known.row

    async def members(self, id: str, after: Mark | None, limit: int) -> list[str]:
        """The letters that still have the payload of this edit behind them, in the order of their ids."""
        with self._rows.lock:
            given = self._known[id].given if id in self._known else {}
            return sorted(each for each in given if after is None or each > after[1])[:limit]

    async def cancel(self, id: str, actor: str) -> Operation | None:
        """Let it go no further; what it has done stays. None when there is none that runs."""
        with self._rows.lock:
            known = self._known.get(id)
            if known is None or known.row.state != "running":
                return None
            known.row = msgspec.structs.replace(known.row, state="cancelled", ended_at=self._memory.clock.now())
            text = f"{known.row.verb}, after {known.row.done:,} letters"
            self._note("operation.cancelled", known.row, actor, text)
            return known.row

    async def get(self, id: str) -> Operation | None:
        """One operation."""
        with self._rows.lock:
            return self._known[id].row if id in self._known else None

    async def find(self, states: Sequence[OperationState] = (), limit: int = 50) -> list[Operation]:
        """Operations in these states, or all of them; the newest first."""
        with self._rows.lock:
            rows = [each.row for each in self._known.values() if not states or each.row.state in states]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

    async def parts(self, id: str) -> list[Part]:
        """What an edit or a regroup has done to which groups, most letters first."""
        with self._rows.lock:
            parts = dict(self._known[id].parts) if id in self._known else {}
        found = [Part(group=group, n=n, into=into) for (group, into), n in parts.items()]
        return sorted(found, key=lambda part: (-part.n, part.group, part.into))

    async def recipes(self, group: str, limit: int = 10) -> list[Recipe]:
        """The edits of many letters that a group has seen, the newest first."""
        with self._rows.lock:
            found = [each for each in self._known.values() if each.row.verb == "edit" and each.parts[group, ""]]
            found = sorted(found, key=lambda each: each.row.id, reverse=True)[:limit]
            return [self._recipe(each, group) for each in found]

    async def last_edits(self, groups: Sequence[str]) -> dict[str, str]:
        """The newest edit of many letters that each of these groups has seen, of those that have."""
        with self._rows.lock:
            edits = sorted(each.row.id for each in self._known.values() if each.row.verb == "edit")
            return {group: id for id in edits for group in groups if self._known[id].parts[group, ""]}

    # --- the steps, under the lock ----------------------------------------------------------------------------------

    async def _done(self, known: Operating, share: Share) -> Disposed:
        operation, letters = known.row, self._letters
        actor, reason, upto = operation.actor, operation.reason, operation.opened_at
        match operation.verb:
            case "discard":
                return await letters.discard(share.ids, actor, reason, upto)
            case "restore":
                return await letters.restore(share.ids, actor, reason, upto)
            case "purge":
                return await letters.purge(share.ids, actor, reason, upto)
            case "edit":
                return await self._edit(known, share.edits)
            case "undo":
                return self._undo(operation, share.ids)
            case "regroup":
                return regroup(self._memory, share.moves, known.parts)

    async def _edit(self, known: Operating, edits: Sequence[Edit]) -> Disposed:
        answer = await self._letters.edit(edits, known.row.actor, known.row.reason)
        for id in answer.ids:
            letter = self._rows.letters[id]
            known.parts[letter.group, ""] += 1
            known.given[id] = Given(self._rows.replaced[id][-1], letter.epochs)
        return answer

    def _undo(self, operation: Operation, ids: Sequence[str]) -> Disposed:
        edit = self._known.get(operation.change.undo)
        edited = edit.given if edit else {}
        done, left = list[str](), dict[str, str]()
        for id in dict.fromkeys(ids):
            letter, given = self._rows.letters.get(id), edited.get(id)
            why = GONE if letter is None else self._why_not_undone(letter, given)
            if letter is None or given is None or why is not None:
                left[id] = why or GONE
            else:
                self._take_back(letter, given.replaced, operation)
                del edited[id]
                done.append(id)
        return Disposed(done, left)

    def _why_not_undone(self, letter: Letter, given: Given | None) -> str | None:
        row = self._rows.jobs.get(letter.id)
        return why_not_undone(
            is_open=letter.state is LetterState.OPEN,
            brought_back=given is not None and letter.epochs != given.epoch,
            version=row.job.payload_version if row else None,
            replaced=given.replaced.version if given else None,
        )

    def _take_back(self, letter: Letter, replaced: Replaced, operation: Operation) -> None:
        row = self._rows.jobs[letter.id]
        job = self._rows.change(row, payload=replaced.payload, payload_version=replaced.version)
        self._rows.replaced[letter.id].remove(replaced)
        self._rows.letters[letter.id] = msgspec.structs.replace(letter, version=letter.version + 1)
        self._memory.count(job, "edits_undone")
        reason = f": {operation.reason}" if operation.reason else ""
        text = f"payload version {replaced.version} again{reason}"
        self._memory.record("job.edited", job, actor=operation.actor, text=text)

    def _recipe(self, known: Operating, group: str) -> Recipe:
        now: Counter[str] = Counter()
        for id, given in known.given.items():
            letter = self._rows.letters.get(id)
            if letter is not None and letter.group == group:
                again = letter.state is LetterState.OPEN and letter.epochs > given.epoch
                now["again" if again else letter.state.value] += 1
        return Recipe(
            operation=known.row,
            edited=known.parts[group, ""],
            untouched=now["open"],
            running=now["redriven"],
            succeeded=now["closed"],
            again=now["again"],
            discarded=now["discarded"],
        )

    def _note(self, event: str, row: Operation, actor: str, text: str) -> None:
        self._memory.note(event, actor=actor, text=f"operation {row.id[-8:]}: {text}")


def _ids(share: Share) -> list[str]:
    return [*share.ids, *(each.id for each in share.edits), *(each.id for each in share.moves)]


def _without(share: Share, late: set[str]) -> Share:
    return msgspec.structs.replace(
        share,
        ids=tuple(id for id in share.ids if id not in late),
        edits=tuple(each for each in share.edits if each.id not in late),
        moves=tuple(each for each in share.moves if each.id not in late),
    )

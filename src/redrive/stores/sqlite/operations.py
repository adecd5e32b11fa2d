"""Bulk operations: each step one transaction, which also moves the mark from which the next one goes on."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from redrive.job import new_id
from redrive.leftovers import SINCE, with_more
from redrive.query.tree import Tree
from redrive.store import (
    Change,
    Disposed,
    Mark,
    Operation,
    OperationState,
    OperationVerb,
    Part,
    Recipe,
    Share,
)
from redrive.stores.sqlite import disposing, editing, regrouping
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, blobs_of, packed, spelled, texts_of, unpacked_or_none, writable

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore


class SqliteOperations:
    """Bulk operations that outlive who began them."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

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
        begun = Operation(
            id=new_id(), verb=verb, query=query, actor=writable(actor), state="running", opened_at=0,
            filter=writable(filter), reason=writable(reason), change=change or Change(),
        )  # fmt: skip
        return await self._store.write(lambda tx: _open(tx, begun))

    async def step(self, id: str, after: Mark | None, share: Share) -> Operation | None:
        """Do a share of it that was chosen behind `after`; answers how it stands then, None when there is none."""
        return await self._store.write(lambda tx: _step(tx, id, after, share))

    async def members(self, id: str, after: Mark | None, limit: int) -> list[str]:
        """The letters that still have the payload of this edit behind them, in the order of their ids."""
        begin = packed(after[1]) if after else b""
        rows = await self._store.read(lambda snapshot: snapshot.all("edited_by", _key(id), begin, limit))
        return [spelled(row[0]) for row in rows]

    async def cancel(self, id: str, actor: str) -> Operation | None:
        """Let it go no further; what it has done stays. None when there is none that runs."""
        return await self._store.write(lambda tx: _cancel(tx, id, actor))

    async def get(self, id: str) -> Operation | None:
        """One operation."""
        return await self._store.read(lambda snapshot: _found(snapshot, id))

    async def find(self, states: Sequence[OperationState] = (), limit: int = 50) -> list[Operation]:
        """Operations in these states, or all of them; the newest first."""
        return await self._store.read(lambda snapshot: _find(snapshot, states, limit))

    async def parts(self, id: str) -> list[Part]:
        """What an edit or a regroup has done to which groups, most letters first."""
        rows = await self._store.read(lambda snapshot: snapshot.all("parts_of_operation", _key(id)))
        return [Part(group=row[0], n=row[1], into=row[2]) for row in rows]

    async def recipes(self, group: str, limit: int = 10) -> list[Recipe]:
        """The edits of many letters that a group has seen, the newest first."""
        return await self._store.read(lambda snapshot: _recipes(snapshot, group, limit))

    async def last_edits(self, groups: Sequence[str]) -> dict[str, str]:
        """The newest edit of many letters that each of these groups has seen, of those that have."""
        rows = await self._store.read(lambda snapshot: snapshot.all("last_edits", texts_of(groups)))
        return {group: spelled(id) for group, id in rows}


# looking --------------------------------------------------------------------------------------------------------------


def _key(id: str) -> bytes:
    return unpacked_or_none(id) or b""


def _found(snapshot: Snapshot, id: str) -> Operation | None:
    row = snapshot.first("operation", _key(id))
    return _operation(row) if row else None


def _find(snapshot: Snapshot, states: Sequence[OperationState], limit: int) -> list[Operation]:
    if not states:
        return [_operation(row) for row in snapshot.all("operations", limit)]
    rows = [row for state in dict.fromkeys(states) for row in snapshot.all("operations_of_state", state, limit)]
    return [_operation(row) for row in sorted(rows, key=lambda row: row[0], reverse=True)[:limit]]


def _operation(row: Row) -> Operation:
    return Operation(
        id=spelled(row[0]),
        verb=row[1],
        state=row[2],
        query=msgspec.json.decode(row[3], type=Tree),
        filter=row[4],
        actor=row[5],
        reason=row[6],
        change=msgspec.json.decode(row[7], type=Change),
        opened_at=row[8],
        mark=None if row[9] is None else (row[9], spelled(row[10])),
        moved_at=row[11],
        ended_at=row[12],
        done=row[13],
        left=msgspec.json.decode(row[14], type=dict[str, int]),
    )


def _recipes(snapshot: Snapshot, group: str, limit: int) -> list[Recipe]:
    found = []
    for row in snapshot.all("edits_of_group", group, limit):
        now: Counter[str] = Counter()
        for state, later, n in snapshot.all("after_edit", row[0], group):
            now["again" if state == "open" and later else state] += n
        found.append(
            Recipe(
                operation=_operation(row),
                edited=row[15],
                untouched=now["open"],
                running=now["redriven"],
                succeeded=now["closed"],
                again=now["again"],
                discarded=now["discarded"],
            )
        )
    return found


# doing ----------------------------------------------------------------------------------------------------------------


def _open(tx: Transaction, begun: Operation) -> Operation:
    query, change = (msgspec.json.encode(each).decode() for each in (begun.query, begun.change))
    tx.run(
        "open_operation", packed(begun.id), begun.verb, query, begun.filter, begun.actor, begun.reason, change, tx.now
    )
    _note(tx, "operation.opened", begun, begun.actor, f"{begun.verb}{f': {begun.reason}' if begun.reason else ''}")
    tx.points.add("operation.opened")
    return msgspec.structs.replace(begun, opened_at=tx.now)


def _step(tx: Transaction, id: str, after: Mark | None, share: Share) -> Operation | None:
    row = tx.first("operation", _key(id))
    if row is None:
        return None
    operation = _operation(row)
    if operation.state != "running" or operation.mark != after:
        return operation
    share, later = _before_the_cut(tx, share, cut=row[15])
    answer = _done(tx, operation, share)
    left = with_more(operation.left, (*later, *share.left.values(), *answer.left.values()))
    over = share.mark is None
    mark, mark_id = (after or (None, None)) if share.mark is None else share.mark
    tx.run(
        "step_operation", row[0], mark, None if mark_id is None else packed(mark_id), tx.now, tx.now if over else None,
        len(answer.ids), msgspec.json.encode(left).decode(), "finished" if over else "running",
    )  # fmt: skip
    tx.points.add("operation.chunk")
    changed = _found(tx, id)
    if over and changed is not None:
        _note(tx, "operation.finished", changed, changed.actor, f"{changed.verb}, {changed.done:,} letters")
    return changed


def _before_the_cut(tx: Transaction, share: Share, cut: int) -> tuple[Share, list[str]]:
    """The share without letters that have failed since the operation was opened, and why each of those was left."""
    ids = [*share.ids, *(each.id for each in share.edits), *(each.id for each in share.moves)]
    late = {spelled(row[0]) for row in tx.all("died_later", blobs_of([packed(id) for id in ids]), cut)}
    if not late:
        return share, []
    share = msgspec.structs.replace(
        share,
        ids=tuple(id for id in share.ids if id not in late),
        edits=tuple(each for each in share.edits if each.id not in late),
        moves=tuple(each for each in share.moves if each.id not in late),
    )
    return share, [SINCE] * len(late)


def _done(tx: Transaction, operation: Operation, share: Share) -> Disposed:
    actor, reason, upto = operation.actor, operation.reason, operation.opened_at
    match operation.verb:
        case "discard":
            return disposing.discard(tx, share.ids, actor, reason, upto)
        case "restore":
            return disposing.restore(tx, share.ids, actor, reason, upto)
        case "purge":
            return disposing.purge(tx, share.ids, actor, reason, upto)
        case "edit":
            return editing.edit(tx, share.edits, actor, reason, packed(operation.id))
        case "undo":
            return editing.undo(tx, share.ids, packed(operation.change.undo), actor, reason)
        case "regroup":
            return regrouping.regroup(tx, share.moves, packed(operation.id))


def _cancel(tx: Transaction, id: str, actor: str) -> Operation | None:
    operation = _found(tx, id)
    if operation is None or operation.state != "running":
        return None
    tx.run("cancel_operation", packed(id), tx.now)
    _note(tx, "operation.cancelled", operation, actor, f"{operation.verb}, after {operation.done:,} letters")
    return _found(tx, id)


def _note(tx: Transaction, event: str, operation: Operation, actor: str, text: str) -> None:
    tx.journal(event, actor=actor, text=f"operation {operation.id[-8:]}: {text}")

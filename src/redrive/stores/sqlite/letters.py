"""Dead letters and their groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.job import State
from redrive.letter import Group, GroupState, Letter, LetterState
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.transaction import Snapshot, Transaction, unique
from redrive.stores.sqlite.values import failure_of, ids_of, numbers_of, packed, spelled, unpacked_or_none

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore


class SqliteLetters:
    """Dead letters and their groups."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def get(self, id: str) -> Letter | None:
        """One letter with every failure of every epoch."""
        return await self._store.read(lambda snapshot: _letter(snapshot, id))

    async def groups(self, limit: int = 100) -> list[Group]:
        """Groups, most letters first."""
        return await self._store.read(lambda snapshot: _groups(snapshot, limit))

    async def revive(self, ids: Sequence[str], actor: str, reason: str) -> list[str]:
        """Give dead jobs a new epoch: dead to ready, epoch + 1, attempts from zero. Answers who was."""
        return await self._store.write(lambda tx: _revive(tx, ids, actor, reason))

    async def of_group(self, fingerprint: str, after: str | None, limit: int) -> list[str]:
        """The ids of a group's open letters, oldest first."""
        begin = packed(after) if after else b""
        return await self._store.read(
            lambda snapshot: [spelled(row[0]) for row in snapshot.all("letters_of_group", fingerprint, begin, limit)]
        )


def _letter(snapshot: Snapshot, id: str) -> Letter | None:
    blob = unpacked_or_none(id)
    row = snapshot.first("letter", blob) if blob else None
    if row is None:
        return None
    return Letter(
        id=id,
        task=row[0],
        queue=row[1],
        priority=row[2],
        state=LetterState(row[3]),
        reason=row[4],
        type=row[5],
        message=row[6],
        group=row[7],
        attempts=row[8],
        epochs=row[9],
        first_failed_at=row[10],
        failed_at=row[11],
        host=row[12],
        worker=row[13],
        release=row[14],
        version=row[15],
        failures=tuple(failure_of(each) for each in snapshot.all("failures_of", blob)),
    )


def _groups(snapshot: Snapshot, limit: int) -> list[Group]:
    return [
        Group(
            fingerprint=row[0],
            title=row[1],
            task=row[2],
            reason=row[3],
            type=row[4],
            count=row[5],
            first_seen=row[6],
            last_seen=row[7],
            sample=spelled(row[8]),
            state=GroupState(row[9]),
        )
        for row in snapshot.all("groups", limit)
    ]


def _revive(tx: Transaction, ids: Sequence[str], actor: str, reason: str) -> list[str]:
    dead = tx.all("dead_jobs", ids_of(unique(ids)))
    tx.run("revive", numbers_of(row[0] for row in dead), tx.now)
    end_letters(tx, [row[1] for row in dead], LetterState.REDRIVEN)
    for _, id, queue, task, priority, epoch in dead:
        tx.count(queue, task, priority, None, "redriven")
        tx.shift(queue, State.DEAD, State.READY)
        tx.journal("job.redriven", (id, task, queue, epoch + 1, 0), actor=actor, text=reason)
    return [spelled(row[1]) for row in dead]

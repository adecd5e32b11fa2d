"""Dead letters and their groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.job import State
from redrive.letter import Group, Letter, LetterState
from redrive.query.tree import Tree
from redrive.store import Mark, Page, Totals
from redrive.stores.sqlite import finding
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.transaction import Transaction, unique
from redrive.stores.sqlite.values import ids_of, numbers_of, packed, spelled

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore


class SqliteLetters:
    """Dead letters and their groups."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def get(self, id: str) -> Letter | None:
        """One letter with its payload and every failure of every epoch."""
        return next(iter(await self.whole([id])), None)

    async def find(self, query: Tree, after: Mark | None = None, limit: int = 50) -> Page:
        """A page of the letters that a filter means, the last failure first."""
        return await self._store.read(lambda snapshot: finding.find(snapshot, query, after, limit))

    async def whole(self, ids: Sequence[str]) -> list[Letter]:
        """These letters as `get` answers them, in order; those that are gone are left out."""
        return await self._store.read(lambda snapshot: finding.whole(snapshot, ids))

    async def count(self, query: Tree) -> int:
        """How many letters a filter means."""
        return await self._store.read(lambda snapshot: finding.count(snapshot, query))

    async def totals(self) -> Totals:
        """How many open letters there are of each kind, without looking at them."""
        return await self._store.read(finding.totals)

    async def groups(self, query: Tree | None = None, limit: int = 100) -> list[Group]:
        """Groups, most letters first; with a filter, of the letters it means, counted among them."""
        return await self._store.read(lambda snapshot: finding.groups(snapshot, query, limit))

    async def revive(self, ids: Sequence[str], actor: str, reason: str) -> list[str]:
        """Give dead jobs a new epoch: dead to ready, epoch + 1, attempts from zero. Answers who was."""
        return await self._store.write(lambda tx: _revive(tx, ids, actor, reason))

    async def of_group(self, fingerprint: str, after: str | None, limit: int) -> list[str]:
        """The ids of a group's open letters, oldest first."""
        begin = packed(after) if after else b""
        return await self._store.read(
            lambda snapshot: [spelled(row[0]) for row in snapshot.all("letters_of_group", fingerprint, begin, limit)]
        )


def _revive(tx: Transaction, ids: Sequence[str], actor: str, reason: str) -> list[str]:
    dead = tx.all("dead_jobs", ids_of(unique(ids)))
    tx.run("revive", numbers_of(row[0] for row in dead), tx.now)
    end_letters(tx, [row[1] for row in dead], LetterState.REDRIVEN)
    for _, id, queue, task, priority, epoch in dead:
        tx.count(queue, task, priority, None, "redriven")
        tx.shift(queue, State.DEAD, State.READY)
        tx.journal("job.redriven", (id, task, queue, epoch + 1, 0), actor=actor, text=reason)
    return [spelled(row[1]) for row in dead]

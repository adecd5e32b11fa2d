"""Dead letters and their groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.disposal import NEVER
from redrive.job import State
from redrive.letter import Group, GroupState, Letter, LetterState
from redrive.query.tree import Tree
from redrive.retention import Notice
from redrive.store import Accepted, Disposed, Edit, Existing, Foreign, Mark, Outline, Page, Totals
from redrive.stores.sqlite import disposing, editing, finding, marking, retaining, reviewing, taking
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.transaction import Transaction, unique
from redrive.stores.sqlite.values import ids_of, numbers_of, spelled

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

    async def take_in(self, letters: Sequence[Foreign], actor: str) -> list[Accepted | Existing]:
        """Make each a dead job with its open letter; what is there already, or was purged, stays as it is."""
        return await self._store.write(lambda tx: taking.take_in(tx, letters, actor)) if letters else []

    async def revive(self, ids: Sequence[str], actor: str, reason: str) -> list[str]:
        """Give dead jobs a new epoch: dead to ready, epoch + 1, attempts from zero. Answers who was."""
        return await self._store.write(lambda tx: _revive(tx, ids, actor, reason))

    # their end ------------------------------------------------------------------------------------------------------

    async def outline(self, query: Tree) -> Outline:
        """How many letters a filter means, in how many groups, and between which times they failed last."""
        return await self._store.read(lambda snapshot: finding.outline(snapshot, query))

    async def discard(
        self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER, *, rule: str | None = None
    ) -> Disposed:
        """End dead jobs and their open letters, of those that failed last at `upto` or before."""
        return await self._store.write(lambda tx: disposing.discard(tx, ids, actor, reason, upto, rule))

    async def restore(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Undo discards of `upto` or before: dead again, with an open letter in its group."""
        return await self._store.write(lambda tx: disposing.restore(tx, ids, actor, reason, upto))

    async def purge(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Remove letters with their failures, notes and jobs; a tombstone keeps their ids from being added again."""
        return await self._store.write(lambda tx: disposing.purge(tx, ids, actor, reason, upto))

    async def edit(self, edits: Sequence[Edit], actor: str, reason: str) -> Disposed:
        """Give dead jobs other payloads; a letter that has changed since it was read is left as it is."""
        return await self._store.write(lambda tx: editing.edit(tx, edits, actor, reason))

    # open ones whose time is over -----------------------------------------------------------------------------------

    async def notices(self) -> list[Notice]:
        """The removals of open letters that were announced, by queue."""
        return await self._store.read(retaining.notices)

    async def announce(self, notices: Sequence[Notice], actor: str) -> None:
        """Let these be all that is announced."""
        await self._store.write(lambda tx: retaining.announce(tx, notices, actor))

    # what people say of them ----------------------------------------------------------------------------------------

    async def named(self, prefix: str, limit: int = 5) -> list[Group]:
        """The groups whose names begin so, with their notes."""
        return await self._store.read(lambda snapshot: finding.named(snapshot, prefix, limit))

    async def set_groups(
        self,
        groups: Sequence[str],
        state: GroupState,
        actor: str,
        *,
        reason: str = "",
        until: int | None = None,
        release: str | None = None,
    ) -> list[str]:
        """Mute groups until a moment, close them in a release, or open them; answers which there are."""
        return await self._store.write(lambda tx: marking.set_groups(tx, groups, state, actor, reason, until, release))

    async def assign(self, owner: str | None, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Say who looks after groups and letters, None for nobody; answers how many there are."""
        return await self._store.write(lambda tx: marking.assign(tx, owner, actor, groups, ids))

    async def note(self, text: str, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Write something about groups and letters that outlives their retries; answers how many there are."""
        return await self._store.write(lambda tx: marking.note(tx, text, actor, groups, ids))

    async def review(self, ids: Sequence[str], why: str | None, actor: str, *, rule: str | None = None) -> Disposed:
        """Say why open letters need a person, or with None that they need none any more, and count returns anew."""
        return await self._store.write(lambda tx: reviewing.review(tx, ids, why, actor, rule))

    async def notify(self, ids: Sequence[str], rule: str, actor: str) -> list[str]:
        """Write a line for each group of open letters that no rule has told of since they died; answers which."""
        return await self._store.write(lambda tx: reviewing.notify(tx, ids, rule, actor))


def _revive(tx: Transaction, ids: Sequence[str], actor: str, reason: str) -> list[str]:
    dead = tx.all("dead_jobs", ids_of(unique(ids)))
    tx.run("revive", numbers_of(row[0] for row in dead), tx.now)
    end_letters(tx, [row[1] for row in dead], LetterState.REDRIVEN)
    for _, id, queue, task, priority, epoch in dead:
        tx.count(queue, task, priority, None, "redriven")
        tx.shift(queue, State.DEAD, State.READY)
        tx.journal("job.redriven", (id, task, queue, epoch + 1, 0), actor=actor, text=reason)
    return [spelled(row[1]) for row in dead]

"""Redrives: opened, frozen and released in chunks, each a transaction of its own."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from redrive.job import new_id
from redrive.letter import Letter
from redrive.query.parsing import parse
from redrive.query.tree import OPEN, Both
from redrive.ramp import turn_by_age, turn_of
from redrive.store import (
    Chunk,
    Due,
    Given,
    Item,
    ItemState,
    Pattern,
    Plan,
    Redrive,
    RedriveState,
    Stage,
    Tally,
    Weighed,
    becomes,
)
from redrive.stores.sqlite import finding
from redrive.stores.sqlite.driven import key_of, note, redrive_of, row_of, tallies_of
from redrive.stores.sqlite.marking import reopen
from redrive.stores.sqlite.releasing import Release, due, weigh
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, blobs_of, packed, spelled, writable

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore

OPEN_LIMIT = 10_000
"""So many that run are looked at, to tell those that wait from the others."""


class SqliteRedrives:
    """Redrives: open, freeze, release in stages, watch."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def open(self, plan: Plan, actor: str, reason: str, *, sole: bool = False) -> Redrive:
        """Begin one; letters that die from here on are not in it."""
        parse(plan.filter, 0)
        return await self._store.write(lambda tx: (sole and _there(tx, actor)) or _open(tx, plan, actor, reason))

    async def freeze(self, id: str, limit: int) -> bool:
        """Take in up to `limit` more of its letters; whether it is frozen, and may release."""
        return await self._store.write(lambda tx: _freeze(tx, id, limit))

    async def due(self, id: str, stage: int, size: int, limit: int) -> list[Due]:
        """What `release` with the same words would bring back, as far as the payloads are few megabytes together."""
        return await self._store.read(lambda snapshot: due(snapshot, id, stage, size, limit))

    async def release(self, id: str, stage: int, size: int, limit: int, given: Sequence[Given] = ()) -> Chunk:
        """Give up to `limit` letters of a stage a new epoch."""
        return await self._store.write(lambda tx: Release(tx, id, stage, size, given).run(limit))

    async def weigh(self, ids: Sequence[str], plan: Plan) -> Weighed:
        """What a redrive would do now with these open letters, without doing it."""
        return await self._store.read(lambda snapshot: weigh(snapshot, [packed(id) for id in ids], plan))

    async def stop(self, id: str, causes: Sequence[str], actor: str) -> list[str]:
        """Release nothing more of these causes; answers which were not stopped yet."""
        return await self._store.write(lambda tx: _stop(tx, id, causes, actor))

    async def change(self, id: str, version: int, state: RedriveState, actor: str, why: str = "") -> Redrive | None:
        """Pause, resume (`running`), cancel or finish; None when it has another version or cannot become that."""
        return await self._store.write(lambda tx: _change(tx, id, version, state, actor, why))

    async def get(self, id: str) -> Redrive | None:
        """One redrive."""
        row = await self._store.read(lambda snapshot: row_of(snapshot, id))
        return redrive_of(row) if row else None

    async def find(
        self, states: Sequence[RedriveState] = (), limit: int = 50, actor: str | None = None
    ) -> list[Redrive]:
        """Redrives in these states, or all of them, or all that an actor has opened; the newest first."""
        return await self._store.read(lambda snapshot: _find(snapshot, states, limit, actor))

    async def places(self, id: str) -> list[tuple[str, str]]:
        """In which queue its letters that are not released yet would run, and as which task."""
        return await self._store.read(lambda snapshot: _places(snapshot, id))

    async def tally(self, id: str) -> list[Tally]:
        """How each cause does, most letters first."""
        return await self._store.read(lambda snapshot: tallies_of(snapshot, key_of(id)))

    async def stages(self, id: str) -> list[Stage]:
        """The stages so far."""
        rows = await self._store.read(lambda snapshot: snapshot.all("stages_of_redrive", key_of(id)))
        return [Stage(number=n, at=at, released=r, passed=p, relapsed=a, strayed=s, dropped=d)
                for n, at, r, p, a, s, d in rows]  # fmt: skip

    async def patterns(self, id: str) -> list[Pattern]:
        """Why letters were skipped, and of what they failed; most of them first."""
        rows = await self._store.read(lambda snapshot: snapshot.all("patterns_of_redrive", key_of(id)))
        return [Pattern(state=row[0], why=row[1], n=row[2], sample=spelled(row[3]), title=row[4]) for row in rows]

    async def items(
        self, id: str, states: Sequence[ItemState] = (), after: str | None = None, limit: int = 100
    ) -> list[Item]:
        """A page of its letters in the order of their ids; only those in these states if any are named."""
        rows = await self._store.read(lambda snapshot: _items(snapshot, key_of(id), states, after, limit))
        return [
            Item(id=spelled(row[0]), cause=row[1], state=row[2], stage=row[3], why=row[4], at=row[5]) for row in rows
        ]


# looking --------------------------------------------------------------------------------------------------------------


def _find(snapshot: Snapshot, states: Sequence[RedriveState], limit: int, actor: str | None) -> list[Redrive]:
    if actor is not None:
        found = [redrive_of(row) for row in snapshot.all("redrives_of_actor", actor, limit)]
        return [each for each in found if not states or each.state in states]
    if not states:
        return [redrive_of(row) for row in snapshot.all("redrives", limit)]
    kept = dict.fromkeys("running" if state == "waiting" else state for state in states)
    most = OPEN_LIMIT if "running" in kept else limit
    found = [redrive_of(row) for state in kept for row in snapshot.all("redrives_of_state", state, most)]
    fitting = [each for each in found if each.state in states]
    return sorted(fitting, key=lambda each: each.id, reverse=True)[:limit]


def _there(tx: Transaction, actor: str) -> Redrive | None:
    """The open redrive of this actor."""
    found = tx.first("open_redrive_of_actor", writable(actor))
    row = row_of(tx, spelled(found[0])) if found else None
    return redrive_of(row) if row else None


def _places(snapshot: Snapshot, id: str) -> list[tuple[str, str]]:
    row = row_of(snapshot, id)
    if row is None:
        return []
    return [(queue, task) for queue, task in snapshot.all("places_of_redrive", row[0], redrive_of(row).plan.queue)]


def _items(snapshot: Snapshot, key: bytes, states: Sequence[ItemState], after: str | None, limit: int) -> list[Row]:
    begin = packed(after) if after else b""
    if not states:
        return snapshot.all("items_of_redrive", key, begin, limit)
    rows = [row for state in dict.fromkeys(states) for row in snapshot.all("items_of_state", key, begin, limit, state)]
    return sorted(rows, key=lambda row: row[0])[:limit]


# opening and freezing -------------------------------------------------------------------------------------------------


def _open(tx: Transaction, plan: Plan, actor: str, reason: str) -> Redrive:
    id = new_id()
    text = msgspec.json.encode(plan).decode()
    tx.run("open_redrive", packed(id), text, plan.judge, writable(actor), writable(reason), tx.now)
    note(tx, "redrive.opened", id, actor, reason)
    tx.points.add("redrive.opened")
    return Redrive(id=id, plan=plan, actor=actor, reason=reason, state="freezing", opened_at=tx.now)


def _freeze(tx: Transaction, id: str, limit: int) -> bool:
    row = row_of(tx, id)
    if row is None or row[4] != "freezing":
        return row is not None and row[7] is not None
    redrive, key = redrive_of(row), row[0]
    most = limit if redrive.plan.limit is None else min(limit, redrive.plan.limit - redrive.total)
    after = None if row[16] is None else (row[16], spelled(row[17]))
    tree = Both((OPEN, parse(redrive.plan.filter, redrive.opened_at)))
    page = finding.find(tx, tree, after, most, oldest=redrive.plan.order == "oldest")
    items = _chosen(tx, key, page.letters, cut=row[15], order=redrive.plan.order)
    tx.many("add_item", items)
    skipped = Counter(item[2] for item in items if item[5] == "skipped")
    tx.many("add_to_cause", [(key, cause, n, skipped[cause]) for cause, n in Counter(i[2] for i in items).items()])
    mark = page.after or (0, id)
    tx.run("frozen_so_far", key, len(items), mark[0], packed(mark[1]))
    tx.points.add("redrive.freezing")
    if page.after is not None and redrive.total + len(items) != redrive.plan.limit:
        return False
    tx.run("frozen", key, tx.now)
    note(tx, "redrive.frozen", id, redrive.actor, f"{redrive.total + len(items):,} letters")
    return True


def _chosen(tx: Transaction, redrive: bytes, letters: Sequence[Letter], cut: int, order: str) -> list[Row]:
    """The letters that were dead before the cut; one that another redrive holds is skipped at once."""
    ids = [packed(letter.id) for letter in letters]
    later = {each[0] for each in tx.all("died_later", blobs_of(ids), cut)}
    held: dict[bytes, bytes] = dict(tx.all("held_by_redrives", blobs_of(ids), redrive))
    items = []
    for id, letter in zip(ids, letters, strict=True):
        if id not in later:
            why = f"already in redrive {spelled(held[id])[-8:]}" if id in held else ""
            state = "skipped" if id in held else "pending"
            turn = turn_by_age(letter.failed_at) if order == "oldest" else turn_of(redrive, id)
            items.append((redrive, id, letter.group, turn, letter.epochs, state, why, tx.now))
    return items


# changing -------------------------------------------------------------------------------------------------------------


def _stop(tx: Transaction, id: str, causes: Sequence[str], actor: str) -> list[str]:
    row = row_of(tx, id)
    if row is None or row[4] not in ("running", "paused"):
        return []
    stage = row[10]
    stopped = [cause for cause in dict.fromkeys(causes) if tx.all("stop_cause", row[0], cause, stage)]
    for cause in stopped:
        note(tx, "redrive.stopped", id, actor, f"group {cause[:8]} recurs, stopped in stage {stage}")
        reopen(tx, cause, f"recurs in redrive {id[-8:]}", actor)
    return stopped


def _change(tx: Transaction, id: str, version: int, state: RedriveState, actor: str, why: str) -> Redrive | None:
    row = row_of(tx, id)
    if row is None or row[6] != version:
        return None
    before = redrive_of(row)
    after = becomes(before, state)
    if after is None:
        return None
    ended_at = tx.now if after in ("finished", "cancelled") else None
    resumed_at = tx.now if row[4] == "paused" else None
    tx.run("change_redrive", row[0], "running" if after == "waiting" else after, writable(why), ended_at, resumed_at)
    event: str = "resumed" if row[4] == "paused" and after in ("freezing", "waiting", "running") else after
    if before.state == "waiting" and after == "running":
        event = "begun"
        tx.run("begin_redrive", row[0], tx.now)
        tx.points.add("redrive.begun")
    note(tx, f"redrive.{event}", id, actor, why)
    changed = row_of(tx, id)
    return redrive_of(changed) if changed else None

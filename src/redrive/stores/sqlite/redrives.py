"""Redrives: opened, frozen and released in chunks, each a transaction of its own."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from redrive.job import State, new_id
from redrive.letter import Letter, LetterState
from redrive.limits import KEPT, MAX_ATTEMPTS, carried, limits_of
from redrive.query.parsing import parse
from redrive.query.tree import Both, Compare
from redrive.ramp import paced, turn_by_age, turn_of
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
from redrive.stores.sqlite import finding, reviewing
from redrive.stores.sqlite.editing import replace
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.marking import reopen
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.turns import Turns, handed, stage_left
from redrive.stores.sqlite.values import Row, blobs_of, numbers_of, packed, spelled, unpacked_or_none, writable

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore

OPEN_LIMIT = 10_000
"""So many that run are looked at, to tell those that wait from the others."""

_OPEN = Compare("state", "=", LetterState.OPEN.value)


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
        return await self._store.read(lambda snapshot: _due(snapshot, id, stage, size, limit))

    async def release(self, id: str, stage: int, size: int, limit: int, given: Sequence[Given] = ()) -> Chunk:
        """Give up to `limit` letters of a stage a new epoch."""
        return await self._store.write(lambda tx: _Release(tx, id, stage, size, given).run(limit))

    async def weigh(self, ids: Sequence[str], plan: Plan) -> Weighed:
        """What a redrive would do now with these open letters, without doing it."""
        return await self._store.read(lambda snapshot: _weigh(snapshot, [packed(id) for id in ids], plan))

    async def stop(self, id: str, causes: Sequence[str], actor: str) -> list[str]:
        """Release nothing more of these causes; answers which were not stopped yet."""
        return await self._store.write(lambda tx: _stop(tx, id, causes, actor))

    async def change(self, id: str, version: int, state: RedriveState, actor: str, why: str = "") -> Redrive | None:
        """Pause, resume (`running`), cancel or finish; None when it has another version or cannot become that."""
        return await self._store.write(lambda tx: _change(tx, id, version, state, actor, why))

    async def get(self, id: str) -> Redrive | None:
        """One redrive."""
        row = await self._store.read(lambda snapshot: _row(snapshot, id))
        return _redrive(row) if row else None

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
        return await self._store.read(lambda snapshot: _tallies(snapshot, _key(id)))

    async def stages(self, id: str) -> list[Stage]:
        """The stages so far."""
        rows = await self._store.read(lambda snapshot: snapshot.all("stages_of_redrive", _key(id)))
        return [Stage(number=n, at=at, released=r, passed=p, relapsed=a, strayed=s, dropped=d)
                for n, at, r, p, a, s, d in rows]  # fmt: skip

    async def patterns(self, id: str) -> list[Pattern]:
        """Why letters were skipped, and of what they failed; most of them first."""
        rows = await self._store.read(lambda snapshot: snapshot.all("patterns_of_redrive", _key(id)))
        return [Pattern(state=row[0], why=row[1], n=row[2], sample=spelled(row[3]), title=row[4]) for row in rows]

    async def items(
        self, id: str, states: Sequence[ItemState] = (), after: str | None = None, limit: int = 100
    ) -> list[Item]:
        """A page of its letters in the order of their ids; only those in these states if any are named."""
        rows = await self._store.read(lambda snapshot: _items(snapshot, _key(id), states, after, limit))
        return [
            Item(id=spelled(row[0]), cause=row[1], state=row[2], stage=row[3], why=row[4], at=row[5]) for row in rows
        ]


# looking --------------------------------------------------------------------------------------------------------------


def _key(id: str) -> bytes:
    """The bytes of an id; those of nothing when it cannot be one."""
    return unpacked_or_none(id) or b""


def _row(snapshot: Snapshot, id: str) -> Row | None:
    return snapshot.first("redrive", _key(id))


def _redrive(row: Row) -> Redrive:
    """In the table one that waits is running, and has not begun."""
    plan = msgspec.json.decode(row[1], type=Plan)
    waiting = row[4] == "running" and plan.when_release is not None and row[14] is None
    return Redrive(
        id=spelled(row[0]),
        plan=plan,
        actor=row[2],
        reason=row[3],
        state="waiting" if waiting else row[4],
        opened_at=row[5],
        version=row[6],
        frozen_at=row[7],
        ended_at=row[8],
        total=row[9],
        stage=row[10],
        stage_left=row[11],
        stage_at=row[12],
        why=row[13],
        begun_at=row[14],
    )


def _find(snapshot: Snapshot, states: Sequence[RedriveState], limit: int, actor: str | None) -> list[Redrive]:
    if actor is not None:
        found = [_redrive(row) for row in snapshot.all("redrives_of_actor", actor, limit)]
        return [each for each in found if not states or each.state in states]
    if not states:
        return [_redrive(row) for row in snapshot.all("redrives", limit)]
    kept = dict.fromkeys("running" if state == "waiting" else state for state in states)
    most = OPEN_LIMIT if "running" in kept else limit
    found = [_redrive(row) for state in kept for row in snapshot.all("redrives_of_state", state, most)]
    fitting = [each for each in found if each.state in states]
    return sorted(fitting, key=lambda each: each.id, reverse=True)[:limit]


def _there(tx: Transaction, actor: str) -> Redrive | None:
    """The open redrive of this actor."""
    found = tx.first("open_redrive_of_actor", writable(actor))
    row = _row(tx, spelled(found[0])) if found else None
    return _redrive(row) if row else None


def _places(snapshot: Snapshot, id: str) -> list[tuple[str, str]]:
    row = _row(snapshot, id)
    if row is None:
        return []
    return [(queue, task) for queue, task in snapshot.all("places_of_redrive", row[0], _redrive(row).plan.queue)]


def _tallies(snapshot: Snapshot, key: bytes) -> list[Tally]:
    names = Tally.__struct_fields__
    return [Tally(**dict(zip(names, row, strict=True))) for row in snapshot.all("causes_of_redrive", key)]


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
    _note(tx, "redrive.opened", id, actor, reason)
    tx.points.add("redrive.opened")
    return Redrive(id=id, plan=plan, actor=actor, reason=reason, state="freezing", opened_at=tx.now)


def _freeze(tx: Transaction, id: str, limit: int) -> bool:
    row = _row(tx, id)
    if row is None or row[4] != "freezing":
        return row is not None and row[7] is not None
    redrive, key = _redrive(row), row[0]
    most = limit if redrive.plan.limit is None else min(limit, redrive.plan.limit - redrive.total)
    after = None if row[16] is None else (row[16], spelled(row[17]))
    tree = Both((_OPEN, parse(redrive.plan.filter, redrive.opened_at)))
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
    _note(tx, "redrive.frozen", id, redrive.actor, f"{redrive.total + len(items):,} letters")
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


# releasing ------------------------------------------------------------------------------------------------------------


def _due(snapshot: Snapshot, id: str, stage: int, size: int, limit: int) -> list[Due]:
    """The letters whose turn it is, with what their jobs have; what cannot be released is not looked at."""
    row = _row(snapshot, id)
    if row is None or row[4] != "running":
        return []
    redrive, key, paced_at = _redrive(row), row[0], row[18]
    left = stage_left(redrive, stage, size) or 0
    turns = Turns(snapshot, key, redrive.plan, paced_at, _tallies(snapshot, key))
    return handed(snapshot, [item[0] for item in turns.next(min(limit, left))])


def _weigh(snapshot: Snapshot, keys: Sequence[bytes], plan: Plan) -> Weighed:
    """Why some of these would be skipped, and what the jobs of the others have."""
    held: dict[bytes, bytes] = dict(snapshot.all("held_by_redrives", blobs_of(keys), b""))
    skipped = {spelled(id): f"already in redrive {spelled(holder)[-8:]}" for id, holder in held.items()}
    reviewed = {} if plan.force else reviewing.held(snapshot, keys)
    for id, *now in snapshot.all("redrivable", blobs_of(keys)):
        why = "" if id in held else _unfit(snapshot, tuple(now), id, now[6]) or reviewed.get(id, "")
        if why:
            skipped[spelled(id)] = why
    return Weighed(skipped=skipped, due=handed(snapshot, keys, skipped) if plan.reshapes else [])


class _Release:
    """One chunk of a stage."""

    def __init__(self, tx: Transaction, id: str, stage: int, size: int, given: Sequence[Given]) -> None:
        self._tx = tx
        self._id = id
        self._stage = stage
        self._size = size
        self._given = {packed(each.id): each for each in given}
        self._taken: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()

    def run(self, limit: int) -> Chunk:
        """What may be released now."""
        tx, row = self._tx, _row(self._tx, self._id)
        if row is None or _redrive(row).state != "running":
            return Chunk()
        redrive, key, paced_at = _redrive(row), row[0], row[18]
        left = stage_left(redrive, self._stage, self._size)
        if left is None:
            return Chunk()
        if redrive.stage != self._stage:
            tx.run("begin_stage", key, self._stage, tx.now)
        turns = Turns(tx, key, redrive.plan, paced_at, _tallies(tx, key))
        self._release(redrive, key, turns.next(min(limit, left)))
        released, skipped = self._taken.total(), self._skipped.total()
        left = 0 if released + skipped >= turns.left else left - released
        at = tx.now if released or self._stage != redrive.stage else redrive.stage_at
        tx.run("released_so_far", key, self._stage, left, at, paced(redrive.plan.rate, released, tx.now, paced_at))
        self._write_tallies(key, redrive.actor)
        return Chunk(released=released, skipped=skipped, left=left)

    def _release(self, redrive: Redrive, key: bytes, items: Sequence[Row]) -> None:
        tx, plan = self._tx, redrive.plan
        now = {row[0]: row[1:] for row in tx.all("redrivable", blobs_of([item[0] for item in items]))}
        held = {} if plan.force else reviewing.held(tx, list(now))
        fit: list[Row] = []
        for item in items:
            why = _unfit(tx, now[item[0]], item[0], item[2]) or held.get(item[0], "")
            if why:
                self._skip(key, item, why)
            else:
                fit.append(item)
        if plan.reshapes:
            fit = self._reshaped(redrive, key, fit)
        if not fit:
            return
        self._taken.update(item[1] for item in fit)
        ids = [item[0] for item in fit]
        seqs = numbers_of([now[id][1] for id in ids])
        if plan.force:
            tx.run("without_end", seqs, tx.now)
        tx.run("redrive_jobs", seqs, tx.now, self._id, plan.queue, plan.priority)
        tx.many("carry_over", [row for id in ids if (row := _carried(plan, now[id]))])
        end_letters(tx, ids, LetterState.REDRIVEN)
        tx.run("release_items", key, blobs_of(ids), self._stage, tx.now)
        self._tell(plan, [(id, *now[id]) for id in ids])

    def _skip(self, key: bytes, item: Row, why: str) -> None:
        self._tx.run("skip_item", key, item[0], writable(why), self._tx.now)
        self._skipped[item[1]] += 1

    def _reshaped(self, redrive: Redrive, key: bytes, items: Sequence[Row]) -> list[Row]:
        """Those that have their payload for this epoch; the others wait until it is given for what they are now."""
        rows = {row[0]: row for row in self._tx.all("letters_to_edit", blobs_of([item[0] for item in items]))}
        fit, others = list[Row](), list[tuple[Row, bytes]]()
        for item in items:
            given, row = self._given.get(item[0]), rows[item[0]]
            if given is None or given.version != row[2]:
                continue
            if given.why:
                self._skip(key, item, given.why)
                continue
            fit.append(item)
            if given.payload is not None:
                others.append((row, given.payload))
        replace(self._tx, others, redrive.actor, f"redrive {self._id[-8:]}")
        return fit

    def _tell(self, plan: Plan, rows: Sequence[Row]) -> None:
        tx = self._tx
        for id, _, _, _, queue, task, priority, epoch, *_ in rows:
            now = priority if plan.priority is None else plan.priority
            tx.count(plan.queue or queue, task, now, None, "redriven")
            tx.shift(queue, State.DEAD, None)
            tx.shift(plan.queue or queue, None, State.READY)
            if plan.queue not in (None, queue):
                tx.count(queue, task, priority, None, "moved_out")
                tx.count(plan.queue or queue, task, priority, None, "moved_in")
            text = f"redrive {self._id[-8:]}, stage {self._stage}"
            tx.journal("job.redriven", (id, task, plan.queue or queue, epoch + 1, 0), text=text)

    def _write_tallies(self, key: bytes, actor: str) -> None:
        tx, released = self._tx, self._taken.total()
        causes = sorted(self._taken.keys() | self._skipped.keys())
        tx.many("released_of_cause", [(key, cause, self._taken[cause], self._skipped[cause]) for cause in causes])
        tx.run("released_of_stage", key, self._stage, released)
        if causes:
            skipped = f", {self._skipped.total():,} skipped" if self._skipped else ""
            _note(tx, "redrive.released", self._id, actor, f"stage {self._stage}: {released:,} released{skipped}")
            tx.points.add("redrive.chunk")


def _unfit(snapshot: Snapshot, now: Row, id: bytes, epoch: int) -> str:
    """Why a letter cannot be released; nothing when it can."""
    letter, _, job, _, _, _, of_epoch, _, _, key = now
    if letter is None or letter == LetterState.DISCARDED:
        return "purged meanwhile" if letter is None else "discarded meanwhile"
    if letter != LetterState.OPEN or job != State.DEAD or of_epoch != epoch:
        return "brought back meanwhile"
    since = snapshot.now - snapshot.settings.key_lifetime
    taker = snapshot.first("key_taker", key, since, id) if key is not None else None
    return f"superseded by job {spelled(taker[0])[-8:]}, which took its idempotency key" if taker else ""


def _carried(plan: Plan, now: Row) -> Row | None:
    """The attempts and limits of a job in its new epoch, where they are not those of a fresh one."""
    _, seq, _, _, _, _, _, attempts, policy, _ = now
    instead = plan.instead
    if instead is None and not plan.keep_attempts and not (policy and KEPT in policy):
        return None
    policy = carried(policy, instead)
    most = limits_of(policy).max_attempts or max(MAX_ATTEMPTS, attempts)
    return seq, min(attempts, most - 1) if plan.keep_attempts else 0, policy


# changing -------------------------------------------------------------------------------------------------------------


def _stop(tx: Transaction, id: str, causes: Sequence[str], actor: str) -> list[str]:
    row = _row(tx, id)
    if row is None or row[4] not in ("running", "paused"):
        return []
    stage = row[10]
    stopped = [cause for cause in dict.fromkeys(causes) if tx.all("stop_cause", row[0], cause, stage)]
    for cause in stopped:
        _note(tx, "redrive.stopped", id, actor, f"group {cause[:8]} recurs, stopped in stage {stage}")
        reopen(tx, cause, f"recurs in redrive {id[-8:]}", actor)
    return stopped


def _change(tx: Transaction, id: str, version: int, state: RedriveState, actor: str, why: str) -> Redrive | None:
    row = _row(tx, id)
    if row is None or row[6] != version:
        return None
    before = _redrive(row)
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
    _note(tx, f"redrive.{event}", id, actor, why)
    changed = _row(tx, id)
    return _redrive(changed) if changed else None


def _note(tx: Transaction, event: str, id: str, actor: str, text: str) -> None:
    tx.journal(event, actor=actor, text=f"redrive {id[-8:]}: {text}" if text else f"redrive {id[-8:]}")

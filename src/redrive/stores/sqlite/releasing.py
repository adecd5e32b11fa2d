"""Releasing the letters of a redrive: a chunk of a stage, each one given a new epoch or skipped with its reason."""

from collections import Counter
from collections.abc import Sequence

from redrive.job import State
from redrive.letter import LetterState
from redrive.limits import KEPT, MAX_ATTEMPTS, carried, limits_of
from redrive.ramp import paced
from redrive.store import Chunk, Due, Given, Plan, Redrive, Weighed, stage_left
from redrive.stores.sqlite import reviewing
from redrive.stores.sqlite.driven import note, redrive_of, row_of, tallies_of
from redrive.stores.sqlite.editing import replace
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.turns import Turns, handed
from redrive.stores.sqlite.values import Row, blobs_of, numbers_of, packed, spelled, writable


def due(snapshot: Snapshot, id: str, stage: int, size: int, limit: int) -> list[Due]:
    """The letters whose turn it is, with what their jobs have; what cannot be released is not looked at."""
    row = row_of(snapshot, id)
    if row is None or row[4] != "running":
        return []
    redrive, key, paced_at = redrive_of(row), row[0], row[18]
    left = stage_left(redrive, stage, size) or 0
    turns = Turns(snapshot, key, redrive.plan, paced_at, tallies_of(snapshot, key))
    return handed(snapshot, [item[0] for item in turns.next(min(limit, left))])


def weigh(snapshot: Snapshot, keys: Sequence[bytes], plan: Plan) -> Weighed:
    """Why some of these would be skipped, and what the jobs of the others have."""
    held: dict[bytes, bytes] = dict(snapshot.all("held_by_redrives", blobs_of(keys), b""))
    skipped = {spelled(id): f"already in redrive {spelled(holder)[-8:]}" for id, holder in held.items()}
    reviewed = {} if plan.force else reviewing.held(snapshot, keys)
    for id, *now in snapshot.all("redrivable", blobs_of(keys)):
        why = "" if id in held else _unfit(snapshot, tuple(now), id, now[6]) or reviewed.get(id, "")
        if why:
            skipped[spelled(id)] = why
    return Weighed(skipped=skipped, due=handed(snapshot, keys, skipped) if plan.reshapes else [])


class Release:
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
        tx, row = self._tx, row_of(self._tx, self._id)
        if row is None or redrive_of(row).state != "running":
            return Chunk()
        redrive, key, paced_at = redrive_of(row), row[0], row[18]
        left = stage_left(redrive, self._stage, self._size)
        if left is None:
            return Chunk()
        if redrive.stage != self._stage:
            tx.run("begin_stage", key, self._stage, tx.now)
        turns = Turns(tx, key, redrive.plan, paced_at, tallies_of(tx, key))
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
            note(tx, "redrive.released", self._id, actor, f"stage {self._stage}: {released:,} released{skipped}")
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

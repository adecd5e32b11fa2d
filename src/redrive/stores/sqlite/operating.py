"""An operator's verbs: cancel, move, purge, gates; and forgetting what is over."""

from collections.abc import Sequence

import msgspec

from redrive.job import State
from redrive.store import Gate
from redrive.stores.sqlite import retaining
from redrive.stores.sqlite.ending import discard
from redrive.stores.sqlite.transaction import Transaction, unique
from redrive.stores.sqlite.values import Row, blobs_of, ids_of, numbers_of, spelled


def cancel(tx: Transaction, ids: Sequence[str], actor: str) -> list[str]:
    """Discard jobs that have not ended, with reason `cancelled`; a leased one loses its lease. Answers who was."""
    alive = tx.all("unended", ids_of(unique(ids)))
    for about in alive:
        discard(tx, about, "cancelled", actor=actor)
    return [spelled(about[1]) for about in alive]


def move(tx: Transaction, queue: str, to: str, actor: str, limit: int) -> int:
    """Move up to `limit` waiting jobs to another queue; answers how many."""
    rows = tx.all("waiting_in", queue, limit)
    tx.run("move", numbers_of(row[0] for row in rows), to)
    for row in rows:
        tx.shift(queue, row[7], None)
        tx.shift(to, None, row[7])
        tx.count(queue, row[3], row[4], None, "moved_out")
        tx.count(to, row[3], row[4], None, "moved_in")
    if rows:
        tx.journal("queue.moved", queue=queue, actor=actor, text=f"{len(rows)} jobs to {to}")
    return len(rows)


def purge(tx: Transaction, queue: str, actor: str, limit: int) -> int:
    """Discard up to `limit` waiting jobs of a queue with reason `purged`; answers how many."""
    rows = tx.all("waiting_in", queue, limit)
    for about in rows:
        discard(tx, about, "purged", actor=actor)
        tx.count(about[2], about[3], about[4], None, "purged")
    return len(rows)


def set_gate(tx: Transaction, gate: Gate, actor: str) -> Gate:
    """Set a gate; answers what is in force."""
    gate = msgspec.structs.replace(gate, changed_at=tx.now, actor=actor)
    tx.run(
        "set_gate", gate.kind, gate.key, gate.state, gate.reason, gate.until, gate.depth_limit, gate.changed_at, actor
    )
    limit = f", depth limit {gate.depth_limit:,}" if gate.depth_limit is not None else ""
    queue = gate.key if gate.kind == "queue" else None
    text = f"{gate.kind} {gate.key} {gate.state}{limit}"
    tx.journal("gate.set", queue=queue, reason=gate.reason, actor=actor, text=text)
    tx.wakes = True
    return gate


STRETCH = 10_000
"""So many finished jobs are looked at together."""


class Sweep:
    """How far a look through all finished jobs has come; it begins anew at the end."""

    def __init__(self) -> None:
        self.after = b""


def prune(tx: Transaction, limit: int, sweep: Sweep) -> int:
    """Forget finished and discarded rows, closed letters and ended redrives whose time is over; answers how many."""
    done = _forget_done(tx, limit, sweep)
    discarded = tx.all("forget_discarded", tx.now, limit - len(done))
    for _, queue in discarded:
        tx.shift(queue, State.DISCARDED, None)
    over = [*done, *(row[0] for row in discarded)]
    letters = retaining.forget_letters(tx, limit - len(over))
    for name in ("forget_notes", "forget_payloads"):
        tx.run(name, blobs_of(letters))
    over += letters
    _forget_failures(tx, over)
    tx.run("forget_workers", tx.steady, tx.boot)
    tx.run("forget_successes", tx.now - tx.settings.closed_retention)
    tx.run("forget_depths")
    tx.run("forget_letter_totals")
    gone = len(over) + retaining.forget_redrives(tx, limit - len(over))
    return gone + retaining.forget_entries(tx, limit - gone)


def _forget_done(tx: Transaction, limit: int, sweep: Sweep) -> list[bytes]:
    """Nearly all of them are the oldest; those that took longer to finish are met on the way through all."""
    oldest = tx.all("done_over", b"", STRETCH, tx.now, limit)
    others = tx.all("done_over", sweep.after, STRETCH, tx.now, limit - len(oldest)) if sweep.after else []
    over = list(dict.fromkeys(row[0] for row in (*oldest, *others)))
    if len(over) < limit:
        end = tx.first("done_stretch", sweep.after, STRETCH - 1)
        sweep.after = end[0] if end else b""
    tx.run("forget_done", blobs_of(over))
    return over


def _forget_failures(tx: Transaction, ids: list[bytes]) -> None:
    rows: list[Row] = tx.all("forget_failures", blobs_of(ids))
    tx.many("forget_traceback", [(text,) for text in {row[0] for row in rows} if text is not None])

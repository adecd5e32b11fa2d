"""Ways for a job to end without its worker: what cancelling, purging and expiry share with a handler's discard."""

from collections import Counter
from collections.abc import Sequence

from redrive.job import State
from redrive.letter import LetterState
from redrive.stores.sqlite.redriven import tell_redrives
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import Row, blobs_of


def discard(tx: Transaction, about: Row, reason: str, *, actor: str | None = None, text: str | None = None) -> None:
    """End a job on purpose; its key is free, its letter is discarded with it. `about` is a row of `abouts`."""
    seq, id, queue, task, priority, epoch, attempts, state, worker = about
    tx.run("discard", seq, reason, tx.now, tx.now + tx.settings.keeps_closed(queue))
    tx.count(queue, task, priority, worker, "discarded")
    tx.shift(queue, state, State.DISCARDED)
    tx.journal(
        "job.discarded", (id, task, queue, epoch, attempts), reason=reason, worker=worker, actor=actor, text=text
    )
    if epoch > 1:
        end_letters(tx, [id], LetterState.DISCARDED)
        tell_redrives(tx, [(id, epoch, "discarded", reason, "")])


def end_letters(tx: Transaction, ids: Sequence[bytes], state: LetterState) -> None:
    """The letters of jobs that were redriven, or have ended otherwise than by dying, if they have one."""
    if not ids:
        return
    rows = tx.all("open_letters_of", blobs_of(ids))
    tx.many("leave_group", sorted(Counter(row[0] for row in rows).items()))
    tx.many("add_letter_total", [(*kind, -n) for kind, n in Counter(row[1:] for row in rows).items()])
    tx.run("end_letter", blobs_of(ids), state.value, None if state is LetterState.REDRIVEN else tx.now)

"""The end of letters: discarded, restored, purged; each batch whole or not at all."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from redrive.disposal import GONE, KEY_TAKEN, why_not_discarded, why_not_purged, why_not_restored
from redrive.job import State
from redrive.letter import LetterState
from redrive.store import Disposed
from redrive.stores.sqlite.ending import end_letters
from redrive.stores.sqlite.transaction import About, Transaction, unique
from redrive.stores.sqlite.values import Row, blobs_of, ids_of, numbers_of, spelled, writable


class _Letter(NamedTuple):
    """A row of `letters_to_dispose`; the columns of the job are None when it is done or forgotten."""

    id: bytes
    state: LetterState
    failed_at: int
    died_at: int | None
    task: str
    queue: str
    priority: int
    epochs: int
    attempts: int
    reason: str
    fingerprint: str
    seq: int | None
    job_state: str | None
    job_queue: str | None
    key: str | None
    ended_at: int | None

    @property
    def about(self) -> About:
        return self.id, self.task, self.queue, self.epochs, self.attempts


def discard(
    tx: Transaction, ids: Sequence[str], actor: str, reason: str, upto: int, rule: str | None = None
) -> Disposed:
    """End dead jobs and their open letters, of those that failed last at `upto` or before."""
    found, left = _chosen(tx, ids, lambda letter: why_not_discarded(letter.state, letter.failed_at, upto))
    tx.run("keep_deaths", blobs_of([letter.id for letter in found]))
    for queue, those in _by_queue(found).items():
        tx.run("discard_dead", _seqs(those), tx.now, tx.now + tx.settings.keeps_closed(queue))
    end_letters(tx, [letter.id for letter in found], LetterState.DISCARDED)
    if rule is not None:
        tx.run("rule_letters", blobs_of([letter.id for letter in found]), writable(rule))
    for letter in found:
        tx.count(letter.queue, letter.task, letter.priority, None, "discarded")
        tx.shift(letter.job_queue or letter.queue, State.DEAD, State.DISCARDED)
        tx.journal("job.discarded", letter.about, reason="discarded", actor=actor, text=reason or None)
    return _disposed(found, left)


def restore(tx: Transaction, ids: Sequence[str], actor: str, reason: str, upto: int) -> Disposed:
    """Undo discards of `upto` or before: dead again, with an open letter in its group."""
    found, left = _chosen(tx, ids, lambda each: why_not_restored(each.state, each.died_at, each.ended_at or 0, upto))
    found = _without_taken_keys(tx, found, left)
    tx.run("restore_jobs", _seqs(found))
    tx.run("restore_letters", blobs_of([letter.id for letter in found]))
    tx.many("rejoin_group", sorted(Counter(letter.fingerprint for letter in found).items()))
    kinds = Counter((letter.queue, letter.task, letter.priority, letter.reason) for letter in found)
    tx.many("add_letter_total", [(*kind, n) for kind, n in kinds.items()])
    for letter in found:
        tx.count(letter.queue, letter.task, letter.priority, None, "restored")
        tx.shift(letter.job_queue or letter.queue, State.DISCARDED, State.DEAD)
        tx.journal("job.restored", letter.about, actor=actor, text=reason or None)
    return _disposed(found, left)


def purge(tx: Transaction, ids: Sequence[str], actor: str, reason: str, upto: int) -> Disposed:
    """Remove letters with their failures, notes and jobs; a tombstone keeps their ids from being added again."""
    found, left = _chosen(tx, ids, lambda letter: why_not_purged(letter.state, letter.failed_at, upto))
    gone = [letter.id for letter in found]
    end_letters(tx, gone, LetterState.DISCARDED)
    tx.run("drop_jobs", _seqs(found))
    for name in ("purge_letters", "purge_done", "forget_notes", "forget_payloads"):
        tx.run(name, blobs_of(gone))
    tx.many("add_tombstone", [(id, tx.now) for id in gone])
    _purge_failures(tx, gone)
    for letter in found:
        tx.count(letter.queue, letter.task, letter.priority, None, "letters_purged")
        if letter.job_state == State.DEAD:
            tx.count(letter.job_queue or letter.queue, letter.task, letter.priority, None, "dead_purged")
        tx.shift(letter.job_queue or letter.queue, letter.job_state, None)
        tx.journal("job.purged", letter.about, actor=actor, text=reason or None)
    return _disposed(found, left)


def _purge_failures(tx: Transaction, ids: Sequence[bytes]) -> None:
    rows: list[Row] = tx.all("purge_failures", blobs_of(ids))
    tx.many("forget_traceback", [(text,) for text in {row[0] for row in rows} if text is not None])


def _chosen(
    tx: Transaction, ids: Sequence[str], why_not: Callable[[_Letter], str | None]
) -> tuple[list[_Letter], dict[str, str]]:
    """The letters among these that it may be done to, in order, and why not to the others."""
    rows = (_Letter(*row) for row in tx.all("letters_to_dispose", ids_of(unique(ids))))
    there = {spelled(row.id): row._replace(state=LetterState(row.state)) for row in rows}
    whys = {id: why_not(there[id]) if id in there else GONE for id in unique(ids)}
    return [there[id] for id, why in whys.items() if why is None], {id: why for id, why in whys.items() if why}


def _without_taken_keys(tx: Transaction, found: list[_Letter], left: dict[str, str]) -> list[_Letter]:
    """Those whose idempotency key nobody has taken meanwhile, also none of the others."""
    free, keys = [], set[str]()
    for letter in found:
        key = letter.key
        if key is not None and (key in keys or tx.first("key_holder", key, tx.now - tx.settings.key_lifetime)):
            left[spelled(letter.id)] = KEY_TAKEN
        else:
            free.append(letter)
            keys.update([] if key is None else [key])
    return free


def _by_queue(found: Sequence[_Letter]) -> dict[str, list[_Letter]]:
    queues: dict[str, list[_Letter]] = {}
    for letter in found:
        queues.setdefault(letter.queue, []).append(letter)
    return queues


def _seqs(found: Sequence[_Letter]) -> object:
    return numbers_of(letter.seq for letter in found if letter.seq is not None)


def _disposed(found: Sequence[_Letter], left: dict[str, str]) -> Disposed:
    return Disposed([spelled(letter.id) for letter in found], left)

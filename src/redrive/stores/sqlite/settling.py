"""Settling: what follows from attempts, written together; each lease is judged by its fence."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

from redrive.eligibility import guarded, most_returns
from redrive.job import State
from redrive.letter import Failure, LetterState
from redrive.store import (
    AnySettlement,
    Buried,
    Discarded,
    Done,
    Released,
    Retried,
    Settlement,
    Snoozed,
    lasted,
)
from redrive.stores.sqlite.ending import discard, end_letters
from redrive.stores.sqlite.marking import reopen_groups
from redrive.stores.sqlite.redriven import Told, tell_redrives
from redrive.stores.sqlite.sampling import keep
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import (
    Row,
    blobs_of,
    failure_row,
    hash_of,
    numbers_of,
    unpacked_or_none,
    writable,
    writable_or_none,
)


def settle(tx: Transaction, settlements: Sequence[AnySettlement]) -> frozenset[str]:
    """End leases; the ids whose lease was no longer held come back and are unchanged."""
    if not settlements:
        return frozenset()
    ids = [unpacked_or_none(each.job.id) or b"" for each in settlements]
    held = {row[0]: row for row in tx.all("held", blobs_of(ids))}
    endings, late = _Endings(tx), set()
    for id, settlement in zip(ids, settlements, strict=True):
        row = held.pop(id, None)
        if row is None or row[1] != settlement.job.fence:
            late.add(settlement.job.id)
        else:
            endings.apply(settlement, row)
    endings.write()
    return frozenset(late)


class _Endings:
    """The rows that a batch of settlements writes, gathered so that each statement runs once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._keeps_done = cache(tx.settings.keeps_done)
        self._done: list[Row] = []
        self._done_counts: Counter[tuple[str, str, int, str, str, bool]] = Counter()
        self._done_seqs: list[int] = []
        self._closed: list[bytes] = []
        self._back: list[Row] = []
        self._tracebacks: dict[bytes, str] = {}
        self._failures: list[Row] = []
        self._buried: list[Row] = []
        self._letters: list[Row] = []
        self._groups: defaultdict[str, list[tuple[bytes, Buried]]] = defaultdict(list)
        self._told: list[Told] = []

    def apply(self, settlement: Settlement, lease: Row) -> None:
        """One settlement of a lease that is held."""
        if isinstance(settlement, Done):  # first, because nearly all are
            self._finish(settlement, lease)
            return
        if settlement.ran:
            self._count(settlement, lease, lasted(settlement.duration))
        match settlement:
            case Retried():
                self._retry(settlement, lease)
            case Buried():
                self._bury(settlement, lease)
            case Snoozed():
                self._snooze(settlement, lease)
            case Released():
                self._release(settlement, lease)
            case Discarded():
                self._discard(settlement, lease)
            case _:
                raise TypeError(f"{type(settlement).__name__} is not a settlement this store knows")

    def write(self) -> None:
        """Everything, one statement after the other."""
        tx = self._tx
        if self._done:
            self._write_done()
        end_letters(tx, self._closed, LetterState.CLOSED)
        tx.many("put_back", self._back)
        tx.many("add_traceback", list(self._tracebacks.items()))
        tx.many("add_failure", self._failures)
        tx.many("bury", self._buried)
        tell_redrives(tx, self._told)  # before a letter forgets which group it was in
        if self._letters:
            self._write_letters()

    def _write_done(self) -> None:
        """The happy path; it is counted once for all that are alike, not once for each."""
        tx = self._tx
        tx.run("drop_jobs", numbers_of(self._done_seqs))
        tx.many("add_done", self._done)
        for (queue, task, priority, worker, length, again), n in self._done_counts.items():
            tx.shift(queue, State.LEASED, None, n)
            for name in ("done", length, "done_on_retry" if again else ""):
                if name:
                    tx.count(queue, task, priority, worker, name, n)
        tx.points.add("settle.done")

    def _write_letters(self) -> None:
        tx = self._tx
        first: dict[bytes, int] = dict(tx.all("first_failures", blobs_of([letter[0] for letter in self._letters])))
        most = tx.settings.max_epochs
        guard, why = most_returns(most), guarded(most)
        tx.many("put_letter", [(*letter, guard, first[letter[0]], why) for letter in self._letters])
        reopen_groups(tx, {fingerprint: members[0][1].job for fingerprint, members in self._groups.items()})
        tx.many("join_group", [self._group(fingerprint) for fingerprint in sorted(self._groups)])
        kinds = Counter((queue, task, priority, reason) for _, task, queue, priority, reason, *_ in self._letters)
        tx.many("add_letter_total", [(*kind, n) for kind, n in kinds.items()])

    # one method per kind ----------------------------------------------------------------------------------------------

    def _finish(self, settlement: Done, lease: Row) -> None:
        tx, job = self._tx, settlement.job
        id, _, seq, worker = lease
        self._done_seqs.append(seq)
        self._done.append(
            (id, job.task, job.queue, tx.now, tx.now + self._keeps_done(job.queue), job.attempts + 1, job.epoch,
             settlement.duration, job.key, settlement.result)
        )  # fmt: skip
        length = lasted(settlement.duration) if settlement.ran else ""
        self._done_counts[job.queue, job.task, job.priority, worker, length, job.attempts > 0] += 1
        if not tx.sampler.passes(job.task):
            keep(tx, job, worker)
        if job.epoch > 1:
            self._closed.append(id)
            self._told.append((id, job.epoch, "succeeded", "", ""))
        if tx.all_events:
            tx.journal("job.succeeded", (id, job.task, job.queue, job.epoch, job.attempts + 1), worker=worker)

    def _retry(self, settlement: Retried, lease: Row) -> None:
        s = settlement
        self._fail(s, s.failure, lease)
        self._put_back(s, lease, s.at, s.spend, s.crashed, s.lost, s.suspect, None, writable(s.failure.message))
        self._count(s, lease, "retried", f"retried_{s.job.attempts + s.spend}")
        self._note(s, lease, "job.retried", s.failure.message, s.spend, s.failure.reason)
        self._tx.points.add("settle.retry")

    def _bury(self, settlement: Buried, lease: Row) -> None:
        s, tx = settlement, self._tx
        id, _, seq, _ = lease
        self._fail(s, s.failure, lease)
        f, job = s.failure, s.job
        message = writable(f.message)
        fingerprint, reason = writable(f.fingerprint), writable(f.reason)
        self._buried.append((seq, s.spend, s.crashed, s.lost, message, tx.now, reason))
        self._letters.append(
            (id, job.task, job.queue, job.priority, reason, writable(f.type), message, fingerprint,
             job.attempts + s.spend, job.epoch, f.at, writable(f.host), writable(f.worker), writable_or_none(f.release))
        )  # fmt: skip
        self._groups[fingerprint].append((id, s))
        tx.shift(job.queue, State.LEASED, State.DEAD)
        self._count(s, lease, "buried")
        self._note(s, lease, "job.buried", f.message, s.spend, f.reason)
        tx.points.add("settle.dead")

    def _snooze(self, settlement: Snoozed, lease: Row) -> None:
        self._put_back(settlement, lease, settlement.until)
        self._count(settlement, lease, "snoozed")
        self._note(settlement, lease, "job.snoozed", settlement.why)
        self._tx.points.add("settle.retry")

    def _release(self, settlement: Released, lease: Row) -> None:
        since = self._tx.now if settlement.unknown_task else None
        self._put_back(settlement, lease, settlement.at, suspect=settlement.suspect, unknown_since=since)
        self._count(settlement, lease, "released")
        self._note(settlement, lease, "job.released", settlement.why)
        self._tx.points.add("settle.retry")

    def _discard(self, settlement: Discarded, lease: Row) -> None:
        job = settlement.job
        id, _, seq, worker = lease
        about = (seq, id, job.queue, job.task, job.priority, job.epoch, job.attempts, State.LEASED, worker)
        discard(self._tx, about, writable(settlement.reason), text=settlement.why)
        self._tx.points.add("settle.done")

    # what they share --------------------------------------------------------------------------------------------------

    def _put_back(
        self,
        settlement: Settlement,
        lease: Row,
        at: int,
        spend: int = 0,
        crashed: int = 0,
        lost: int = 0,
        suspect: int = 0,
        unknown_since: int | None = None,
        error: str | None = None,
    ) -> None:
        now = self._tx.now
        state = State.SCHEDULED if at > now else State.READY
        self._back.append((lease[2], state.value, max(at, now), spend, crashed, lost, suspect, unknown_since, error))
        self._tx.shift(settlement.job.queue, State.LEASED, state)

    def _fail(self, settlement: Retried | Buried, failure: Failure, lease: Row) -> None:
        traceback = None
        if failure.traceback is not None:
            text = writable(failure.traceback)
            traceback = hash_of(text)
            self._tracebacks[traceback] = text
        self._failures.append(failure_row(lease[0], failure, traceback))
        if settlement.job.epoch > 1:
            fingerprint = writable(failure.fingerprint)
            ended = isinstance(settlement, Buried)
            self._told.append(
                (lease[0], settlement.job.epoch, "buried" if ended else "retried", fingerprint, writable(failure.plain))
            )
        names = ["failed", *(["crashed"] if settlement.crashed else []), *(["lost"] if settlement.lost else [])]
        self._count(settlement, lease, *names)

    def _count(self, settlement: Settlement, lease: Row, *names: str) -> None:
        job = settlement.job
        for name in names:
            self._tx.count(job.queue, job.task, job.priority, lease[3], name)

    def _note(
        self, settlement: Settlement, lease: Row, event: str, text: str, spend: int = 0, reason: str | None = None
    ) -> None:
        job = settlement.job
        about = (lease[0], job.task, job.queue, job.epoch, job.attempts + spend)
        self._tx.journal(event, about, reason=reason, worker=lease[3], text=text)

    def _group(self, fingerprint: str) -> Row:
        members = self._groups[fingerprint]
        id, first = members[0]
        failure, at = first.failure, [settlement.failure.at for _, settlement in members]
        return (
            fingerprint, writable(failure.title), first.job.task, writable(failure.reason), writable(failure.type),
            len(members), at[0], max(at), id,
        )  # fmt: skip

"""Taking in letters from elsewhere: dead jobs, their failures, letters and groups, in one transaction."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from redrive.job import State
from redrive.store import Accepted, Existing, Foreign
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import (
    Row,
    blobs_of,
    failure_row,
    hash_of,
    listed,
    packed,
    spelled,
    writable,
    writable_or_none,
)


def take_in(tx: Transaction, letters: Sequence[Foreign], actor: str) -> list[Accepted | Existing]:
    """Make each a dead job with its open letter; what is there already, or was purged, stays as it is."""
    ids = [packed(each.job.id) for each in letters]
    known: dict[bytes, str] = dict(tx.all("ended_letters_of", blobs_of(ids)))
    known |= dict(tx.all("known_ids", blobs_of(ids)))
    batch = _Batch(tx, actor)
    answers: list[Accepted | Existing] = []
    for id, each in zip(ids, letters, strict=True):
        state = known.setdefault(id, "")
        if state:
            answers.append(Existing(spelled(id), "purged" if state == "purged" else State(state)))
        else:
            known[id] = State.DEAD
            batch.take(id, each)
            answers.append(Accepted(each.job.id))
    batch.write()
    return answers


class _Batch:
    """The rows that a batch of letters comes to, gathered so that each statement runs once."""

    def __init__(self, tx: Transaction, actor: str) -> None:
        self._tx = tx
        self._actor = actor
        self._jobs: list[Row] = []
        self._tracebacks: dict[bytes, str] = {}
        self._failures: list[Row] = []
        self._letters: list[Row] = []
        self._kinds: Counter[tuple[str, str, int, str]] = Counter()
        self._groups: defaultdict[str, list[tuple[bytes, Foreign]]] = defaultdict(list)

    def take(self, id: bytes, foreign: Foreign) -> None:
        """One letter that is not there yet."""
        job, last = foreign.job, foreign.failures[-1]
        self._jobs.append(_job_row(id, foreign, self._tx.now))
        self._letters.append(_letter_row(id, foreign))
        for failure in foreign.failures:
            self._failures.append(failure_row(id, failure, self._traceback(failure.traceback)))
        self._kinds[job.queue, job.task, job.priority, writable(last.reason)] += 1
        self._groups[writable(last.fingerprint)].append((id, foreign))
        self._tx.shift(job.queue, None, State.DEAD)
        self._tx.count(job.queue, job.task, job.priority, None, "imported")
        about = (id, job.task, job.queue, job.epoch, job.attempts)
        self._tx.journal("job.imported", about, reason=last.reason, actor=self._actor, text=last.message)

    def write(self) -> None:
        """Everything, one statement after the other."""
        tx = self._tx
        tx.many("add_dead_job", self._jobs)
        tx.many("add_traceback", list(self._tracebacks.items()))
        tx.many("add_failure", self._failures)
        tx.many("add_letter", self._letters)
        tx.many("add_letter_total", [(*kind, n) for kind, n in self._kinds.items()])
        groups = [_group_row(fingerprint, self._groups[fingerprint]) for fingerprint in sorted(self._groups)]
        tx.many("join_group", groups)
        tx.many("group_seen_since", [(row[0], row[6]) for row in groups])

    def _traceback(self, text: str | None) -> bytes | None:
        if text is None:
            return None
        text = writable(text)
        name = hash_of(text)
        self._tracebacks[name] = text
        return name


def _job_row(id: bytes, foreign: Foreign, now: int) -> Row:
    """The parameters of `add_dead_job`; nobody holds it, and no key is taken for it."""
    job, last = foreign.job, foreign.failures[-1]
    return (
        id, job.task, job.payload, job.queue, job.priority, last.at, job.external_id, job.headers, job.batch, job.item,
        job.parent, listed(job.needs) if job.needs else "", job.expires, job.release, job.policy,
        job.created_at or foreign.first_failed_at, job.wire_version, job.encoding, job.epoch, job.epoch_at or now,
        job.payload_version, job.starts, job.attempts, job.crashes, job.losses, last.at, writable(last.reason),
        writable(last.message),
    )  # fmt: skip


def _letter_row(id: bytes, foreign: Foreign) -> Row:
    """The parameters of `add_letter`."""
    job, last = foreign.job, foreign.failures[-1]
    return (
        id, job.task, job.queue, job.priority, writable(last.reason), writable(last.type), writable(last.message),
        writable(last.fingerprint), job.attempts, job.epoch, foreign.first_failed_at, last.at, writable(last.host),
        writable(last.worker), writable_or_none(last.release), foreign.version,
        writable_or_none(foreign.review), foreign.returns, writable_or_none(foreign.rule),
    )  # fmt: skip


def _group_row(fingerprint: str, members: Sequence[tuple[bytes, Foreign]]) -> Row:
    """The parameters of `join_group`."""
    id, first = members[0]
    last, times = first.failures[-1], [each.failures[-1].at for _, each in members]
    return (
        fingerprint, writable(last.title), first.job.task, writable(last.reason), writable(last.type), len(members),
        min(times), max(times), id,
    )  # fmt: skip

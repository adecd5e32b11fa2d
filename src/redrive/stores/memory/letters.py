"""Dead letters and their groups in memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from redrive.job import Job, State
from redrive.letter import Failure, Group, GroupState, Letter, LetterState
from redrive.query.matching import Subject, matcher
from redrive.query.tree import Tree
from redrive.store import Accepted, Existing, Foreign, Mark, Outline, Page, Total, Totals
from redrive.stores.memory.disposing import MemoryDisposals, end_letter
from redrive.stores.memory.editing import MemoryEdits
from redrive.stores.memory.marking import MemoryMarks, tell_reopened
from redrive.stores.memory.retaining import MemoryNotices
from redrive.stores.memory.reviewing import MemoryReviews, come_back
from redrive.stores.memory.rows import Memory, Row

FRESH: dict[str, object] = {"attempts": 0, "starts": 0, "crashes": 0, "losses": 0, "suspect": 0}
"""The counts of a new epoch."""


def put_letter(memory: Memory, row: Row) -> None:
    """The letter of a job that has just died: a new one, or one more epoch for the one it has."""
    letters = memory.rows.letters
    before = letters.get(row.job.id)
    letter = written(row.job, row.failures)
    if before is not None:
        letter = msgspec.structs.replace(
            letter,
            version=before.version + 1,
            owner=before.owner,
            first_failed_at=before.first_failed_at,
            **come_back(before, letter.group, memory.settings.max_epochs),
        )
    letters[letter.id] = letter
    memory.rows.died[letter.id] = memory.rows.written
    join_group(memory, letter, row.failures[-1])


def dead_from_elsewhere(job: Job, foreign: Foreign, now: int) -> Job:
    """The job of a letter that is taken in, as it stands here; nobody holds it, and no key is taken for it."""
    return msgspec.structs.replace(
        job,
        state=State.DEAD,
        key=None,
        due_at=foreign.failures[-1].at,
        created_at=job.created_at or foreign.first_failed_at,
        epoch_at=job.epoch_at or now,
        fence=0,
        suspect=0,
    )


def written(job: Job, failures: Sequence[Failure]) -> Letter:
    """The letter that tells of these failures."""
    last = failures[-1]
    return Letter(
        id=job.id,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        state=LetterState.OPEN,
        reason=last.reason,
        type=last.type,
        message=last.message,
        group=last.fingerprint,
        attempts=job.attempts,
        epochs=job.epoch,
        first_failed_at=failures[0].at,
        failed_at=last.at,
        host=last.host,
        worker=last.worker,
        release=last.release,
        failures=tuple(failures),
    )


def join_group(memory: Memory, letter: Letter, last: Failure) -> None:
    """Count the letter in its group, which is made or opened again if need be."""
    group = memory.rows.groups.get(letter.group) or Group(
        fingerprint=letter.group,
        title=last.title,
        task=letter.task,
        reason=letter.reason,
        type=letter.type,
        count=0,
        first_seen=letter.failed_at,
        last_seen=letter.failed_at,
        sample=letter.id,
    )
    state = group.state
    if state is GroupState.CLOSED:
        state = GroupState.REOPENED
        tell_reopened(memory, group, letter)
    memory.rows.groups[letter.group] = msgspec.structs.replace(
        group, count=group.count + 1, last_seen=max(group.last_seen, letter.failed_at), state=state
    )


def forget_letters(memory: Memory, limit: int) -> int:
    """Letters that were closed or discarded long ago; answers how many."""
    now, keeps, letters = memory.clock.now(), memory.settings.keeps_closed, memory.rows.letters
    ended = memory.rows.ended_letters.items()
    over = [id for id, ended_at in ended if ended_at <= now - keeps(letters[id].queue)][:limit]
    for id in over:
        del memory.rows.letters[id], memory.rows.ended_letters[id]
        memory.rows.deaths.pop(id, None)
        memory.rows.died.pop(id, None)
        memory.rows.replaced.pop(id, None)
    memory.rows.notes = [each for each in memory.rows.notes if each[0] not in over]
    return len(over)


def with_job(memory: Memory, letter: Letter) -> Letter:
    """A letter with what its job still has."""
    row = memory.rows.jobs.get(letter.id)
    if row is None or row.finished is not None:
        return letter
    job = row.job
    return msgspec.structs.replace(
        letter, workflow=job.batch, payload=job.payload, headers=job.headers, payload_version=job.payload_version
    )


_HEAVY: dict[str, Any] = {
    "failures": (),
    "notes": (),
    "workflow": None,
    "payload": None,
    "headers": None,
    "payload_version": 1,
    "replaced": (),
}
"""What a page leaves out."""


def _mark(letter: Letter) -> Mark:
    """Its place among letters."""
    return letter.failed_at, letter.id


class MemoryLetters(MemoryEdits, MemoryDisposals, MemoryReviews, MemoryNotices, MemoryMarks):
    """Dead letters and their groups."""

    async def get(self, id: str) -> Letter | None:
        """One letter with its payload and every failure of every epoch."""
        return next(iter(await self.whole([id])), None)

    async def find(self, query: Tree, after: Mark | None = None, limit: int = 50) -> Page:
        """A page of the letters that a filter means, the last failure first."""
        meant = self._meant(query)
        found = [letter for letter in meant if after is None or _mark(letter) < after]
        page = sorted(found, key=_mark, reverse=True)[:limit]
        light = [msgspec.structs.replace(each, **_HEAVY) for each in page]
        if len(page) == limit:
            return Page(light, _mark(page[-1]))
        return Page(light, passed=len(self._rows.letters) - len(meant))

    async def whole(self, ids: Sequence[str]) -> list[Letter]:
        """These letters as `get` answers them, in order; those that are gone are left out."""
        with self._rows.lock:
            return [self._whole(self._rows.letters[id]) for id in ids if id in self._rows.letters]

    async def count(self, query: Tree) -> int:
        """How many letters a filter means."""
        return len(self._meant(query))

    async def outline(self, query: Tree) -> Outline:
        """How many letters a filter means, in how many groups, and between which times they failed last."""
        found = self._meant(query)
        times = [letter.failed_at for letter in found]
        groups = len({letter.group for letter in found})
        return Outline(n=len(found), groups=groups, oldest=min(times, default=None), newest=max(times, default=None))

    async def totals(self) -> Totals:
        """How many open letters there are of each kind, without looking at them."""
        with self._rows.lock:
            letters = [each for each in self._rows.letters.values() if each.state is LetterState.OPEN]
        counts = Counter((each.queue, each.task, each.priority, each.reason) for each in letters)
        ordered = sorted(counts.items(), key=lambda kind: (*kind[0][:2], -kind[0][2], kind[0][3]))
        held = Counter((e.queue, e.task, e.priority, e.reason) for e in letters if e.review is not None)
        kinds = [
            Total(queue=q, task=t, priority=p, reason=r, n=n, review=held[q, t, p, r]) for (q, t, p, r), n in ordered
        ]
        times = [each.failed_at for each in letters]
        return Totals(kinds=kinds, oldest=min(times, default=None), newest=max(times, default=None))

    async def groups(self, query: Tree | None = None, limit: int = 100) -> list[Group]:
        """Groups, most letters first; with a filter, of the letters it means, counted among them."""
        counts = None if query is None else Counter(letter.group for letter in self._meant(query))
        with self._rows.lock:
            groups = [self.now_of(group) for group in self._rows.groups.values()]
        if counts is not None:
            known = [group for group in groups if counts[group.fingerprint]]
            groups = [msgspec.structs.replace(group, count=counts[group.fingerprint]) for group in known]
        return sorted(groups, key=lambda group: (-group.count, group.fingerprint))[:limit]

    def _meant(self, query: Tree) -> list[Letter]:
        fits = matcher(query)
        with self._rows.lock:
            letters = [self._whole(letter) for letter in self._rows.letters.values()]
        return [letter for letter in letters if fits(Subject.of(letter))]

    def _whole(self, letter: Letter) -> Letter:
        replaced = tuple(self._rows.replaced.get(letter.id, ()))
        return with_job(self._memory, msgspec.structs.replace(self._marked(letter), replaced=replaced))

    async def take_in(self, letters: Sequence[Foreign], actor: str) -> list[Accepted | Existing]:
        """Make each a dead job with its open letter; what is there already, or was purged, stays as it is."""
        with self._rows.lock:
            return [self._take_in(each, actor) for each in letters]

    def _take_in(self, foreign: Foreign, actor: str) -> Accepted | Existing:
        job, last = foreign.job, foreign.failures[-1]
        if job.id in self._rows.tombstones:
            return Existing(job.id, "purged")
        if (row := self._rows.jobs.get(job.id)) is not None:
            return Existing(job.id, row.job.state)
        if (there := self._rows.letters.get(job.id)) is not None:
            return Existing(job.id, State.DONE if there.state is LetterState.CLOSED else State.DISCARDED)
        job = dead_from_elsewhere(job, foreign, self._memory.clock.now())
        self._rows.insert(job)
        row = self._rows.jobs[job.id]
        row.failures, row.ended_at, row.end_reason = list(foreign.failures), last.at, last.reason
        letter = msgspec.structs.replace(
            written(job, foreign.failures),
            first_failed_at=foreign.first_failed_at,
            version=foreign.version,
            review=foreign.review,
            returns=foreign.returns,
            rule=foreign.rule,
        )
        self._rows.letters[job.id] = letter
        self._rows.died[job.id] = self._rows.written
        join_group(self._memory, letter, last)
        group = self._rows.groups[letter.group]
        self._rows.groups[letter.group] = msgspec.structs.replace(group, first_seen=min(group.first_seen, last.at))
        self._memory.count(job, "imported")
        self._memory.record("job.imported", job, reason=last.reason, actor=actor, text=last.message)
        return Accepted(job.id)

    async def revive(self, ids: Sequence[str], actor: str, reason: str) -> list[str]:
        """Give dead jobs a new epoch: dead to ready, epoch + 1, attempts from zero. Answers who was."""
        with self._rows.lock:
            dead = [row for row in self._memory.known(ids) if row.job.state is State.DEAD]
            for row in dead:
                self._revive(row, actor, reason)
            return [row.job.id for row in dead]

    def _revive(self, row: Row, actor: str, reason: str) -> None:
        now = self._memory.clock.now()
        row.ended_at = row.end_reason = None
        job = self._memory.wait_for_turn(row, now, epoch=row.job.epoch + 1, epoch_at=now, redrive=None, **FRESH)
        end_letter(self._memory, job.id, LetterState.REDRIVEN)
        self._memory.count(job, "redriven")
        self._memory.record("job.redriven", job, actor=actor, text=reason)

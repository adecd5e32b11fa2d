"""The end of letters in memory: with their jobs, or discarded, restored and purged by hand."""

from collections.abc import Callable, Sequence

import msgspec

from redrive.disposal import GONE, KEY_TAKEN, NEVER, why_not_discarded, why_not_purged, why_not_restored
from redrive.job import State
from redrive.letter import Letter, LetterState
from redrive.store import Disposed
from redrive.stores.memory.rows import Memory


def end_letter(memory: Memory, id: str, state: LetterState) -> None:
    """The letter of a job that was redriven, or has ended otherwise than by dying, if it has one."""
    letter = memory.rows.letters.get(id)
    if letter is not None:
        if letter.state is LetterState.OPEN:
            group = memory.rows.groups[letter.group]
            memory.rows.groups[letter.group] = msgspec.structs.replace(group, count=group.count - 1)
        memory.rows.letters[id] = msgspec.structs.replace(letter, state=state, version=letter.version + 1)
        memory.rows.ended_letters.pop(id, None)
        if state is not LetterState.REDRIVEN:
            memory.rows.ended_letters[id] = memory.clock.now()


class MemoryDisposals:
    """The verbs that end letters."""

    _memory: Memory

    async def discard(
        self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER, *, rule: str | None = None
    ) -> Disposed:
        """End dead jobs and their open letters, of those that failed last at `upto` or before."""

        def why_not(letter: Letter) -> str | None:
            return why_not_discarded(letter.state, letter.failed_at, upto)

        return self._each(ids, why_not, lambda letter: self._discard(letter, actor, reason or None, rule))

    async def restore(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Undo discards of `upto` or before: dead again, with an open letter in its group."""

        def why_not(letter: Letter) -> str | None:
            rows = self._memory.rows
            ended_at = rows.ended_letters.get(letter.id, 0)
            why = why_not_restored(letter.state, rows.deaths.get(letter.id), ended_at, upto)
            return why or self._key_taken(letter)

        return self._each(ids, why_not, lambda letter: self._restore(letter, actor, reason or None))

    async def purge(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Remove letters with their failures, notes and jobs; a tombstone keeps their ids from being added again."""

        def why_not(letter: Letter) -> str | None:
            return why_not_purged(letter.state, letter.failed_at, upto)

        return self._each(ids, why_not, lambda letter: self._purge(letter, actor, reason or None))

    def _each(
        self, ids: Sequence[str], why_not: Callable[[Letter], str | None], deal: Callable[[Letter], None]
    ) -> Disposed:
        done, left = [], dict[str, str]()
        with self._memory.rows.lock:
            for id in dict.fromkeys(ids):
                letter = self._memory.rows.letters.get(id)
                why = GONE if letter is None else why_not(letter)
                if letter is None or why is not None:
                    left[id] = why or GONE
                else:
                    deal(letter)
                    done.append(id)
        return Disposed(done, left)

    # --- the steps, under the lock ----------------------------------------------------------------------------------

    def _discard(self, letter: Letter, actor: str, reason: str | None, rule: str | None) -> None:
        rows = self._memory.rows
        row = rows.jobs[letter.id]
        rows.deaths[letter.id] = row.ended_at or 0
        self._memory.discard(row, "discarded", actor=actor, text=reason)
        end_letter(self._memory, letter.id, LetterState.DISCARDED)
        if rule is not None:
            rows.letters[letter.id] = msgspec.structs.replace(rows.letters[letter.id], rule=rule)

    def _key_taken(self, letter: Letter) -> str | None:
        row = self._memory.rows.jobs[letter.id]
        return KEY_TAKEN if row.job.key is not None and self._memory.key_holder(row.job) else None

    def _restore(self, letter: Letter, actor: str, reason: str | None) -> None:
        rows = self._memory.rows
        row = rows.jobs[letter.id]
        job = rows.change(row, state=State.DEAD)
        row.ended_at, row.end_reason = rows.deaths.pop(letter.id), letter.reason
        if job.key is not None:
            rows.keys[job.key] = job.id
        rows.letters[letter.id] = msgspec.structs.replace(letter, state=LetterState.OPEN, version=letter.version + 1)
        del rows.ended_letters[letter.id]
        group = rows.groups[letter.group]
        rows.groups[letter.group] = msgspec.structs.replace(group, count=group.count + 1)
        self._memory.count(job, "restored")
        self._memory.record("job.restored", job, actor=actor, text=reason)

    def _purge(self, letter: Letter, actor: str, reason: str | None) -> None:
        rows = self._memory.rows
        end_letter(self._memory, letter.id, LetterState.DISCARDED)
        if (row := rows.jobs.get(letter.id)) is not None:
            if row.job.state is State.DEAD:
                self._memory.count(row.job, "dead_purged")
            rows.forget(letter.id)
        del rows.letters[letter.id], rows.ended_letters[letter.id]
        rows.deaths.pop(letter.id, None)
        rows.replaced.pop(letter.id, None)
        rows.notes = [each for each in rows.notes if each[0] != letter.id]
        rows.tombstones.add(letter.id)
        self._memory.count_of(letter.queue, letter.task, "letters_purged")
        about: dict[str, str | int] = {"job": letter.id, "task": letter.task, "queue": letter.queue}
        about |= {"epoch": letter.epochs, "attempt": letter.attempts}
        self._memory.note("job.purged", **about, actor=actor, text=reason)

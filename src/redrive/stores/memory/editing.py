"""Other payloads for dead jobs in memory; what they were given before is kept."""

from collections.abc import Sequence

import msgspec

from redrive.disposal import GONE, why_not_edited
from redrive.letter import Replaced
from redrive.store import Disposed, Edit
from redrive.stores.memory.rows import Memory


class MemoryEdits:
    """The verb that changes what a job was given."""

    _memory: Memory

    async def edit(self, edits: Sequence[Edit], actor: str, reason: str) -> Disposed:
        """Give dead jobs other payloads; a letter that has changed since it was read is left as it is."""
        done, left = dict[str, None](), dict[str, str]()
        with self._memory.rows.lock:
            for edit in edits:
                letter = self._memory.rows.letters.get(edit.id)
                why = GONE if letter is None else why_not_edited(letter.state, letter.version, edit.version)
                if why is None:
                    replace(self._memory, edit.id, edit.payload, actor, reason)
                    done[edit.id] = None
                else:
                    left[edit.id] = why
        return Disposed(list(done), left)


def replace(memory: Memory, id: str, payload: bytes, actor: str, reason: str) -> None:
    """Put another payload in the place of what the job of a letter has."""
    rows, now = memory.rows, memory.clock.now()
    letter, row = rows.letters[id], rows.jobs[id]
    before = Replaced(version=row.job.payload_version, payload=row.job.payload, at=now, actor=actor)
    rows.replaced.setdefault(id, []).append(before)
    job = rows.change(row, payload=payload, payload_version=before.version + 1)
    rows.letters[id] = msgspec.structs.replace(letter, version=letter.version + 1)
    memory.count(job, "edited")
    text = f"payload version {job.payload_version}" + (f": {reason}" if reason else "")
    memory.record("job.edited", job, actor=actor, text=text)

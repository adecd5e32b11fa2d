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
                    self._edit(edit, actor, reason)
                    done[edit.id] = None
                else:
                    left[edit.id] = why
        return Disposed(list(done), left)

    def _edit(self, edit: Edit, actor: str, reason: str) -> None:
        rows, now = self._memory.rows, self._memory.clock.now()
        letter, row = rows.letters[edit.id], rows.jobs[edit.id]
        before = Replaced(version=row.job.payload_version, payload=row.job.payload, at=now, actor=actor)
        rows.replaced.setdefault(edit.id, []).append(before)
        job = rows.change(row, payload=edit.payload, payload_version=before.version + 1)
        rows.letters[edit.id] = msgspec.structs.replace(letter, version=letter.version + 1)
        self._memory.count(job, "edited")
        text = f"payload version {job.payload_version}" + (f": {reason}" if reason else "")
        self._memory.record("job.edited", job, actor=actor, text=text)

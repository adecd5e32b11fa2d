"""Letters that go to another group in memory: counts, times, samples, owners and notes of both stay right."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from redrive.disposal import GONE
from redrive.leftovers import SINCE
from redrive.letter import Group, Letter, LetterState
from redrive.store import Disposed, Move
from redrive.stores.memory.rows import Memory


def regroup(memory: Memory, moves: Sequence[Move], parts: Counter[tuple[str, str]]) -> Disposed:
    """Move letters; one that has failed again, or was moved, since it was read is left as it is."""
    done, left = dict[str, Move](), dict[str, str]()
    for move in moves:
        letter = memory.rows.letters.get(move.id)
        if letter is None:
            left[move.id] = GONE
        elif (letter.group, letter.failed_at) != (move.before, move.failed_at) or move.id in done:
            left[move.id] = SINCE
        else:
            _move(memory, letter, move)
            done[move.id] = move
    into = Counter((move.before, move.group) for move in done.values())
    parts.update(into)
    for before in sorted({before for before, _ in into}):
        _leave(memory, before, Counter({group: n for (each, group), n in into.items() if each == before}))
    return Disposed(list(done), left)


def _move(memory: Memory, letter: Letter, move: Move) -> None:
    rows = memory.rows
    last = msgspec.structs.replace(
        letter.failures[-1],
        fingerprint=move.group,
        title=move.title,
        plain=move.plain,
        plain_title=move.plain_title,
    )
    failures = (*letter.failures[:-1], last)
    rows.letters[letter.id] = msgspec.structs.replace(letter, group=move.group, failures=failures)
    if letter.id in rows.jobs:
        rows.jobs[letter.id].failures[-1:] = [last]
    is_open = letter.state is LetterState.OPEN
    before, after = rows.groups[move.before], rows.groups.get(move.group)
    rows.groups[move.before] = msgspec.structs.replace(before, count=before.count - is_open)
    after = after or Group(
        fingerprint=move.group,
        title=move.title,
        task=letter.task,
        reason=letter.reason,
        type=letter.type,
        count=0,
        first_seen=letter.failed_at,
        last_seen=letter.failed_at,
        sample=letter.id,
    )
    rows.groups[move.group] = msgspec.structs.replace(
        after,
        count=after.count + is_open,
        title=move.title,
        first_seen=min(after.first_seen, letter.failed_at),
        last_seen=max(after.last_seen, letter.failed_at),
        owner=after.owner or before.owner,
    )


def _leave(memory: Memory, before: str, into: Counter[str]) -> None:
    """What becomes of a group that letters have left."""
    rows = memory.rows
    group, rest = rows.groups[before], [each for each in rows.letters.values() if each.group == before]
    if not rest:
        follow = max(sorted(into), key=lambda each: into[each])
        rows.notes = [(follow if about == before else about, note) for about, note in rows.notes]
        return
    times = [each.failed_at for each in rest]
    first = max(group.first_seen, min(times))
    rows.groups[before] = msgspec.structs.replace(group, first_seen=first, last_seen=max(times))

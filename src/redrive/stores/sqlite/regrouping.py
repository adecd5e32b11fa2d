"""Letters that go to another group: counts, times, samples, owners and notes of both stay right."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from redrive.disposal import GONE
from redrive.leftovers import SINCE
from redrive.letter import LetterState
from redrive.store import Disposed, Move
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import Row, ids_of, spelled, writable


@dataclass(slots=True)
class _Arrivals:
    """What a group gets."""

    first: Row
    title: str
    open: int = 0
    times: list[int] = field(default_factory=list)


def regroup(tx: Transaction, moves: Sequence[Move], operation: bytes) -> Disposed:
    """Move letters; one that has failed again, or was moved, since it was read is left as it is."""
    found = {spelled(row[0]): row for row in tx.all("letters_to_move", ids_of(each.id for each in moves))}
    done, left = dict[str, Move](), dict[str, str]()
    for move in moves:
        row = found.get(move.id)
        if row is None:
            left[move.id] = GONE
        elif (row[2], row[3]) != (move.before, move.failed_at) or move.id in done:
            left[move.id] = SINCE
        else:
            done[move.id] = move
    pairs = [(found[id], move) for id, move in done.items()]
    tx.many("move_letter", [(row[0], writable(move.group)) for row, move in pairs])
    tx.many(
        "move_failure",
        [(row[0], *map(writable, (move.group, move.title, move.plain, move.plain_title))) for row, move in pairs],
    )
    _arrive(tx, pairs)
    _leave(tx, pairs)
    parts = Counter((move.before, writable(move.group)) for _, move in pairs)
    tx.many("add_to_part", [(operation, before, group, n) for (before, group), n in sorted(parts.items())])
    return Disposed(list(done), left)


def _arrive(tx: Transaction, pairs: Sequence[tuple[Row, Move]]) -> None:
    arrivals: dict[str, _Arrivals] = {}
    for row, move in pairs:
        group = arrivals.setdefault(writable(move.group), _Arrivals(row, writable(move.title)))
        group.open += row[1] == LetterState.OPEN
        group.times.append(row[3])
    tx.many(
        "join_by_moving",
        [
            (name, each.title, *each.first[4:7], each.open, min(each.times), max(each.times), each.first[0])
            for name, each in sorted(arrivals.items())
        ],
    )


def _leave(tx: Transaction, pairs: Sequence[tuple[Row, Move]]) -> None:
    """What becomes of the groups that letters have left."""
    lost = Counter(move.before for row, move in pairs if row[1] == LetterState.OPEN)
    into: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for _, move in pairs:
        into[move.before][writable(move.group)] += 1
    tx.many("leave_group", sorted(lost.items()))
    for before, groups in sorted(into.items()):
        tx.many("inherit_owner", [(before, group) for group in sorted(groups)])
        [(first, last)] = tx.all("left_behind", before)
        if last is not None:
            tx.run("group_seen", before, first, last)
        else:
            tx.run("notes_follow", before, max(sorted(groups), key=lambda group: groups[group]))

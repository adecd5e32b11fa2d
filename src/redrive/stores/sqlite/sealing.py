"""The seals on what people did: put in the order of the journal, and looked at again when everything is added up."""

import msgspec

from redrive.ledger import FIRST, Broken, Kept, Noted, Trail, examined, line_of, link
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, entry_of, numbers_of

_NONE = (0, 0, FIRST)


def seal(tx: Transaction, limit: int) -> int:
    """Put up to `limit` entries under a seal; here their order never changes once they are written."""
    number, upto, before = tx.first("last_seal") or _NONE
    rows = tx.all("unsealed_entries", upto, limit)
    if rows:
        number, lines = number + 1, b"".join(map(_line, rows))
        tx.run("add_seal", number, tx.now, len(rows), rows[-1][0], link(before, number, tx.now, lines), lines)
        tx.run("mark_sealed", numbers_of(row[0] for row in rows), number)
    return len(rows)


def is_due(snapshot: Snapshot) -> bool:
    """Whether anything waits for a seal; looking costs no write."""
    _, upto, _ = snapshot.first("last_seal") or _NONE
    return snapshot.first("unsealed_entries", upto, 1) is not None


def trail(snapshot: Snapshot, noted: Noted | None) -> Trail:
    """What is sealed, and whether it holds."""
    seals = (Kept(row[0], row[1], row[2], row[3], row[4], row[5] is not None) for row in snapshot.each("prove_seals"))
    found = examined(seals, lambda number: list(map(_line, snapshot.each("prove_sealed", number))), noted)
    [unsealed] = snapshot.all("prove_unsealed")
    return msgspec.structs.replace(found, unsealed=unsealed[0], broken=found.broken or _stray(snapshot))


def _stray(snapshot: Snapshot) -> Broken | None:
    """An entry that bears no seal, or one that is not there, in the midst of what is sealed."""
    if (row := snapshot.first("prove_sealed_by_none")) is not None:
        return Broken(seal=row[1], why="bears a seal that is not there", entry=row[0])
    number, upto, _ = snapshot.first("last_seal") or _NONE
    row = snapshot.first("prove_put_in", upto)
    return None if row is None else Broken(seal=number, why="was put in", entry=row[0])


def _line(row: Row) -> bytes:
    return line_of(row[0], msgspec.structs.astuple(entry_of(row))[1:])

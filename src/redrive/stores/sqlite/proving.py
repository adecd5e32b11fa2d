"""Adding everything up at one moment: the accounts of queues, rows that contradict each other, the seals."""

from collections.abc import Iterator

from redrive.ledger import FLAWS, Flaw, Noted, Proof, Tell, accounts, flaw
from redrive.stores.sqlite import sealing
from redrive.stores.sqlite.transaction import Snapshot
from redrive.stores.sqlite.values import spelled

Places = dict[tuple[str, str], int]
"""How many there are by queue and state."""


def prove(snapshot: Snapshot, named: int, noted: Noted | None, tell: Tell) -> Proof:
    """Everything, on one snapshot."""
    tell("counts")
    counts: Places = {(queue, name): n for queue, name, n in snapshot.each("prove_counts")}
    carried = snapshot.all("prove_carried")
    tell("jobs")
    rows: Places = {(queue, state): n for queue, state, n in snapshot.each("prove_rows")}
    found = [_flaw(snapshot, kind, rows, named, tell) for kind in FLAWS]
    tell("seals")
    return Proof(
        accounts=accounts(counts, rows, {queue: n for queue, n, _ in carried}),
        flaws=[each for each in found if each is not None],
        trail=sealing.trail(snapshot, noted),
        since=carried[0][2] if carried else None,
    )


def _flaw(snapshot: Snapshot, kind: str, rows: Places, named: int, tell: Tell) -> Flaw | None:
    tell(kind)
    names = _wrong_depths(snapshot, rows) if kind == "depth" else _names(snapshot, f"prove_{kind.replace(' ', '_')}")
    return flaw(kind, names, named)


def _names(snapshot: Snapshot, statement: str) -> Iterator[str]:
    for (name,) in snapshot.each(statement):
        yield spelled(name) if isinstance(name, bytes) else name


def _wrong_depths(snapshot: Snapshot, rows: Places) -> Iterator[str]:
    depths: Places = {(queue, state): n for queue, state, n in snapshot.each("prove_depths")}
    for place in sorted(rows.keys() | depths.keys()):
        if rows.get(place, 0) != depths.get(place, 0):
            yield " ".join(place)

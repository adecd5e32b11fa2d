"""The rows of a redrive, as they are read, and what the journal is told of it."""

import msgspec

from redrive.store import Plan, Redrive, Tally
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, spelled, unpacked_or_none


def key_of(id: str) -> bytes:
    """The bytes of an id; those of nothing when it cannot be one."""
    return unpacked_or_none(id) or b""


def row_of(snapshot: Snapshot, id: str) -> Row | None:
    return snapshot.first("redrive", key_of(id))


def redrive_of(row: Row) -> Redrive:
    """In the table one that waits is running, and has not begun."""
    plan = msgspec.json.decode(row[1], type=Plan)
    waiting = row[4] == "running" and plan.when_release is not None and row[14] is None
    return Redrive(
        id=spelled(row[0]),
        plan=plan,
        actor=row[2],
        reason=row[3],
        state="waiting" if waiting else row[4],
        opened_at=row[5],
        version=row[6],
        frozen_at=row[7],
        ended_at=row[8],
        total=row[9],
        stage=row[10],
        stage_left=row[11],
        stage_at=row[12],
        why=row[13],
        begun_at=row[14],
    )


def tallies_of(snapshot: Snapshot, key: bytes) -> list[Tally]:
    names = Tally.__struct_fields__
    return [Tally(**dict(zip(names, row, strict=True))) for row in snapshot.all("causes_of_redrive", key)]


def note(tx: Transaction, event: str, id: str, actor: str, text: str) -> None:
    tx.journal(event, actor=actor, text=f"redrive {id[-8:]}: {text}" if text else f"redrive {id[-8:]}")

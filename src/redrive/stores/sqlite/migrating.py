"""Brings a file to the schema of this version: numbered files, each applied in a transaction of its own."""

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from redrive import failpoints
from redrive.clock import Clock
from redrive.errors import ForeignStore, NewerStore, StoreError
from redrive.stores.sqlite.connection import is_write_ahead, make_write_ahead
from redrive.stores.sqlite.lock import WriteLock
from redrive.stores.sqlite.statements import migrations, statements

APPLICATION = 0x52647276
"""What stands in the head of a file of ours: `Rdrv`; the first migration writes it."""

_COMPATIBLE = re.compile(r"-- compatible_from: (\d+)")


class Migration(NamedTuple):
    """A step of the schema; programs from version `compatible_from` on can work with what it leaves."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def compatible_from(self) -> int:
        found = _COMPATIBLE.match(self.text)
        return int(found[1]) if found else self.number


def steps() -> list[Migration]:
    """Every migration there is, in order."""
    return [Migration(*each) for each in migrations()]


def migrate(db: apsw.Connection, lock: WriteLock, path: Path, clock: Clock, patience: float) -> list[str]:
    """Apply what is missing, one process at a time; answers the names of what was applied."""
    if not pending(db, path) and is_write_ahead(db):
        return []
    lock.acquire_within(patience, f"the store {path} cannot be migrated now")
    try:
        make_write_ahead(db, path)
        missing = pending(db, path)
        for step in missing:
            _apply(db, step, clock)
            failpoints.reached(f"migrate.{step.number}")
        return [step.name for step in missing]
    finally:
        lock.release()


def pending(db: apsw.Connection, path: Path) -> list[Migration]:
    """The migrations that are missing, or why this file is not for us."""
    if not db.execute(statements()["tables"]).get:
        return steps()
    if db.execute("PRAGMA application_id").get != APPLICATION:
        raise ForeignStore(f"{path} is the database of another program; name another path for the store")
    rows: Any = db.execute(statements()["applied"]).fetchall()
    applied: dict[int, str] = dict(rows)
    _refuse_changed(applied, path)
    _refuse_newer(db, applied, path)
    return [step for step in steps() if step.number not in applied]


def version(db: apsw.Connection) -> int:
    """The schema version of a file."""
    return int(db.execute(statements()["meta"], ("version",)).get or 0)


def _refuse_changed(applied: dict[int, str], path: Path) -> None:
    for step in steps():
        if applied.get(step.number, step.checksum) != step.checksum:
            raise StoreError(
                f"migration {step.name} of the store {path} is not the one of this version; "
                "it was made by a development version: move the file away and start anew"
            )


def _refuse_newer(db: apsw.Connection, applied: dict[int, str], path: Path) -> None:
    ours = steps()[-1].number
    needed = int(db.execute(statements()["meta"], ("compatible_from",)).get or 0)
    if max(applied, default=0) > ours and needed > ours:
        raise NewerStore(
            f"the store {path} has schema version {max(applied)}, which this version of Redrive cannot read "
            f"(it knows up to {ours}); upgrade it here too"
        )


def _apply(db: apsw.Connection, step: Migration, clock: Clock) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(step.text).fetchall()
        values = (step.number, step.name, step.checksum, clock.now())
        db.execute(statements()["add_migration"], values).fetchall()
        for key, value in (("version", step.number), ("compatible_from", step.compatible_from)):
            db.execute(statements()["raise_meta"], (key, value)).fetchall()
        failpoints.reached(f"migrate.{step.number}.before")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise

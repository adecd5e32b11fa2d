"""What the doctor wants to know of a file, and what to do about it."""

import os
import shutil
import stat
import sys
from pathlib import Path

from redrive.clock import SECOND
from redrive.store import Check
from redrive.stores.sqlite.connection import SAFE, sqlite_version
from redrive.stores.sqlite.files import file_system, is_network
from redrive.stores.sqlite.migrating import pending, version
from redrive.stores.sqlite.transaction import Snapshot

ROOM = 256 * 1024 * 1024
LONG_LOG = 256 * 1024 * 1024


def of_file(path: Path) -> list[Check]:
    """What can be seen without opening the database."""
    return [_engine(), _file_system(path), _permissions(path), _room(path), _log(path), _locks(path)]


def of_store(snapshot: Snapshot, path: Path) -> list[Check]:
    """What the database itself tells."""
    return [_schema(snapshot, path), _leases(snapshot), _clock(snapshot), _integrity(snapshot)]


def _engine() -> Check:
    version = ".".join(map(str, sqlite_version()))
    return Check(
        name="engine",
        ok=sqlite_version() >= SAFE,
        found=f"SQLite {version}",
        advice=f"install a recent apsw: SQLite before {'.'.join(map(str, SAFE))} can damage a store under load",
    )


def _file_system(path: Path) -> Check:
    kind = file_system(path.parent)
    return Check(
        name="file system",
        ok=not is_network(kind),
        found=f"{kind}{' (a network file system)' if is_network(kind) else ''}",
        advice="move the store to a local disk: locks of a network file system do not hold",
    )


def _permissions(path: Path) -> Check:
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    return Check(
        name="permissions",
        ok=not others and os.access(path, os.W_OK),
        found=f"mode {mode:04o}, owned by user {found.st_uid}",
        advice=f"payloads may be private: chmod 600 {path}",
    )


def _room(path: Path) -> Check:
    free = shutil.disk_usage(path.parent).free
    return Check(
        name="disk space",
        ok=free >= ROOM,
        found=f"{free // 1024**2:,} MiB free",
        advice="make room: a full disk refuses jobs before it accepts them, and workers cannot settle",
    )


def _log(path: Path) -> Check:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    return Check(
        name="write-ahead log",
        ok=size < LONG_LOG,
        found=f"{size // 1024:,} KiB",
        advice="a reader has kept a very old snapshot open; find it with `fuser` and end it",
    )


def _locks(path: Path) -> Check:
    """SQLite holds a lock on the file as long as it is open; another library that closes the file here drops it."""
    held = _holds_lock(path)
    loaded = ", and Python's own sqlite3 is loaded beside apsw" if "_sqlite3" in sys.modules else ""
    return Check(
        name="locks",
        ok=held is not False,
        found={True: "held", False: "dropped", None: "not known on this system"}[held] + loaded,
        advice="something in this process opened and closed the store's file, as sqlite3 does, and that dropped our "
        "locks: stop doing so, and restart it",
    )


def _holds_lock(path: Path) -> bool | None:
    """None where the system does not tell; asking the file itself would mean to open it, which is what must not be."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    inode, us = f":{path.stat().st_ino}", str(os.getpid())
    held = (line.split() for line in lines if " POSIX " in line and "->" not in line)
    return any(fields[4] == us and fields[5].endswith(inode) for fields in held)


def _schema(snapshot: Snapshot, path: Path) -> Check:
    missing = pending(snapshot.db, path)
    return Check(
        name="schema",
        ok=not missing,
        found=f"version {version(snapshot.db)}, {len(missing) or 'nothing'} pending",
        advice="run `redrive migrate`",
    )


def _leases(snapshot: Snapshot) -> Check:
    row = snapshot.first("stuck_leases", snapshot.boot, snapshot.steady)
    stuck = row[0] if row else 0
    return Check(
        name="leases",
        ok=not stuck,
        found=_ended(stuck) if stuck else "none has ended without being taken over",
        advice="start a worker: it takes over what a lost one has left",
    )


def _ended(stuck: int) -> str:
    return (
        f"{stuck} leases have ended and nobody has taken them over"
        if stuck > 1
        else ("1 lease has ended and nobody has taken it over")
    )


def _clock(snapshot: Snapshot) -> Check:
    row = snapshot.first("latest_times")
    ahead = max([at for at in row or () if at is not None], default=0) - snapshot.now
    return Check(
        name="clock",
        ok=ahead < 60 * SECOND,
        found="no row is from the future" if ahead < 60 * SECOND else f"rows are {ahead // SECOND}s ahead of the clock",
        advice="set the clock of this machine: scheduled jobs run by it",
    )


def _integrity(snapshot: Snapshot) -> Check:
    found = str(snapshot.db.execute("PRAGMA quick_check(1)").get)
    return Check(
        name="integrity",
        ok=found == "ok",
        found=found,
        advice="stop the workers and restore a copy of the file",
    )

"""Connections to the file: how each is set up, and what is refused before anything is done with it."""

from pathlib import Path

import apsw

from redrive.errors import StoreError
from redrive.store import Settings
from redrive.stores.sqlite.files import file_system, is_network
from redrive.stores.sqlite.finding import with_functions

SAFE = (3, 51, 3)
"""Earlier versions of SQLite can corrupt a file when readers and a checkpoint meet."""

_WRITER = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
)
_READER = ("PRAGMA query_only = ON", "PRAGMA cache_size = -8192")
_CACHED = 200


def refuse_unfit(path: Path, settings: Settings) -> None:
    """Refuse a SQLite or a file system that would lose jobs, unless that is asked for."""
    if "ENABLE_CARRAY" not in apsw.compile_options:
        raise StoreError("the SQLite of the apsw module lacks the carray extension; install apsw from its wheels")
    if settings.force:
        return
    version = sqlite_version()
    if version < SAFE:
        raise StoreError(
            f"SQLite {'.'.join(map(str, version))} of the apsw module can damage a store under load; "
            f"install apsw {'.'.join(map(str, SAFE))}.0 or later from its wheels"
        )
    kind = file_system(path.parent)
    if is_network(kind):
        raise StoreError(
            f"the store {path} lies on a {kind} file system, where the locks of SQLite do not hold; "
            "use a local disk (?force=1 at the end of its URL opens it all the same, and may lose jobs)"
        )


def sqlite_version() -> tuple[int, ...]:
    """The version of the SQLite that apsw brings."""
    return tuple(int(piece) for piece in apsw.sqlite_lib_version().split("."))


def to_write(path: Path, settings: Settings) -> apsw.Connection:
    """The one connection that writes; nothing is changed before the file is known to be ours."""
    return _connected(path, settings, _WRITER, apsw.SQLITE_OPEN_READWRITE)


def to_read(path: Path, settings: Settings) -> apsw.Connection:
    """A connection beside it; it needs to write the shared memory of the log, and nothing else."""
    return with_functions(_connected(path, settings, _READER, apsw.SQLITE_OPEN_READWRITE))


def to_look(path: Path, settings: Settings) -> apsw.Connection:
    """A connection that changes nothing, not even the journal mode: for a first look at a file."""
    return _connected(path, settings, ("PRAGMA query_only = ON",), apsw.SQLITE_OPEN_READONLY)


def is_write_ahead(db: apsw.Connection) -> bool:
    """Whether the file has its write-ahead log: readers and the writer do not hinder each other."""
    return bool(db.execute("PRAGMA journal_mode").get == "wal")


def make_write_ahead(db: apsw.Connection, path: Path) -> None:
    """Give the file its write-ahead log, once and for all."""
    if db.execute("PRAGMA journal_mode = WAL").get != "wal":
        raise StoreError(f"the store {path} cannot have a write-ahead log where it lies; use a local disk")


def let_go(db: apsw.Connection | None) -> None:
    """Close a connection quickly: the log stays as it is, although this may be the last one."""
    if db is not None:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.close(True)


def _connected(path: Path, settings: Settings, pragmas: tuple[str, ...], flags: int) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=flags, statementcachesize=_CACHED)
    try:
        db.set_busy_timeout(round(settings.busy_timeout * 1_000))
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else each new value of a LIMIT has its statement planned anew
        for pragma in pragmas:
            db.execute(pragma).fetchall()
    except BaseException:
        db.close()
        raise
    return db

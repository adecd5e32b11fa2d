"""What SQLite and the file system say, in the words of errors.py: the one place where they are translated."""

import errno

import apsw

from redrive.errors import (
    ForeignStore,
    RedriveError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UsageError,
)

_KINDS: list[tuple[tuple[type[BaseException], ...], type[StoreError], str]] = [
    ((apsw.FullError,), StoreFull, "its disk is full; make room, then go on"),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        StoreReadOnly,
        "it cannot be written; check who owns the file and its folder",
    ),
    ((apsw.NotADBError,), ForeignStore, "the file is not a SQLite database; name another path"),
    (
        (apsw.CorruptError, apsw.FormatError),
        StoreError,
        "the file is damaged; stop the workers and restore a copy of it",
    ),
    (
        (apsw.BusyError, apsw.LockedError, apsw.ProtocolError),
        StoreUnavailable,
        "another program holds the file locked; try again, or find it with `fuser`",
    ),
    ((apsw.CantOpenError,), StoreUnavailable, "the file cannot be opened; check the path and the permissions"),
    ((apsw.IOError, apsw.NoMemError), StoreUnavailable, "reading or writing it failed; check the disk"),
    ((apsw.InterruptError,), StoreUnavailable, "the operation was interrupted; try again"),
]
_ERRNOS = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EROFS: StoreReadOnly,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
}


def translated(error: BaseException, path: str) -> BaseException:
    """The same fault as an error of ours, with the next step and its cause; anything else as it is."""
    fault = _translation(error, path)
    if fault is None:
        return error
    fault.__cause__ = error
    return fault


def _translation(error: BaseException, path: str) -> RedriveError | None:
    match error:
        case apsw.Error():
            return _of_sqlite(error, path)
        case UnicodeEncodeError():
            return UsageError(f"text with half a surrogate pair cannot be stored ({error.reason}); clean it first")
        case OverflowError():
            return UsageError(f"a number is beyond 64 bits and cannot be stored ({error}); write it as text")
        case OSError():
            return of_system(error, path)
    return None


def _of_sqlite(error: apsw.Error, path: str) -> StoreError:
    for kinds, kind, advice in _KINDS:
        if isinstance(error, kinds):
            return kind(f"the store {path} cannot be used: {advice} (SQLite: {error})")
    return StoreError(f"the store {path} failed in a way that should not be: {error}; run `redrive doctor`")


def of_system(error: OSError, path: str) -> StoreError:
    """What the operating system refused."""
    kind = _ERRNOS.get(error.errno or 0, StoreUnavailable)
    return kind(f"the store {path} cannot be used: {error.strerror or error}; check the path, its owner and the disk")

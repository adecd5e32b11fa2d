"""The files of a store: the database, its sidecar folder, and what they must lie on."""

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from redrive.errors import ForeignStore, StoreReadOnly, StoreUnavailable
from redrive.stores.sqlite.faults import of_system

_NETWORK = re.compile(
    r"^(?!fuse\.fuse-overlayfs)(nfs\d?|cifs|smb\d?|smbfs|9p|fuse|fuse\..*|afs|ceph|gluster.*|lustre|gpfs|beegfs|ocfs2|gfs2|vboxsf|vmhgfs|davfs"
    r"|prl_fs|afpfs|webdav|macfuse|osxfuse)$"
)

_SMALLEST = 512
"""Bytes of the smallest SQLite database that is not empty."""

MOUNTS = Path("/proc/self/mountinfo")


def home_of(path: Path) -> Path:
    """The folder beside a database where locks and wake-ups live."""
    return path.with_name(path.name + "-redrive")


def prepare(path: Path) -> None:
    """Make the database file, for its owner only, or say why that cannot be."""
    try:
        if not path.parent.is_dir():
            raise StoreUnavailable(
                f"the folder {path.parent} of the store does not exist; make it, or name another path"
            )
        _make(path)
        refuse_odd(path)
    except OSError as error:
        raise of_system(error, str(path)) from error


def make_home(home: Path) -> None:
    """Make the folder where processes meet, for the owner only."""
    try:
        with suppress(FileExistsError):
            home.mkdir(mode=0o700)
        found = home.lstat()
    except OSError as error:
        raise of_system(error, str(home)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreReadOnly(f"{home} must be a folder; remove what is there in its place")
    if found.st_uid != os.geteuid():
        raise StoreReadOnly(f"{home} belongs to user {found.st_uid}; run this as that user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        home.chmod(0o700)


def _make(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.fchmod(file, 0o600)  # whatever the umask took away
    os.close(file)


def refuse_odd(path: Path) -> None:
    """By its looks only: to open and close the file here would undo the locks of a store of this process."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise StoreUnavailable(f"{path} is a folder; name a file in it, such as {path / 'redrive.db'}")
    if not stat.S_ISREG(found.st_mode):
        raise ForeignStore(f"{path} is not a plain file; name another path")
    if 0 < found.st_size < _SMALLEST:  # SQLite would take it for an empty one, and write over it
        raise ForeignStore(f"{path} is not a SQLite database; name another path")
    if not os.access(path, os.R_OK):
        raise StoreUnavailable(f"the store {path} cannot be read; check who owns it, and run this as that user")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise StoreReadOnly(f"the store {path} cannot be written; check who owns the file and its folder")


def removed(path: Path) -> StoreUnavailable:
    """What is said when the file has gone from under us."""
    return StoreUnavailable(f"the store {path} was removed; put it back, or start anew")


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of its name; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # before each transaction: Path costs three times as much
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def file_system(path: Path) -> str:
    """The name of the file system that a path lies on."""
    path = Path(os.path.realpath(path))
    if sys.platform == "darwin":
        import psutil  # lazily: only needed where there is no /proc

        mounts = [(each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True)]
    else:
        mounts = _mounts()
    parents = {str(path), *map(str, path.parents)}
    fitting = [(len(point), number, kind) for number, (point, kind) in enumerate(mounts) if point in parents]
    return max(fitting, default=(0, 0, "unknown"))[2]


def is_network(kind: str) -> bool:
    """Whether locks of several hosts, or of none, would meet here."""
    return _NETWORK.match(kind) is not None


def _mounts() -> list[tuple[str, str]]:
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []  # without /proc nothing is known, and nothing is refused
    found = []
    for line in lines:
        fields, _, kind = line.partition(" - ")
        found.append((_unescaped(fields.split(" ")[4]), kind.split(" ")[0]))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)

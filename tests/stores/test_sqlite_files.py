"""Files: what is made is private, what is not fit is refused in one sentence, and what goes away is noticed."""

import os
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redrive.app import connect
from redrive.config import Config
from redrive.errors import ForeignStore, StoreError, StoreReadOnly, StoreUnavailable
from redrive.job import State
from redrive.stores.sqlite import SqliteStore, files
from redrive.testing.factories import added, depth_of, state_of
from tests.stores.children import Child
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
Start = Callable[..., Child]


def a_text_file(path: Path) -> None:
    path.write_text("name,price\nbread,2\n" * 100)


def a_short_text_file(path: Path) -> None:
    path.write_text("x")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def nothing_in_no_folder(path: Path) -> None:
    path.parent.rmdir()


def a_file_in_place_of_the_folder(path: Path) -> None:
    path.touch()
    files.home_of(path).touch()


UNFIT = [
    (a_text_file, ForeignStore, "not a SQLite database"),
    (a_short_text_file, ForeignStore, "not a SQLite database"),
    (a_folder, StoreUnavailable, "is a folder"),
    (a_pipe, ForeignStore, "not a plain file"),
    (nothing_in_no_folder, StoreUnavailable, "does not exist"),
    (a_file_in_place_of_the_folder, StoreReadOnly, "must be a folder"),
]


@pytest.mark.parametrize(("make", "kind", "words"), UNFIT, ids=lambda value: getattr(value, "__name__", ""))
async def test_what_cannot_be_a_store_is_refused_in_one_sentence(
    tmp_path: Path, make: Callable[[Path], None], kind: type[StoreError], words: str
) -> None:
    """It names the path and what to do; the same in a second try."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "store.db"
    make(path)
    for _ in range(2):
        with pytest.raises(kind, match=words) as raised:
            await SqliteStore(path).open()
        assert str(folder) in str(raised.value)
        assert "\n" not in str(raised.value)
        assert ";" in str(raised.value)


def moved(path: Path, to: Path) -> None:
    path.rename(to)


def written(path: Path, text: str) -> None:
    path.write_text(text)


def is_there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can enter, as pytest's own are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def allowed(path: Path, mode: int, folder_mode: int) -> None:
    path.chmod(mode)
    path.parent.chmod(folder_mode)


async def test_what_permissions_forbid_is_said(public: Path, tmp_path: Path, start: Start) -> None:
    """To a user whom they bind: of an unreadable file, a read-only one, and one in a read-only folder."""
    path = public / "store.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    look = ("look_as_nobody", path, tmp_path / "other.db") if os.geteuid() == 0 else ("look", path)
    found = []
    for mode, folder_mode in ((0o000, 0o755), (0o444, 0o755), (0o666, 0o555)):
        allowed(path, mode, folder_mode)
        found.append(start(*look).says("refused"))
    allowed(path, 0o600, 0o755)
    assert [kind for kind, _ in found] == ["StoreUnavailable", "StoreReadOnly", "StoreReadOnly"]
    assert all(str(path) in sentence and "check who owns" in sentence for _, sentence in found)


async def test_a_folder_of_somebody_else_beside_the_file_is_refused(tmp_path: Path) -> None:
    """Whoever owns it could watch and stop us; only root can make one for the test, and elsewhere it is a link."""
    path = tmp_path / "store.db"
    home = files.home_of(path)
    if os.geteuid() == 0:
        home.mkdir()
        os.chown(home, 65534, 65534)
    else:
        home.symlink_to(tmp_path)
    with pytest.raises(StoreReadOnly, match=r"belongs to user|must be a folder"):
        await SqliteStore(path).open()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
async def test_files_are_for_their_owner_only_under_any_umask(path: Path, umask: int) -> None:
    """The file, its log, its shared memory, the folder and all that is in it."""
    before = os.umask(umask)
    try:
        store = SqliteStore(path)
        await store.open()
        await added(store)
        await store.wait("w1", 0)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.rglob("*")}
        await store.close()
    finally:
        os.umask(before)
    assert modes.pop("store.db-redrive") == 0o700
    assert modes.keys() == {"store.db", "store.db-wal", "store.db-shm", "write.lock", "w1.wake"}
    assert {mode & 0o077 for mode in modes.values()} == {0}
    assert modes["store.db"] == 0o600


async def test_a_removed_file_takes_in_nothing(store: SqliteStore, path: Path) -> None:
    """What went into it nobody would ever find; once it is back, work goes on."""
    job = await added(store)
    away = path.with_name("away.db")
    moved(path, away)
    for ask in (added(store), state_of(store, job.id), store.check()):
        with pytest.raises(StoreUnavailable, match="was removed"):
            await ask
    moved(away, path)
    await added(store)
    assert await state_of(store, job.id) == State.READY


async def test_a_replaced_file_is_the_store_from_then_on(store: SqliteStore, path: Path, opened: Open) -> None:
    """Readers and the writer go over to it, and its processes meet where it is."""
    old = await added(store)
    assert await state_of(store, old.id) == State.READY
    for each in (path, path.with_name("store.db-wal"), path.with_name("store.db-shm")):
        each.unlink()
    shutil.rmtree(store.home)
    other = await opened()
    theirs = await added(other)
    ours = await added(store)
    for one in (store, other):
        assert [await state_of(one, job.id) for job in (old, theirs, ours)] == [None, State.READY, State.READY]
    assert (await depth_of(store)).ready == 2


async def test_a_store_is_the_same_by_every_path_to_it(tmp_path: Path) -> None:
    """Links, dots and relative paths: its processes meet in one folder and stand in one line."""
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    plain, linked = SqliteStore(real / "a.db"), SqliteStore(link / ".." / "link" / "a.db")
    assert (linked.url, linked.home) == (plain.url, plain.home)


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
31 22 0:40 / /net rw,relatime shared:9 master:2 - nfs4 server:/export rw
32 31 0:41 / /net/local\\040disk rw - xfs /dev/sdb rw
33 22 0:42 / /home rw - fuse.sshfs user@host: rw
34 22 0:43 / /containers rw - fuse.fuse-overlayfs fuse-overlayfs rw
35 22 0:44 / /share rw - cifs //server/share rw
36 35 0:45 / /share rw - btrfs /dev/sdc rw
"""
PLACES = [
    ("/srv/app", "ext4", False),
    ("/net/jobs", "nfs4", True),
    ("/network", "ext4", False),
    ("/net/local disk/jobs", "xfs", False),
    ("/home/me", "fuse.sshfs", True),
    ("/containers/one", "fuse.fuse-overlayfs", False),
    ("/share/x", "btrfs", False),
]


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with these mounts."""
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    monkeypatch.setattr(files, "MOUNTS", table)
    monkeypatch.setattr(sys, "platform", "linux")
    return table


@pytest.mark.parametrize(("place", "kind", "network"), PLACES)
def test_the_file_system_of_a_path_is_known(mounts: Path, place: str, kind: str, network: bool) -> None:
    """The longest mount point that fits counts, and of two on one place the last."""
    assert files.file_system(Path(place)) == kind
    assert files.is_network(kind) is network


async def test_a_network_file_system_is_refused_unless_forced(mounts: Path, path: Path) -> None:
    """Before anything is made there."""
    written(mounts, f"31 22 0:40 / {path.parent} rw - nfs4 server:/export rw\n")
    with pytest.raises(StoreError, match="nfs4") as raised:
        await SqliteStore(path).open()
    assert "local disk" in str(raised.value)
    assert not is_there(path)
    store = connect(Config(url=f"sqlite:///{path}?force=1"))
    await store.open()
    await added(store)
    await store.close()


async def test_without_a_table_of_mounts_nothing_is_refused(mounts: Path, opened: Open) -> None:
    """Where nothing is known, nothing is claimed."""
    moved(mounts, mounts.with_name("away"))
    assert files.file_system(mounts.parent) == "unknown"
    await added(await opened())


async def test_a_socket_is_no_store(tmp_path: Path) -> None:
    """Nor is anything else that is not a file."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        with pytest.raises(ForeignStore, match="not a plain file"):
            await SqliteStore(path).open()

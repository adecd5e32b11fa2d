"""Wake-ups: hints between processes that never block, never leak, and are never needed."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.wakeups import Bell, Ear
from redrive.testing.factories import added
from tests.processes import open_files
from tests.stores.children import Child
from tests.stores.conftest import Open

pytestmark = pytest.mark.anyio
Start = Callable[..., Child]


def names(home: Path) -> list[str]:
    """What stands in the folder."""
    return sorted(each.name for each in home.iterdir())


def remove_pipes(home: Path) -> None:
    for each in home.glob("*.wake"):
        each.unlink()


def fill(pipe: Path) -> None:
    """Write into a pipe until it takes no more."""
    file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(file, b"." * 4096):
            continue
    os.close(file)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


async def test_a_listener_in_another_process_is_woken_at_once(store: SqliteStore, path: Path, start: Start) -> None:
    """Well before it would have looked by itself."""
    child = start("listen", path, "w1")
    child.says("listening")
    begin = time.monotonic()
    await added(store)
    assert child.says("woken") is True
    assert time.monotonic() - begin < 0.9
    child.tell()


async def test_each_listener_has_a_pipe_of_its_own(home: Path) -> None:
    """Under its name, for the owner only; gone when it stops listening."""
    ears = [Ear(home, name) for name in ("w1", "w2")]
    assert names(home) == ["w1.wake", "w2.wake"]
    for ear in ears:
        mode = ear.path.stat().st_mode
        assert (stat.S_ISFIFO(mode), stat.S_IMODE(mode) & 0o077) == (True, 0)
        ear.close()
    assert names(home) == []


async def test_what_dead_listeners_left_is_removed(home: Path) -> None:
    """A pipe that nobody reads is of a process that was killed."""
    os.mkfifo(home / "dead.wake")
    ear, bell = Ear(home, "w1"), Bell(home)
    bell.ring()
    assert await ear.wait(5)
    assert names(home) == ["w1.wake"]
    ear.close()
    bell.close()


async def test_one_that_dies_is_told_no_more(home: Path) -> None:
    """Its pipe breaks at the next ring, and is removed at the one after it; the others hear every ring."""
    bell, ear, dying = Bell(home), Ear(home, "w1"), Ear(home, "w2")
    bell.ring()
    dying.close(unlink=False)
    for _ in range(2):
        bell.ring()
        assert await ear.wait(5)
    assert not dying.path.exists()
    ear.close()
    bell.close()


async def test_a_full_pipe_is_a_hint_already_given(home: Path) -> None:
    """A listener that never listens holds nobody up, and hears once when it does."""
    ear, bell = Ear(home, "w1"), Bell(home)
    fill(ear.path)
    for _ in range(3):
        bell.ring()
    assert await ear.wait(0)
    assert not await ear.wait(0)
    ear.close()
    bell.close()


async def test_a_listener_that_comes_right_after_another_is_heard_of(home: Path) -> None:
    """Both within one tick of the file system's clock: the folder looks as it did when it was read."""
    bell, first = Bell(home), Ear(home, "w1")
    bell.ring()
    seen = os.stat(home).st_mtime_ns  # noqa: PTH116
    second = Ear(home, "w2")
    os.utime(home, ns=(seen, seen))
    bell.ring()
    assert await second.wait(5)
    for each in (first, second, bell):
        each.close()


async def test_the_folder_is_not_read_again_for_every_ring(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only when it has changed since."""
    bell, ear = Bell(home), Ear(home, "w1")
    os.utime(home, ns=(1, 1))
    bell.ring()

    def read(path: Path, pattern: str) -> None:
        raise AssertionError(f"{path} is read for {pattern}")

    monkeypatch.setattr(Path, "glob", read)
    for _ in range(10):
        bell.ring()
    assert await ear.wait(5)
    ear.close()
    bell.close()


async def test_thousands_of_rings_leak_nothing(home: Path) -> None:
    """While listeners come and go."""
    bell = Bell(home)
    before = open_files()
    for number in range(300):
        ear = Ear(home, f"w{number}")
        bell.ring()
        ear.close(unlink=number % 2 == 0)
        for _ in range(10):
            bell.ring()
    bell.ring()
    assert open_files() <= before + 1
    assert names(home) == []
    bell.close()
    assert open_files() <= before


async def test_a_bell_without_its_folder_is_silent(home: Path) -> None:
    """A hint that cannot be given is no fault of who adds a job."""
    bell = Bell(home / "gone")
    bell.ring()
    bell.close()


async def test_an_enqueue_does_not_depend_on_hints(store: SqliteStore, path: Path) -> None:
    """Somebody removed the folder beside the file: jobs are added, and who listens makes its pipe anew."""
    assert not await store.wait("w1", 0)
    remove_pipes(Path(store.home))
    waiting = asyncio.ensure_future(store.wait("w1", 10))
    await asyncio.sleep(0)
    await added(store)
    assert await waiting


async def test_a_listener_hears_from_any_loop(opened: Open) -> None:
    """A worker rests on its own loop, and the job comes from another thread's."""
    store = await opened()
    assert not await store.wait("w1", 0)
    waiting = asyncio.ensure_future(store.wait("w1", 10))
    await asyncio.to_thread(lambda: asyncio.run(added(store)))
    assert await waiting


BROKEN_PIPE = """
import asyncio, os, signal, sys
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.wakeups import Ear
from redrive.testing.factories import added
from pathlib import Path
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    ear = Ear(Path(store.home), "w1")
    await added(store)
    ear.close(unlink=False)
    for _ in range(3):
        await added(store)
    await store.close()
asyncio.run(main())
"""


def test_a_broken_pipe_ends_no_process(path: Path) -> None:
    """Not even one that has asked to be ended by them, as many scripts do."""
    ran = subprocess.run([sys.executable, "-c", BROKEN_PIPE, path], timeout=30, check=False)
    assert ran.returncode == 0

"""What happens to the locks of a store: `forking.py VERB FILE` tries it, and tells what it found as JSON."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from redrive.errors import StoreUnavailable
from redrive.stores.sqlite import SqliteStore, checking
from redrive.testing.factories import added, depth_of

FORKS = 8


def files(path: Path) -> list[Path]:
    """The files of SQLite that carry locks."""
    return [path, path.with_name(f"{path.name}-shm")]


def locks(path: Path, pid: int) -> list[str]:
    """The locks that a process holds on them, as the system tells: which file, what kind, which bytes."""
    if not Path("/proc/locks").exists():
        return []
    names = {file.stat().st_ino: file.name for file in files(path) if file.exists()}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    found = [
        f"{names[int(line[5].split(':')[2])]} {line[3]} {line[6]}-{line[7]}"
        for line in lines
        if line[1] == "POSIX" and line[4] == str(pid) and int(line[5].split(":")[2]) in names
    ]
    return sorted(found)


def descriptors(path: Path) -> list[str]:
    """What this process has open of the store."""
    names = {(file.stat().st_dev, file.stat().st_ino): file.name for file in path.parent.rglob("*") if file.is_file()}
    names |= {(file.stat().st_dev, file.stat().st_ino): file.name for file in path.parent.rglob("*.wake")}
    found = []
    for number in range(256):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in names:
            found.append(names[status.st_dev, status.st_ino])
    return found


def in_child(body: Callable[[], Any]) -> Any:
    """What a forked child answers."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer: Any = None
        try:
            answer = body()
        except BaseException as error:  # noqa: BLE001 - it must not run on as a second parent
            answer = repr(error)
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.loads(pipe.read() or "null")
    os.waitpid(pid, 0)
    return answer


class Loop:
    """A loop in a thread, as in a server that forks its workers from the main thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


def integrity(loop: Loop, store: SqliteStore) -> Any:
    return loop.run(store.read(lambda snapshot: snapshot.db.execute("PRAGMA integrity_check").get))


def both(path: Path) -> Any:
    loop, store = Loop(), SqliteStore(path)
    loop.run(store.open())
    loop.run(added(store))

    def child() -> str:
        async def work() -> str:
            said = "opened"
            try:
                await added(store)
            except StoreUnavailable:
                said = "store is not open, then opened"
            await store.open()
            for _ in range(20):
                await added(store)
            await store.close()
            return said

        return asyncio.run(work())

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, child().encode())
        os._exit(0)
    for _ in range(20):
        loop.run(added(store))
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return {"child": said, "ready": loop.run(depth_of(store)).ready, "integrity": integrity(loop, store)}


def opened_and_used(path: Path) -> tuple[Loop, SqliteStore]:
    loop, store = Loop(), SqliteStore(path)
    loop.run(store.open())
    loop.run(added(store))
    loop.run(depth_of(store))
    loop.run(store.wait("w1", 0))
    loop.run(added(store))
    return loop, store


def open_descriptors(path: Path) -> Any:
    opened_and_used(path)
    return {"parent": len(descriptors(path)), "child": in_child(lambda: descriptors(path))}


def open_locks(path: Path) -> Any:
    loop, store = opened_and_used(path)
    before = locks(path, os.getpid())

    def child() -> list[str]:
        async def work() -> list[str]:
            await store.open()
            await added(store)
            await depth_of(store)
            return locks(path, os.getpid())

        return asyncio.run(work())

    theirs = in_child(child)
    loop.run(added(store))
    loop.run(depth_of(store))
    return {"before": before, "child": theirs, "after": locks(path, os.getpid())}


def busy(path: Path) -> Any:
    loop, store = Loop(), SqliteStore(path)
    loop.run(store.open())
    done = threading.Event()
    counts = [0, 0]

    def add(place: int) -> None:
        while not done.is_set():
            loop.run(added(store))
            loop.run(depth_of(store))
            counts[place] += 1

    threads = [threading.Thread(target=add, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()

    def child() -> int:
        async def work() -> None:
            await store.open()
            await added(store)

        asyncio.run(work())
        return 0

    children = [in_child(child) for _ in range(FORKS)]
    done.set()
    for thread in threads:
        thread.join()
    return {
        "forks": FORKS,
        "children": children,
        "added": sum(counts),
        "ready": loop.run(depth_of(store)).ready,
        "integrity": integrity(loop, store),
    }


def closing(path: Path) -> Any:
    loop, store = Loop(), SqliteStore(path)
    done, rounds = threading.Event(), 0

    async def once() -> None:
        await store.open()
        await added(store)
        await depth_of(store)
        await store.close()

    def go_on() -> None:
        nonlocal rounds
        while not done.is_set():
            loop.run(once())
            rounds += 1

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    inherited = [in_child(lambda: descriptors(path)) for _ in range(10 * FORKS)]
    done.set()
    thread.join(20)
    loop.run(store.open())
    return {
        "inherited": [name for names in inherited for name in names],
        "lost": loop.run(depth_of(store)).ready - rounds,
    }


def naive(path: Path) -> Any:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)").fetchall()

    def child() -> list[str]:
        mine = apsw.Connection(str(path))
        mine.execute("INSERT INTO t VALUES (2)").fetchall()
        return locks(path, os.getpid())

    return {"parent": locks(path, os.getpid()), "child": in_child(child)}


RIVAL = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
try:
    db.execute("INSERT INTO t VALUES ('rival')").fetchall()
    print("committed")
except apsw.BusyError:
    print("locked out")
"""


def two_libraries(path: Path) -> Any:
    answers = {}
    for name, beside in (("sqlite3 beside", True), ("apsw alone", False)):
        file = path.with_name(name.replace(" ", "-"))
        db = apsw.Connection(str(file))
        db.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").fetchall()
        db.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES ('ours')").fetchall()
        if beside:
            other = sqlite3.connect(file)
            other.execute("SELECT count(*) FROM t").fetchall()
            other.close()
        check = checking._locks(file)
        rival = subprocess.run(
            [sys.executable, "-c", RIVAL, file], capture_output=True, text=True, timeout=20, check=True
        )
        db.execute("COMMIT")
        row = db.execute("SELECT count(*) FROM t WHERE a = 'rival'").get
        db.close()
        answers[name] = {"rival": rival.stdout.strip(), "its row": row, "locks": check.found.partition(",")[0]}
    return answers


def second_store(path: Path) -> Any:
    loop, _ = opened_and_used(path)
    before = locks(path, os.getpid())
    second = SqliteStore(path)
    loop.run(second.open())
    second.pending()
    loop.run(second.check())
    loop.run(second.close())
    return {"before": before, "after": locks(path, os.getpid())}


VERBS = {
    "both": both,
    "descriptors": open_descriptors,
    "locks": open_locks,
    "busy": busy,
    "closing": closing,
    "naive": naive,
    "two_libraries": two_libraries,
    "second_store": second_store,
}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](Path(sys.argv[2]))))

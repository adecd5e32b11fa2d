"""Bulk operations whose drivers are killed at random chunks: each letter is changed once, and the counts say so.

`CRASH_LETTERS=…` sets how many letters there are, `CRASH_SEED=…` repeats the choices of an earlier run.
"""

import os
import random
from collections import Counter
from pathlib import Path

import apsw

from tests.crash.program import KILLED, Program
from tests.crash.scene import Scene

LETTERS = int(os.environ.get("CRASH_LETTERS", "300"))
DRIVERS = 2
FEWEST = 3
"""On however busy a machine, fewer kills show nothing."""


def test_an_operation_survives_whoever_carries_it_on(scene: Scene) -> None:
    """Two carry it on at once, each until it dies at one of its chunks; each letter is edited exactly once."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    chance = random.Random(seed)
    ids = scene.added(*["hopeless"] * LETTERS)
    scene.drain()
    scene.killed_at("operation.chunk", "operator", "--open")  # alone, so that there is one operation
    for _ in range(LETTERS):
        if not is_running(scene.store):
            break
        for program in [doomed(scene, chance) for _ in range(DRIVERS)]:
            scene.kills += program.ended() == KILLED
    print(f"{scene.kills} kills")
    assert scene.kills > FEWEST
    assert faults(scene, ids) == []


def doomed(scene: Scene, chance: random.Random) -> Program:
    """One that is killed right before or after one of its chunks, unless it comes to the end before that."""
    side = chance.choice(["", ".before"])
    return scene.start("operator", failpoint=f"operation.chunk{side}:{chance.randint(1, 12)}")


def test_an_edit_behind_the_back_of_its_operation_is_found(scene: Scene) -> None:
    """The control: a change in two moves, which is what a crash between them would double."""
    ids = scene.added(*["hopeless"] * 9)
    scene.drain()
    scene.start("operator", "--open", "--plant").finished()
    assert faults(scene, ids) != []


def is_running(store: Path) -> bool:
    """Whether the operation has not ended, read from the file."""
    return ("running",) in rows(store, "SELECT state FROM operation")


def rows(store: Path, sql: str) -> list[tuple[object, ...]]:
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5_000)
        return list(db.execute(sql))
    finally:
        db.close()


def faults(scene: Scene, ids: list[str]) -> list[str]:
    """Where payloads, journal, counters and the operation do not say that each letter was changed once."""
    books = scene.in_order().books
    payloads = Counter(rows(scene.store, "SELECT CAST(payload AS TEXT) FROM job"))
    found = {
        "payloads": payloads == {('{"before":{}}',): len(ids)},
        "journal": books.told("job.edited") == Counter((id, 1) for id in ids),
        "counters": books.counters["edited"] == len(ids),
        "operation": rows(scene.store, "SELECT state, done, rest FROM operation") == [("finished", len(ids), "{}")],
        "parts": rows(scene.store, "SELECT sum(n) FROM operation_part") == [(len(ids),)],
    }
    return [name for name, right in found.items() if not right]

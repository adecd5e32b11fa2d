"""Redrives whose drivers are killed at random: each letter gets one new epoch, and its end is told once.

`CRASH_LETTERS=…`, `CRASH_DRIVERS=…` and `CRASH_KILLS=…` set how many there are of each, `CRASH_SEED=…` repeats the
choices of an earlier run: `CRASH_LETTERS=100000 CRASH_DRIVERS=4 CRASH_KILLS=20` takes some minutes.
"""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.crash.program import Program
from tests.crash.scene import Scene
from tests.waiting import until

LETTERS = int(os.environ.get("CRASH_LETTERS", "800"))
DRIVERS = int(os.environ.get("CRASH_DRIVERS", "2"))
KILLS = int(os.environ.get("CRASH_KILLS", "6"))
CHUNK = max(7, LETTERS // 400)
RATE = max(200, LETTERS // 60)
PATIENCE = 60.0 + LETTERS / 200


class Drivers:
    """Processes that drive the same redrive, die again and again, and are started again."""

    def __init__(self, scene: Scene, chance: random.Random, *words: str) -> None:
        self._scene = scene
        self._chance = chance
        self._words = words
        self._running = [self._start() for _ in range(DRIVERS)]

    def die_until_over(self) -> None:
        """Kill one at so many points of the way, then let those that run come to the end."""
        for released in sorted(self._chance.randrange(LETTERS * 9 // 10) for _ in range(KILLS)):
            until(lambda: under_way(self._scene.store) >= released, PATIENCE)  # noqa: B023 - it is asked at once
            place = self._chance.randrange(DRIVERS)
            self._scene.kills += 1
            self._running[place].kill()
            self._running[place] = self._start()
        for program in self._running:
            program.finished(PATIENCE)

    def _start(self) -> Program:
        return self._scene.start("driver", *self._words, "--patience", str(PATIENCE))


def under_way(store: Path) -> int:
    """How many letters of redrives have been released."""
    return int(asked(store, "SELECT coalesce(sum(released), 0) FROM redrive_cause")[0][0])


def items(store: Path) -> Counter[str]:
    """How many letters of redrives are in each state."""
    return Counter(dict(asked(store, "SELECT state, count(*) FROM redrive_item GROUP BY state")))


def asked(store: Path, statement: str) -> list[Any]:
    """What the file says, read beside whoever writes to it."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return db.execute(statement).fetchall()
    finally:
        db.close()


@pytest.mark.parametrize("changes", [(), ("--set", "payload.n=1")], ids=["as it is", "changed"])
def test_a_redrive_survives_whoever_drives_it(scene: Scene, changes: tuple[str, ...]) -> None:
    """Several drive it at once, beside a worker that does too; each of its letters is brought back exactly once.

    Where it is given another payload on the way, it was edited once.
    """
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    scene.patience = PATIENCE
    ids = scene.added(*["mended"] * LETTERS)
    scene.drain()
    words = ("--open", "--chunk", str(CHUNK), "--rate", str(RATE), *changes)
    scene.start("driver", *words, failpoint="redrive.freezing:2").died()
    scene.kills += 1
    worker = scene.worker()
    Drivers(scene, random.Random(seed), *words).die_until_over()
    worker.stop()
    print(f"{scene.kills} kills")
    assert scene.kills == KILLS + 1
    assert faults(scene, ids, edits=1 if changes else 0) == []


def test_a_letter_brought_back_behind_the_back_of_its_redrive_is_found(scene: Scene) -> None:
    """The control: a release in two moves, which is what a crash between them would lose."""
    ids = scene.added(*["mended"] * 9)
    scene.drain()
    scene.start("driver", "--open", "--work", "--plant").finished()
    scene.drain()
    assert faults(scene, ids) != []


def faults(scene: Scene, ids: list[str], edits: int = 0) -> list[str]:
    """Where epochs, journal, counters and items do not say that each letter was brought back once, and is done."""
    books = scene.in_order().books
    found = {
        "epochs": {row.id: row.epoch for row in books.done} == dict.fromkeys(ids, 2),
        "journal": books.told("job.redriven") == Counter((id, 2) for id in ids),
        "counters": books.counters["redriven"] == len(ids),
        "edits": books.told("job.edited") == Counter(dict.fromkeys(((id, 1) for id in ids), edits)),
        "ledger": scene.adds_up(),
        "items": items(scene.store) == {"succeeded": len(ids)},
    }
    return [name for name, right in found.items() if not right]

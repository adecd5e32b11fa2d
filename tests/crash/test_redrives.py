"""Redrives whose drivers are killed at random: each letter gets one new epoch, and its end is told once.

`CRASH_LETTERS=…` sets how many letters there are, `CRASH_SEED=…` repeats the choices of an earlier run.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import apsw

from tests.crash.program import Program
from tests.crash.scene import Scene
from tests.crash.tape import What

LETTERS = int(os.environ.get("CRASH_LETTERS", "800"))
RATE = 200
DRIVERS = 2
FEWEST = 3
"""On however busy a machine, fewer kills show nothing."""


class Drivers:
    """Processes that drive the same redrive, die again and again, and are started again."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self._scene = scene
        self._chance = chance
        self._running = [self._start() for _ in range(DRIVERS)]

    def die_until_over(self) -> None:
        """Kill one after the other while letters are left, then let those that run come to the end."""
        while self._left():
            time.sleep(self._chance.uniform(0.05, 0.4))  # sleep: who is killed is at work, or on the way to it
            place = self._chance.randrange(DRIVERS)
            self._scene.kills += 1
            self._running[place].kill()
            self._running[place] = self._start()
        for program in self._running:
            program.finished()

    def _left(self) -> bool:
        done = len({record.job for record in self._scene.tape().of(What.EFFECT)})
        return done < LETTERS * 3 // 4

    def _start(self) -> Program:
        return self._scene.start("driver", "--open", "--rate", str(RATE))


def items(store: Path) -> Counter[str]:
    """How many letters of redrives are in each state, read from the file."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return Counter(str(state) for (state,) in db.execute("SELECT state FROM redrive_item"))
    finally:
        db.close()


def test_a_redrive_survives_whoever_drives_it(scene: Scene) -> None:
    """Two drive it at once, beside a worker that does too; each of its letters is brought back exactly once."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    ids = scene.added(*["mended"] * LETTERS)
    scene.drain()
    scene.start("driver", "--open", "--rate", str(RATE), failpoint="redrive.freezing:2").died()
    scene.kills += 1
    worker = scene.worker()
    Drivers(scene, random.Random(seed)).die_until_over()
    worker.stop()
    print(f"{scene.kills} kills")
    assert scene.kills > FEWEST
    assert faults(scene, ids) == []


def test_a_letter_brought_back_behind_the_back_of_its_redrive_is_found(scene: Scene) -> None:
    """The control: a release in two moves, which is what a crash between them would lose."""
    ids = scene.added(*["mended"] * 9)
    scene.drain()
    scene.start("driver", "--open", "--work", "--plant").finished()
    scene.drain()
    assert faults(scene, ids) != []


def faults(scene: Scene, ids: list[str]) -> list[str]:
    """Where epochs, journal, counters and items do not say that each letter was brought back once, and is done."""
    books = scene.in_order().books
    found = {
        "epochs": {row.id: row.epoch for row in books.done} == dict.fromkeys(ids, 2),
        "journal": books.told("job.redriven") == Counter((id, 2) for id in ids),
        "counters": books.counters["redriven"] == len(ids),
        "items": items(scene.store) == {"succeeded": len(ids)},
    }
    return [name for name, right in found.items() if not right]

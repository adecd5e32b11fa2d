"""Processes that are killed at random lose nothing and double nothing.

`CRASH_SEED=…` repeats the choices of an earlier storm (not the timing of the machine), `CRASH_KILLS=…` sets how many
kills there are, `CRASH_SECONDS=…` how long it may last: `CRASH_KILLS=10000 CRASH_SECONDS=36000` is a night's work.
"""

import os
import random
import time

from tests.crash.program import Program
from tests.crash.scene import Scene
from tests.crash.tape import SIZE

KILLS = int(os.environ.get("CRASH_KILLS", "25"))
SECONDS = float(os.environ.get("CRASH_SECONDS", "15"))
SHORT = {"worker__lease": "5s", "worker__heartbeat": "1s"}
SMALL = {"worker__concurrency": "2", "worker__threads": "1", **SHORT}
LONGEST = 4.0
FEWEST = 5
"""On however busy a machine, fewer kills are no storm."""


class Storm:
    """Two workers and a client that die again and again, and are started again."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self._scene = scene
        self._chance = chance
        self._until = time.monotonic() + SECONDS
        self._running = [self._start(place) for place in range(3)]

    def rage(self) -> None:
        """Kill one after the other, then all that are left."""
        while self._scene.kills < KILLS and (time.monotonic() < self._until or self._scene.kills < FEWEST):
            self._let_work(records=self._chance.randrange(40))
            place = self._victim()
            self._kill(self._running[place])
            self._running[place] = self._start(place)
        for program in self._running:
            self._kill(program)

    def _victim(self) -> int:
        """Mostly one that has got to work; sometimes whoever it hits, perhaps on its way up."""
        pids = {record.pid for record in self._scene.tape().records}
        busy = [place for place, program in enumerate(self._running) if program.pid in pids]
        return self._chance.choice(busy) if busy and self._chance.random() < 0.8 else self._chance.randrange(3)

    def _start(self, place: int) -> Program:
        if place == 0:
            return self._scene.start("client", "--stream", str(self._chance.random()))
        return self._scene.start("worker", **SMALL)

    def _kill(self, program: Program) -> None:
        self._scene.kills += 1
        program.kill()

    def _let_work(self, records: int) -> None:
        """Until so much more is on the tape, or a while is over: who is killed is at work, or on the way to it."""
        tape = self._scene.place / "tape"
        tape.touch()
        wanted, late = tape.stat().st_size + records * SIZE, time.monotonic() + LONGEST
        while tape.stat().st_size < wanted and time.monotonic() < late:
            time.sleep(0.002)  # sleep: between two looks at the tape


def test_a_storm_of_kills_loses_nothing_and_doubles_nothing(scene: Scene) -> None:
    """Whatever was accepted ends once; what was never answered is there once or not at all."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    Storm(scene, random.Random(seed)).rage()
    scene.start("client", "--ask-again").finished()
    scene.drain(**SHORT)
    ledger = scene.in_order()
    print(f"{scene.kills} kills, {len(ledger.books.done)} done, {len(ledger.books.jobs)} dead")
    assert scene.adds_up()
    assert len(ledger.books.done) > FEWEST

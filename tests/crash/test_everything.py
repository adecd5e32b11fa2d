"""Everything at once, killed again and again: what people do to letters, what workers do, and nothing of it lost.

`CRASH_SEED=…` repeats the choices of an earlier run (not the timing of the machine), `CRASH_KILLS=…` sets how many
kills there are, `CRASH_SECONDS=…` how long it may last: `CRASH_KILLS=10000 CRASH_SECONDS=36000` is a night's work.
"""

import json
import os
import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from tests.crash.ledger import Limits
from tests.crash.program import KILLED, Program
from tests.crash.scene import Scene

KILLS = int(os.environ.get("CRASH_KILLS", "15"))
SECONDS = float(os.environ.get("CRASH_SECONDS", "8"))
LONGEST = 1.5
FEWEST = 4
"""On however busy a machine, fewer kills are no storm."""

WORKERS = 2
ACTORS = 3
SHORT = {"worker__lease": "5s", "worker__heartbeat": "1s", "worker__concurrency": "3", "worker__threads": "1"}
RULES = """\
[redrive]
max_epochs = 4

[retention]
notice = "2s"

[retention.queues.brief]
open = "3s"

[[rules]]
name = "calm"
when = "error = ConnectionError"
action = "retry"
max_epochs = 3
rate = "40/s"

[[rules]]
name = "tidy"
when = "error = KeyError and queue = other"
action = "discard"
after = "1s"

[[rules]]
name = "look"
when = "error = Bury"
action = "review"

[[rules]]
name = "tell"
when = "error = ValueError"
action = "notify"
"""


class Storm:
    """Workers, and people who do everything, that die again and again and are started again."""

    def __init__(self, scene: Scene, chance: random.Random, config: Path) -> None:
        self._scene = scene
        self._chance = chance
        self._config = str(config)
        self._until = time.monotonic() + SECONDS
        self._running = [self._start(place) for place in range(WORKERS + ACTORS)]

    def rage(self) -> None:
        """Kill one after the other, then all that are left."""
        while self._scene.kills < KILLS and (time.monotonic() < self._until or self._scene.kills < FEWEST):
            time.sleep(self._chance.random() * LONGEST)  # sleep: until the victim is somewhere
            place = self._chance.randrange(len(self._running))
            self._kill(self._running[place])
            self._running[place] = self._start(place)
        for program in self._running:
            self._kill(program)

    def _start(self, place: int) -> Program:
        if place < WORKERS:
            release = self._chance.choice(["0.5", "1.2"])
            return self._scene.start("chaos", "worker", config=self._config, release=release, **SHORT)
        seed = str(self._chance.random())
        return self._scene.start("chaos", "actor", seed, config=self._config)

    def _kill(self, program: Program) -> None:
        """It must not have ended by itself: that was a fault that nobody has expected."""
        self._scene.kills += 1
        program.kill()
        assert program.ended() == KILLED, program.said()


def rows(store: Path, sql: str) -> list[Any]:
    """What the file says, with nobody at work."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def stormed(scene: Scene, folder: Path, *words: str) -> list[str]:
    """What does not fit after a storm and its end."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    config, calm = folder / "redrive.toml", folder / "calm.toml"
    config.write_text(RULES)
    calm.write_text("")
    Storm(scene, random.Random(seed), config).rage()
    scene.start("client", "--ask-again").finished()
    scene.start("chaos", "end", *words, config=str(calm), **SHORT).finished(90)
    ledger = scene.in_order(limits={"moody": Limits(attempts=2), "email.send": Limits(attempts=2)})
    books = ledger.books
    happened = Counter(line.event for line in books.journal)
    print(f"{scene.kills} kills, {len(books.done)} done, {len(books.jobs)} dead or discarded, {dict(happened)}")
    print(rows(scene.store, "SELECT verb, state, count(*), sum(done) FROM operation GROUP BY verb, state"))
    print(rows(scene.store, "SELECT state, count(*), sum(total) FROM redrive GROUP BY state"))
    found = [name for name, sql in NONE.items() if rows(scene.store, sql)]
    return [*found, *edits(scene.store), *([] if scene.adds_up() else ["prove"])]


NONE = {
    "an operation runs": "SELECT id FROM operation WHERE state = 'running'",
    "a redrive is open": "SELECT id FROM redrive WHERE state NOT IN ('finished', 'cancelled')",
    "a letter is not accounted for": """\
SELECT i.id FROM redrive_item AS i JOIN redrive AS r ON r.id = i.redrive
WHERE i.state = 'released' OR (i.state = 'pending' AND r.state <> 'cancelled'
  AND NOT EXISTS (SELECT 1 FROM redrive_cause AS c
    WHERE c.redrive = r.id AND c.cause = i.cause AND c.stopped IS NOT NULL))""",
    "a release gave no epoch, or two": """\
SELECT i.id, i.epoch FROM redrive_item AS i WHERE i.state NOT IN ('pending', 'skipped') AND 1 <> (
  SELECT count(*) FROM journal AS j WHERE j.event = 'job.redriven' AND j.job = i.id AND j.epoch = i.epoch)""",
    "two redrives gave one epoch": """\
SELECT id, epoch FROM redrive_item WHERE state NOT IN ('pending', 'skipped') GROUP BY id, epoch HAVING count(*) > 1""",
    "review is counted wrongly": """\
SELECT queue, task, priority, reason, sum(n) FROM (
  SELECT queue, task, priority, reason, review AS n FROM letter_total
  UNION ALL SELECT queue, task, priority, reason, -1 FROM letter WHERE state = 'open' AND review IS NOT NULL)
GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0""",
    "letters are counted wrongly": """\
SELECT queue, task, priority, reason, sum(n) FROM (
  SELECT queue, task, priority, reason, n FROM letter_total
  UNION ALL SELECT queue, task, priority, reason, -1 FROM letter WHERE state = 'open')
GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0""",
    "what a group saw is not what its letters say": """\
SELECT g.fingerprint FROM letter_group AS g JOIN letter AS l USING (fingerprint)
WHERE l.failed_at > g.last_seen OR l.failed_at < g.first_seen""",
    "a letter is in another queue than its job": """\
SELECT l.id FROM letter AS l JOIN job AS j ON j.id = l.id
WHERE l.state = 'open'
  AND (l.queue, l.priority, l.epochs, l.attempts) IS NOT (j.queue, j.priority, j.epoch, j.attempts)""",
    "an operation counts otherwise than its parts": """\
SELECT o.id FROM operation AS o WHERE o.verb IN ('edit', 'regroup')
  AND o.done <> (SELECT coalesce(sum(n), 0) FROM operation_part AS p WHERE p.operation = o.id)""",
}
"""What must not be there once all has ended."""

_EDITED = "SELECT lower(hex(job)), text FROM journal WHERE event = 'job.edited'"
_PAYLOADS = "SELECT lower(hex(id)), CAST(payload AS TEXT) FROM job WHERE state IN ('dead', 'discarded')"


def edits(store: Path) -> list[str]:
    """What journal, operations and payloads do not say alike of edits."""
    told = Counter((job, text.partition(": ")[2]) for job, text in rows(store, _EDITED))
    reasons = Counter(reason for _, reason in told.elements())
    done = rows(store, "SELECT reason, sum(done) FROM operation WHERE verb IN ('edit', 'undo') GROUP BY reason")
    found = {
        "an operation has edited a letter twice": all(
            n == 1 for (_, reason), n in told.items() if re.fullmatch(r"[0-9a-f-]{36}|redrive .*", reason)
        ),
        "an operation says another number of edits than the journal": all(reasons[name] == n for name, n in done),
        "a payload has edits twice, or such as nobody told of": all(
            len(tags) == len(set(tags)) and all((job, tag) in told or tag in redriven(store) for tag in tags)
            for job, tags in ((job, json.loads(payload)["edits"]) for job, payload in rows(store, _PAYLOADS))
        ),
    }
    return [name for name, right in found.items() if not right]


def redriven(store: Path) -> set[str]:
    """The reasons of redrives, which some of them write into payloads."""
    return {reason for (reason,) in rows(store, "SELECT reason FROM redrive")}


def test_everything_at_once_loses_nothing_and_doubles_nothing(scene: Scene, tmp_path: Path) -> None:
    """Whoever is killed at whatever, letters, redrives, operations, rules, retention and seals say one thing."""
    assert stormed(scene, tmp_path) == []


def test_an_edit_behind_the_back_of_its_operation_is_found_in_the_storm(scene: Scene, tmp_path: Path) -> None:
    """The control: a change in two moves."""
    assert stormed(scene, tmp_path, "--plant") != []

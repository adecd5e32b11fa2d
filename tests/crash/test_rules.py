"""A worker that applies a rule is killed at any point of it: each letter is brought back once, in one redrive."""

from collections import Counter
from pathlib import Path

import apsw
import pytest

from tests.crash.scene import Scene
from tests.crash.tape import What
from tests.waiting import until

RULE = """\
[[rules]]
name = "calm"
when = "task = mended"
action = "retry"
ramp = "2,4"
"""
LETTERS = 9
POINTS = ("redrive.opened", "redrive.freezing", "redrive.chunk:2")


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A project file with the rule."""
    path = tmp_path_factory.mktemp("rules") / "redrive.toml"
    path.write_text(RULE)
    return str(path)


def redrives(store: Path) -> list[tuple[str, str]]:
    """Who opened redrives, and how they stand."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [(str(actor), str(state)) for actor, state in db.execute("SELECT actor, state FROM redrive ORDER BY id")]
    finally:
        db.close()


@pytest.mark.parametrize("side", ["", ".before"])
@pytest.mark.parametrize("point", POINTS)
def test_a_rule_goes_on_where_its_worker_was_killed(scene: Scene, config: str, point: str, side: str) -> None:
    """Another worker takes the duty over, and ends the redrive that is there or opens the one that is not."""
    name, _, count = point.partition(":")
    ids = scene.added(*["mended"] * LETTERS)
    scene.drain()
    scene.start("worker", failpoint=f"{name}{side}" + (f":{count}" if count else ""), config=config).died()
    scene.kills += 1
    worker = scene.worker(config=config)
    until(lambda: len({record.job for record in scene.tape().of(What.EFFECT)}) == LETTERS, 60)
    until(lambda: redrives(scene.store) == [("rule:calm", "finished")], 60)
    worker.stop()
    books = scene.in_order().books
    assert {row.id: row.epoch for row in books.done} == dict.fromkeys(ids, 2)
    assert books.told("job.redriven") == Counter((id, 2) for id in ids)

"""The stage of the crash tests notices what it is there to notice."""

import subprocess
import sys

import pytest

from redrive.job import new_id
from tests.crash.scene import Scene
from tests.crash.tape import What
from tests.waiting import until

SLEEPER = "import time\ntime.sleep(60)"


def test_a_program_that_does_not_die_at_its_point_is_noticed(scene: Scene) -> None:
    """A failpoint that nothing reaches would be a test that cannot fail."""
    with pytest.raises(AssertionError, match="it was to be killed at its failpoint"):
        scene.killed_at("no.such.point", "client", f"steady={new_id()}")


def test_a_program_that_fails_is_noticed_with_what_it_printed(scene: Scene) -> None:
    """Its traceback is told."""
    with pytest.raises(AssertionError, match="badly formed hexadecimal UUID string"):
        scene.start("client", "steady=nonsense").finished()


def test_a_file_that_is_left_is_noticed(scene: Scene) -> None:
    """Whatever a store at rest does not need."""
    scene.drain("--add", f"steady={new_id()}")
    assert scene.leftovers() == []
    (scene.place / "store.db-redrive" / "w1.lock").touch()
    (scene.place / "core.4711").touch()
    assert scene.leftovers() == ["core.4711", "store.db-redrive/w1.lock"]
    (scene.place / "core.4711").unlink()


def test_a_process_that_is_left_is_noticed(scene: Scene) -> None:
    """It carries the mark of its scene, whoever has started it."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], env=scene.environment()) as left:
        until(lambda: [line for line in scene.alive() if line.startswith(f"{left.pid} ")])
        left.kill()
    assert scene.alive() == []


def test_a_client_that_is_refused_says_so(scene: Scene) -> None:
    """What was refused is told as refused, is nowhere, and never runs."""
    scene.drain("--limit", "1")
    kept, refused = scene.added("steady", "steady")
    assert [record.job for record in scene.told(What.REFUSED)] == [refused]
    scene.drain()
    ledger = scene.in_order()
    assert [row.id for row in ledger.books.done] == [kept]

"""A dead worker's jobs are taken over at once; the guilty job is found, and its neighbours lose nothing."""

import os
import signal
import time
from pathlib import Path

from redrive.clock import SECOND
from redrive.presence import Presence, sweep
from tests.crash.scene import Scene
from tests.crash.tape import What
from tests.waiting import until

NOTICED = 5 * SECOND
"""The promise is two seconds; these machines are busy, and a lease lasts thirty."""


def test_a_dead_worker_is_noticed_at_once(scene: Scene) -> None:
    """A living worker on the same host takes over long before the lease ends."""
    first = scene.worker()
    [id] = scene.added("held")
    scene.sees(What.STARTED, id)
    second = scene.worker()
    killed_at = time.time_ns() // 1_000
    scene.kill(first.pid)
    scene.sees(What.STARTED, id, but=first.pid, seconds=20)
    scene.sees(What.SETTLED, id)
    second.stop()
    ledger = scene.in_order()
    [orphaned] = [line for line in ledger.books.journal if line.event == "job.orphaned"]
    assert 0 <= orphaned.at - killed_at < NOTICED
    assert [row.attempts for row in ledger.books.done] == [1]


def test_the_guilty_job_is_found_and_its_neighbours_lose_nothing(scene: Scene) -> None:
    """One of three jobs kills their process: alone it does so again, is buried for it, and the others are done."""
    first = scene.worker()
    *innocent, guilty = scene.added("held", "held", "guilty")
    assert first.ended() == -signal.SIGSEGV
    scene.kills += 4  # this one, and three children
    scene.drain()
    ledger = scene.in_order()
    assert {row.id for row in ledger.books.done} == set(innocent)
    assert {row.attempts for row in ledger.books.done} == {1}
    [dead] = ledger.books.jobs
    assert (dead.id, dead.state, dead.crashes, dead.attempts) == (guilty, "dead", 3, 0)
    assert {failure.job for failure in ledger.books.failures} == {guilty}
    assert {failure.reason for failure in ledger.books.failures} == {"crashed"}
    assert all("SIGSEGV" in failure.cause for failure in ledger.books.failures)


def test_an_isolated_job_that_kills_its_child_is_buried_without_a_core(scene: Scene) -> None:
    """Its worker lives on; the cause of death is kept, and no core file is written although the system would."""
    worker = scene.start("worker", "--cores")
    id, other = scene.added("null", "apart")
    until(lambda: [row.state for row in scene.ledger().books.jobs if row.id == id] == ["dead"], seconds=30)
    scene.sees(What.SETTLED, other)
    worker.stop()
    scene.kills += 3
    ledger = scene.in_order()
    assert [failure.reason for failure in ledger.books.failures] == ["crashed"] * 3
    assert all("SIGSEGV" in failure.cause for failure in ledger.books.failures)
    assert [row.id for row in ledger.books.done] == [other]


def test_kills_from_outside_convict_nobody(scene: Scene) -> None:
    """Whoever runs a job is killed four times, its worker first and then its child processes: it is done in the end."""
    first = scene.worker()
    [id] = scene.added("slow")
    scene.sees(What.STARTED, id)
    second = scene.worker()
    for starts in (2, 3, 4, 5):
        scene.kill(scene.told(What.STARTED, id)[-1].pid)
        started_again(scene, id, starts)
    scene.open_gate()
    scene.sees(What.SETTLED, id)
    second.stop()
    ledger = scene.in_order()
    assert len({first.pid, second.pid, *(record.pid for record in scene.told(What.STARTED, id))}) == 6
    assert [row.id for row in ledger.books.done] == [id]
    assert {failure.reason for failure in ledger.books.failures} == {"lost"}
    assert ledger.books.letters == ()


def test_what_a_worker_left_that_nobody_knows_is_swept_away(scene: Scene) -> None:
    """It died before the store knew it, or so long ago that the store has forgotten it."""
    scene.drain()
    home = scene.store.with_name("store.db-redrive")
    (home / "ghost.lock").touch()
    os.mkfifo(home / "ghost.wake")
    os.utime(home / "ghost.lock", (0, 0))
    scene.drain()
    scene.in_order()


def test_only_what_is_certainly_nobodys_is_swept_away(tmp_path: Path) -> None:
    """A lock that is held, one that is young, and one of a worker that the store knows stay."""
    living = Presence(tmp_path, "living")
    for name in ("known", "gone", "write"):
        (tmp_path / f"{name}.lock").touch()
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    (tmp_path / "young.lock").touch()
    assert sweep(tmp_path, {"known"}, age=60) == ["gone"]
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["known", "living", "write", "young"]
    living.close()


def started_again(scene: Scene, id: str, times: int) -> None:
    """Wait until the job has been started so many times."""
    until(lambda: len(scene.told(What.STARTED, id)) == times, seconds=20)

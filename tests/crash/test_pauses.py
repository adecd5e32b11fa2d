"""A worker that stands still for longer than its lease loses its jobs to another one, and wakes up to change nothing.

The machine may do this to any process: a laptop that is closed, a virtual machine that is moved, a debugger.
"""

import signal

from tests.crash.program import Program
from tests.crash.scene import Scene
from tests.crash.tape import What

SHORT = {"worker__lease": "2s", "worker__heartbeat": "0.5s"}


def passed_on(scene: Scene, task: str, plant: str = "") -> tuple[str, Program, Program]:
    """A job that another worker has started again, because the lease of the first one ended while it stood still."""
    sleeper = scene.worker(plant, **SHORT)
    [id] = scene.added(task)
    scene.sees(What.STARTED, id)
    scene.pause(sleeper)
    other = scene.worker(**SHORT)
    scene.sees(What.STARTED, id, but=sleeper.pid)
    return id, sleeper, other


def test_its_handler_is_cancelled_when_it_wakes(scene: Scene) -> None:
    """It learns that the lease is lost, and stops what still runs under it."""
    id, sleeper, other = passed_on(scene, "held")
    assert scene.sees(What.SETTLED, id).pid == other.pid
    sleeper.send(signal.SIGCONT)
    assert scene.sees(What.CANCELLED, id).pid == sleeper.pid
    sleeper.stop()
    other.stop()
    ledger = scene.in_order()
    assert [row.attempts for row in ledger.books.done] == [1]


def test_its_late_settlement_changes_nothing(scene: Scene) -> None:
    """A handler that nothing can stop ends while the other one is still at it: only the last fence counts."""
    id, sleeper, other = passed_on(scene, "stubborn")
    sleeper.send(signal.SIGCONT)
    scene.open_gate(1)
    late = scene.sees(What.LATE, id)
    assert (late.pid, late.fence) == (sleeper.pid, 1)
    assert [row.state for row in scene.ledger().books.jobs] == ["leased"]
    scene.open_gate(2)
    settled = scene.sees(What.SETTLED, id)
    assert (settled.pid, settled.fence) == (other.pid, 3)
    sleeper.stop()
    other.stop()
    scene.in_order()

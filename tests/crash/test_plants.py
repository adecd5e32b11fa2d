"""The controls: a bug planted in a program of its own is found by the same kills and the same ledger that find none.

One bug cannot be caught here: a store that is opened with `synchronous = OFF` loses nothing when a process is killed,
because the system has what was written. It takes a crash of the system or a power cut, as a simulated disk does.
"""

import signal

from redrive.job import new_id
from tests.crash.ledger import audit
from tests.crash.scene import Scene
from tests.crash.tape import What
from tests.crash.test_pauses import passed_on


def found(scene: Scene) -> set[tuple[str, str]]:
    """Which rules are broken, and for which jobs."""
    return {(fault.rule, id) for fault in audit(scene.ledger()) for id in fault.ids}


def test_a_worker_that_acknowledges_before_it_runs_is_caught(scene: Scene) -> None:
    """Killed in between, its job is done and was never run."""
    id = new_id()
    scene.killed_at("settle.done", "plants", "AckBeforeRun", "--drain", "--add", f"steady={id}")
    scene.drain()
    assert ("done", id) in found(scene)


def test_a_client_that_says_accepted_too_early_is_caught(scene: Scene) -> None:
    """Killed before the commit, its job is nowhere."""
    id = new_id()
    scene.killed_at("enqueue.committed.before", "plants", "HastyClient", "--drain", "--add", f"steady={id}")
    scene.drain()
    assert ("lost", id) in found(scene)


def test_a_worker_that_ignores_the_fence_is_caught(scene: Scene) -> None:
    """It wakes up after its lease has passed on, and ends the job that another one runs."""
    id, sleeper, other = passed_on(scene, "stubborn", plant="NoFence")
    sleeper.send(signal.SIGCONT)
    scene.open_gate(1)
    assert scene.sees(What.SETTLED, id).pid == sleeper.pid
    scene.open_gate(2)
    assert scene.sees(What.LATE, id).pid == other.pid
    sleeper.stop()
    other.stop()
    assert ("one completion", id) in found(scene)

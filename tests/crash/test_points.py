"""A process that is killed right before or after any named point of a job's way loses nothing and doubles nothing.

Each test kills a process with -9 at its point, has another one work on what is left, and then asks the ledger.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from redrive.job import new_id
from tests.crash.ledger import Ledger
from tests.crash.scene import Scene
from tests.crash.tape import What
from tests.layout.test_words import FAILPOINTS

SIDES = {"before": ".before", "after": ""}


@dataclass(frozen=True)
class Case:
    """A point and the jobs that lead past it; what a kill there may cost, and what it may not."""

    point: str
    task: str = "steady"
    jobs: int = 1
    end: str = "done"
    attempts: int = 1  # spent by each job in the end: a kill from outside spends none
    again: tuple[str, ...] = ()  # the sides on which an attempt is started a second time
    settings: Mapping[str, str] = field(default_factory=dict)
    play: Callable[[Scene, "Case", str], None] | None = None


def work(scene: Scene, case: Case, point: str) -> None:
    """Jobs are accepted, a worker dies at the point, another one drains."""
    scene.killed_at(point, "worker", "--drain", "--add", *jobs(case), **case.settings)
    scene.drain()


def ask_again(scene: Scene, case: Case, point: str) -> None:
    """The client dies and never learns; one like it asks again with the same ids, and again with known ones."""
    command = jobs(case)
    scene.killed_at(point, "client", *command)
    scene.start("client", *command).finished()
    scene.drain("--add", *command)


def take_over(scene: Scene, case: Case, point: str) -> None:
    """A worker dies with jobs in its hands, the one that takes them over dies of it, a third one drains."""
    scene.killed_at("handler.effect", "worker", "--drain", "--add", *jobs(case))
    scene.killed_at(point, "worker", "--drain")
    scene.drain()


def migrate(scene: Scene, case: Case, point: str) -> None:
    """The first process ever to open the file dies; the next one finds a store, or makes one."""
    scene.killed_at(point, "client", *jobs(case))
    scene.drain("--add", *jobs(case))


def bring_back(scene: Scene, case: Case, point: str) -> None:
    """Letters are brought back, who does so dies at the point, another one goes on."""
    scene.drain("--add", *jobs(case))
    scene.killed_at(point, "driver", "--open")
    scene.start("driver", "--open", "--work").finished()
    scene.drain()


def change_all(scene: Scene, case: Case, point: str) -> None:
    """Letters are edited, who does so dies at the point, another one goes on."""
    scene.drain("--add", *jobs(case))
    scene.killed_at(point, "operator", "--open")
    scene.start("operator", "--open").finished()


def wait_for_a_fix(scene: Scene, case: Case, point: str) -> None:
    """A redrive waits for a release that is there; who lets it begin dies at the point, another one goes on."""
    scene.drain("--add", *jobs(case))
    scene.killed_at(point, "driver", "--open", "--work", "--when-release", ">= 2.4", **case.settings)
    scene.start("driver", "--open", "--work", **case.settings).finished()
    scene.drain()


def jobs(case: Case) -> list[str]:
    """What a client is asked to add."""
    return [f"{case.task}={new_id()}" for _ in range(case.jobs)]


BOTH = ("before", "after")
CASES = [
    Case("enqueue.committed", jobs=2, play=ask_again),
    Case("claim.committed", jobs=2),
    Case("handler.mid"),
    Case("handler.effect", again=BOTH),
    Case("handler.end", jobs=2, again=BOTH),
    Case("heartbeat.sent", "held", again=BOTH, settings={"worker__heartbeat": "0.1s"}),
    Case("settle.done", again=("before",)),
    Case("settle.retry", "twice", attempts=2, again=("before",)),
    Case("settle.dead", "hopeless", end="dead", again=("before",)),
    Case("reap.committed", jobs=2, again=BOTH, play=take_over),
    Case("redrive.opened", "mended", jobs=9, play=bring_back),
    Case("redrive.freezing", "mended", jobs=9, play=bring_back),
    Case("redrive.chunk", "mended", jobs=9, play=bring_back),
    Case("operation.opened", "hopeless", jobs=9, end="dead", play=change_all),
    Case("operation.chunk", "hopeless", jobs=9, end="dead", play=change_all),
    Case("redrive.begun", "mended", jobs=9, play=wait_for_a_fix, settings={"release": "2.4.1"}),
    Case("migrate.1", play=migrate),
    Case("migrate.2", play=migrate),
]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.point)
def test_a_kill_at_a_point_loses_nothing_and_doubles_nothing(scene: Scene, case: Case, side: str) -> None:
    """Each accepted job ends once, at the price of another start at most, and no attempt is taken from it."""
    (case.play or work)(scene, case, case.point + SIDES[side])
    ledger = scene.in_order()
    assert ends(ledger) == {case.end: case.jobs}
    assert {row.attempts for row in ledger.books.rows()} == {case.attempts}
    assert {failure.reason for failure in ledger.books.failures}.isdisjoint({"lost", "crashed"})
    assert is_repeated(ledger) == (side in case.again)


def test_every_promised_point_has_its_case() -> None:
    """A point that joins the list of those promised joins these tests."""
    assert {case.point for case in CASES} >= set(FAILPOINTS)


def ends(ledger: Ledger) -> dict[str, int]:
    """How many jobs are where."""
    return Counter(row.state for row in ledger.books.jobs) + Counter({"done": len(ledger.books.done)})


def is_repeated(ledger: Ledger) -> bool:
    """Whether any attempt was started more than once."""
    started = Counter((record.job, record.epoch, record.attempt) for record in ledger.tape.of(What.STARTED))
    return max(started.values()) > 1

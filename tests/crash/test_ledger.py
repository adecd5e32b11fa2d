"""A checker that cannot fail is none: each rule finds the fault that is planted for it, and names the jobs."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import apsw
import pytest

from redrive.clock import SECOND, ManualClock
from redrive.job import Job, new_id
from redrive.store import Buried, Discarded, Done, Released, Retried, Settings
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_failure, added, claimed
from tests.crash import ledger as rules
from tests.crash.ledger import RULES, Ledger, Limits, Rule, audit, ledger_of
from tests.crash.tape import Record, Tape, What, packed, parsed

NAMES = ("done", "retried", "lost", "dead", "discarded", "revived", "refused", "absent", "stranger")
IDS = dict(zip(NAMES, sorted(new_id() for _ in NAMES), strict=True))
BLOBS = {name: f"x'{UUID(id).hex}'" for name, id in IDS.items()}


class Life:
    """A short life of a store, and its tape as handlers and clients would have written it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(folder / "store.db", clock=self.clock, settings=Settings(journal="all"))
        self.tape = Tape(folder / "tape")

    async def added(self, name: str) -> None:
        self.tape.write(What.UNKNOWN, IDS[name])
        await added(self.store, id=IDS[name])
        self.tape.write(What.ACCEPTED, IDS[name])

    async def run(self, *, returns: bool = True) -> Job:
        """Claim the first in line and run it, as far as its handler comes."""
        [job] = await claimed(self.store)
        for what in (What.STARTED, What.EFFECT, What.RETURNED)[: 3 if returns else 1]:
            self.tape.write(what, job.id, epoch=job.epoch, attempt=job.attempts + 1, fence=job.fence)
        return job

    async def finished(self) -> None:
        job = await self.run()
        await self.store.jobs.settle([Done(job=job)])
        self.tape.write(What.SETTLED, job.id, epoch=job.epoch, fence=job.fence)

    async def buried(self) -> None:
        await self.store.jobs.settle([Buried(job=await self.run(returns=False), failure=a_failure())])

    async def retried(self) -> None:
        job = await self.run(returns=False)
        await self.store.jobs.settle([Retried(job=job, at=self.clock.now(), failure=a_failure())])
        await self.finished()

    async def lost(self) -> None:
        """Its worker dies; it is taken over, given back, and run again."""
        await self.run()
        [orphan] = await self.store.jobs.reap("w2", ["w1"], 1, 30 * SECOND)
        await self.store.jobs.settle([Released(job=orphan.job, at=self.clock.now(), why="its worker w1 died")])
        await self.finished()

    async def discarded(self) -> None:
        await self.store.jobs.settle([Discarded(job=await self.run(returns=False), reason="discarded")])

    async def revived(self) -> None:
        await self.buried()
        await self.store.letters.revive([IDS["revived"]], "test", "it is fixed")
        await self.finished()

    async def run_its_course(self) -> None:
        """Every way for a job to end, and two clients that got no job."""
        await self.store.open()
        ends = {"done": self.finished, "retried": self.retried, "lost": self.lost, "dead": self.buried}
        for name, end in (ends | {"discarded": self.discarded, "revived": self.revived}).items():
            await self.added(name)
            await end()
        for name, answer in (("refused", What.REFUSED), ("absent", What.UNKNOWN)):
            self.tape.write(What.UNKNOWN, IDS[name])
            self.tape.write(answer, IDS[name])
        await self.store.close()
        self.tape.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a life without a fault."""
    folder = tmp_path_factory.mktemp("life")
    asyncio.run(Life(folder).run_its_course())
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A life of one's own, to plant faults in."""
    return Path(shutil.copytree(template, tmp_path / "life"))


def ledger_in(folder: Path) -> Ledger:
    return ledger_of(folder / "store.db", folder / "tape")


def said(what: What, name: str, fence: int = 0, epoch: int = 1) -> bytes:
    return packed(Record(what, IDS[name], epoch=epoch, fence=fence))


def without(what: What, name: str) -> Callable[[bytes], bytes]:
    """A tape on which nothing of this was ever written."""

    def cut(data: bytes) -> bytes:
        records = parsed(data).records
        return b"".join(packed(record) for record in records if record[:2] != (what, IDS[name]))

    return cut


@dataclass(frozen=True)
class Plant:
    """A fault: in the store by a statement, or on the tape."""

    rule: Rule
    who: tuple[str, ...]
    sql: str = ""
    tape: bytes | Callable[[bytes], bytes] = b""

    def put(self, folder: Path) -> None:
        db = apsw.Connection(str(folder / "store.db"))
        db.execute(self.sql.format(**BLOBS)).fetchall()
        db.close()
        path = folder / "tape"
        data = path.read_bytes()
        path.write_bytes(self.tape(data) if callable(self.tape) else data + self.tape)


CLAIM = "INSERT INTO journal (at, event, job, epoch) VALUES (0, 'job.started', {dead}, 1);"
GIVE_BACK = "INSERT INTO journal (at, event, job, epoch, text) VALUES (0, 'job.released', {lost}, 1, 'w2 died');"

PLANTS = [
    Plant(rules.nothing_is_lost, ("done",), "DELETE FROM done WHERE id = {done}"),
    Plant(rules.nothing_is_lost, ("dead",), "DELETE FROM job WHERE id = {dead}"),
    Plant(rules.one_state, ("done",), "INSERT INTO tombstone VALUES ({done}, 0)"),
    Plant(rules.one_state, ("dead",), "UPDATE done SET id = {dead} WHERE id = {done}"),
    Plant(rules.everything_ends, ("dead",), "UPDATE job SET state = 'ready' WHERE id = {dead}"),
    Plant(rules.everything_ends, ("discarded",), "UPDATE job SET state = 'leased' WHERE id = {discarded}"),
    Plant(rules.nobody_comes_uninvited, ("refused",), "UPDATE done SET id = {refused} WHERE id = {done}"),
    Plant(rules.nobody_comes_uninvited, ("refused",), tape=said(What.STARTED, "refused")),
    Plant(rules.nobody_comes_uninvited, ("absent",), tape=said(What.STARTED, "absent")),
    Plant(rules.nobody_comes_uninvited, ("stranger",), "UPDATE done SET id = {stranger} WHERE id = {done}"),
    Plant(rules.epochs_are_earned, ("done",), "UPDATE done SET epoch = 2 WHERE id = {done}"),
    Plant(rules.epochs_are_earned, ("revived",), "DELETE FROM journal WHERE event = 'job.redriven'"),
    Plant(rules.starts_are_bounded, ("dead",), CLAIM * 6),
    Plant(rules.starts_are_bounded, ("dead",), "UPDATE job SET starts = 7 WHERE id = {dead}"),
    Plant(rules.starts_are_bounded, ("lost",), GIVE_BACK * 3),
    Plant(rules.starts_are_told, ("done",), tape=said(What.STARTED, "done", fence=2)),
    Plant(rules.starts_are_told, ("dead",), "UPDATE job SET starts = 2 WHERE id = {dead}"),
    Plant(rules.fences_are_used_once, ("done",), tape=said(What.STARTED, "done", fence=1)),
    Plant(rules.fences_are_used_once, ("revived",), tape=said(What.STARTED, "revived", epoch=3)),
    Plant(rules.one_completion, ("done",), tape=said(What.SETTLED, "done", fence=1)),
    Plant(rules.one_completion, ("done",), tape=said(What.STARTED, "done", fence=2)),
    Plant(
        rules.one_completion,
        ("done",),
        "INSERT INTO journal (at, event, job, epoch) VALUES (0, 'job.buried', {done}, 1)",
    ),
    Plant(rules.ends_are_told, ("dead",), "DELETE FROM journal WHERE event = 'job.buried' AND job = {dead}"),
    Plant(rules.ends_are_told, ("dead",), tape=said(What.SETTLED, "dead", fence=1)),
    Plant(rules.done_means_run, ("done",), tape=without(What.EFFECT, "done")),
    Plant(rules.done_means_run, ("discarded",), tape=said(What.SETTLED, "discarded", fence=1)),
    Plant(
        rules.sums_add_up,
        ("done",),
        "DELETE FROM journal WHERE event = 'job.enqueued' AND job = {done};"
        "UPDATE counter SET n = n - 1 WHERE name = 'enqueued'",
    ),
    Plant(
        rules.sums_add_up,
        ("done",),
        "DELETE FROM journal WHERE event = 'job.succeeded' AND job = {done};"
        "UPDATE counter SET n = n - 1 WHERE name = 'done'",
    ),
    Plant(rules.sums_add_up, ("dead",), "UPDATE depth SET n = n + 1 WHERE state = 'dead'"),
    Plant(rules.sums_add_up, (), "UPDATE counter SET n = n + 1 WHERE name = 'started'"),
    Plant(rules.letters_are_of_the_dead, ("dead",), "UPDATE letter SET state = 'closed' WHERE id = {dead}; "
          "UPDATE letter_group SET count = 0"),
    Plant(rules.letters_are_of_the_dead, ("revived",), "UPDATE letter SET state = 'open' WHERE id = {revived};"
          "UPDATE letter_group SET count = count + 1"),
    Plant(rules.letters_are_of_the_dead, ("dead", "revived"), "UPDATE letter_group SET count = count + 1"),
    Plant(rules.file_is_whole, (), "PRAGMA ignore_check_constraints = ON; UPDATE job SET state = 'nowhere'"),
    Plant(rules.tape_is_whole, (), tape=said(What.EFFECT, "done")[:30]),
]  # fmt: skip


def test_a_life_without_a_fault_has_none(folder: Path) -> None:
    """The other control: nothing is found where there is nothing, on accounts that are not empty."""
    ledger = ledger_in(folder)
    assert audit(ledger) == []
    assert {row.id for row in ledger.books.rows()} == {IDS[name] for name in NAMES[:6]}
    assert ledger.books.counters["started"] == 9


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.rule.__name__}-{'-'.join(plant.who)}")
def test_a_planted_fault_is_found(plant: Plant, folder: Path) -> None:
    """The rule that it breaks says so, once, with the ids."""
    plant.put(folder)
    ledger = ledger_in(folder)
    assert [fault.ids for fault in plant.rule(ledger)] == [tuple(IDS[name] for name in plant.who)]
    assert set(plant.rule(ledger)) <= set(audit(ledger))


def test_every_rule_has_a_fault_that_it_finds() -> None:
    """A new rule comes with its control."""
    assert {plant.rule for plant in PLANTS} == set(RULES)


def test_what_is_left_before_a_drain_is_no_fault(folder: Path) -> None:
    """A store that is still at work has jobs that have not ended."""
    Plant(rules.everything_ends, (), "UPDATE job SET state = 'ready' WHERE id = {dead}").put(folder)
    running = ledger_of(folder / "store.db", folder / "tape", drained=False)
    assert list(rules.everything_ends(running)) == []


def test_a_task_with_more_attempts_may_start_more_often(folder: Path) -> None:
    """The bound is that of the task's own policy."""
    Plant(rules.starts_are_bounded, (), CLAIM * 6).put(folder)
    generous = ledger_of(folder / "store.db", folder / "tape", limits={"email.send": Limits(attempts=5)})
    assert list(rules.starts_are_bounded(generous)) == []


def test_a_fault_is_a_sentence(folder: Path) -> None:
    """It says which rule, what, and of which jobs."""
    Plant(rules.one_state, (), "INSERT INTO tombstone VALUES ({done}, 0)").put(folder)
    [fault] = rules.one_state(ledger_in(folder))
    assert str(fault) == f"one state: in two places at once [{IDS['done']}]"

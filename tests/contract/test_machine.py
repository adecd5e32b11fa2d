"""Whatever is done to a store in whatever order, it agrees with a plain reference."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings

from redrive.clock import ManualClock
from redrive.store import Store
from redrive.stores.memory import MemoryStore
from redrive.stores.sqlite import SqliteStore
from redrive.testing.triage_machine import TriageMachine

QUICK = settings(
    max_examples=25,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class MemoryMachine(TriageMachine):
    @staticmethod
    def make_store(clock: ManualClock) -> Store:
        return MemoryStore(clock=clock, boot="this-boot")


class SqliteMachine(TriageMachine):
    folder: TemporaryDirectory[str]

    @staticmethod
    def make_store(clock: ManualClock) -> Store:
        SqliteMachine.folder = TemporaryDirectory()
        return SqliteStore(Path(SqliteMachine.folder.name) / "store.db", clock=clock, boot="this-boot")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = QUICK
TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = QUICK

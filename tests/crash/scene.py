"""One store, its tape, and the processes that work on it: started, killed, and seen to leave nothing behind."""

import asyncio
import fcntl
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from uuid import uuid4

import psutil

from redrive.job import new_id
from redrive.presence import WRITE_LOCK
from redrive.stores.sqlite import SqliteStore
from tests.crash.ledger import Ledger, Limits, audit, ledger_of
from tests.crash.program import PATIENCE, Program
from tests.crash.tape import Reading, Record, What, read
from tests.waiting import until

ROOT = Path(__file__).parents[2]
_MARK = "CRASH_SCENE"


class Scene:
    """A folder with a store, a tape, a gate, and the programs that were started on it."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "place"  # what the product and the handlers leave
        self._logs = folder / "logs"
        self.place.mkdir()
        self._logs.mkdir()
        self.store = self.place / "store.db"
        self._home = self.place / f"{self.store.name}-redrive"
        self.kills = 0
        self.patience: float = PATIENCE  # so many seconds has a program that works through all there is
        self._mark = uuid4().hex
        self._programs: list[Program] = []

    # processes ------------------------------------------------------------------------------------------------------

    def start(self, program: str, *arguments: str, failpoint: str = "", **settings: str) -> Program:
        """Start one of tests/crash/programs; settings are those of the configuration, as `worker__lease="2s"`."""
        log = self._logs / f"{len(self._programs)}-{program}-{failpoint.replace(':', '-')}.log"
        environment = self.environment(failpoint, settings)
        self._programs.append(Program(program, arguments, environment, self.place, log))
        return self._programs[-1]

    def environment(self, failpoint: str = "", settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a program of this scene finds: where it works, what it is set to, and where it has to die."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("REDRIVE_", "CRASH_"))}
        return kept | {
            "PYTHONPATH": os.pathsep.join(filter(None, [kept.get("PYTHONPATH"), str(ROOT)])),
            "XDG_CONFIG_HOME": str(self._logs),
            "CRASH_FOLDER": str(self.place),
            _MARK: self._mark,
            "REDRIVE_JOURNAL": "all",
            "REDRIVE_FAILPOINT": failpoint,
            **{f"REDRIVE_{name.upper()}": value for name, value in (settings or {}).items()},
        }

    def worker(self, plant: str = "", **settings: str) -> Program:
        """A worker that is ready to claim, and works until it is told to end; one with a bug when that is named."""
        before = self._signs()
        program = self.start("plants", plant, **settings) if plant else self.start("worker", **settings)
        until(lambda: len(self._signs() - before) == 1, PATIENCE)
        return program

    def _signs(self) -> set[Path]:
        """The lock files by which workers show that they live."""
        return {path for path in self._home.glob("*.lock") if path.name != WRITE_LOCK}

    def pause(self, program: Program) -> None:
        """Make it stand still, but not within a transaction: nobody could write to the file until it went on."""
        with (self._home / WRITE_LOCK).open("rb") as lock:
            until(lambda: _taken(lock), PATIENCE)
            program.send(signal.SIGSTOP)
            until(lambda: psutil.Process(program.pid).status() == psutil.STATUS_STOPPED, PATIENCE)

    def added(self, *tasks: str) -> list[str]:
        """The ids of accepted jobs, one of each of these tasks."""
        ids = [new_id() for _ in tasks]
        jobs = self._logs / f"{len(self._programs)}-jobs.txt"
        jobs.write_text("\n".join(f"{task}={id}" for task, id in zip(tasks, ids, strict=True)), encoding="utf-8")
        self.start("client", "--from", str(jobs)).finished(self.patience)
        return ids

    def killed_at(self, failpoint: str, program: str, *arguments: str, **settings: str) -> None:
        """Run a program that dies at this point of its way."""
        self.start(program, *arguments, failpoint=failpoint, **settings).died()
        self.kills += 1

    def kill(self, pid: int) -> None:
        """Kill a process of this scene from outside."""
        os.kill(pid, signal.SIGKILL)
        self.kills += 1

    def drain(self, *arguments: str, **settings: str) -> None:
        """A worker that nothing happens to runs all that is left, and takes over what others left."""
        patience = "--patience", str(self.patience)
        self.start("worker", "--drain", *patience, *arguments, **settings).finished(self.patience + 5)

    # what is told ---------------------------------------------------------------------------------------------------

    def tape(self) -> Reading:
        return read(self.place / "tape")

    def told(self, what: What, *ids: str) -> list[Record]:
        """What the tape says of these jobs, or of all."""
        return [record for record in self.tape().of(what) if not ids or record.job in ids]

    def sees(self, what: What, *ids: str, seconds: float = PATIENCE, but: int = 0) -> Record:
        """Wait for the first such record by another process than `but`."""
        return until(lambda: [record for record in self.told(what, *ids) if record.pid != but], seconds)[0]

    def open_gate(self, number: int = 1) -> None:
        """Let the handlers that wait go on."""
        (self.place / f"gate-{number}").touch()

    def ledger(self, *, drained: bool = True, limits: Mapping[str, Limits] | None = None) -> Ledger:
        return ledger_of(self.store, self.place / "tape", drained=drained, kills=self.kills, limits=limits)

    def in_order(self, *, limits: Mapping[str, Limits] | None = None) -> Ledger:
        """After a drain, with every program ended: each promise was kept, and nothing is left lying about."""
        ledger = self.ledger(limits=limits)
        assert [str(fault) for fault in audit(ledger)] == []
        assert self.leftovers() == []
        return ledger

    def adds_up(self) -> bool:
        """Whether the product's own ledger finds nothing lost, nothing doubled, and no row that contradicts another."""

        async def proven() -> bool:
            store = SqliteStore(self.store)
            await store.open()
            try:
                return (await store.journal.prove()).adds_up
            finally:
                await store.close()

        return asyncio.run(proven())

    # what is left ---------------------------------------------------------------------------------------------------

    def leftovers(self) -> list[str]:
        """Files that a store at rest does not need: logs of SQLite, locks, pipes, cores, temporary files."""
        home = self._home.name
        at_rest = {self.store.name, "tape", "gate-1", "gate-2", home, f"{home}/{WRITE_LOCK}"}
        found = {str(path.relative_to(self.place)) for path in self.place.rglob("*")}
        return sorted(found - at_rest)

    def close(self) -> None:
        """End what still runs; what a program started has to end by itself, together with it."""
        for program in self._programs:
            program.send(signal.SIGCONT)
            program.kill()
        until(lambda: not self.alive(), seconds=5)
        assert [path.name for path in self.place.glob("core*")] == []

    def alive(self) -> list[str]:
        """What the programs of this scene have started and left behind."""
        return [f"{process.pid} {process.cmdline()}" for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == self._mark)
        except psutil.AccessDenied:  # a child that leaves no core hides its environment; one without a parent is lost
            return bool(process.ppid() == 1 and "redrive.child" in process.cmdline())
        except psutil.NoSuchProcess:
            return False


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

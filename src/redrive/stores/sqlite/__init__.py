"""The embedded store: one SQLite file, shared by the processes of one host."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from redrive import forks
from redrive.clock import Clock, SystemClock, boot_id
from redrive.errors import StoreUnavailable
from redrive.sampling import Sampler
from redrive.store import Check, Settings, Traits
from redrive.stores.sqlite import checking
from redrive.stores.sqlite.calls import Call, aside
from redrive.stores.sqlite.connection import refuse_unfit, to_look, to_read, to_write
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import home_of, make_home, prepare, refuse_odd
from redrive.stores.sqlite.jobs import SqliteJobs
from redrive.stores.sqlite.journal import SqliteJournal
from redrive.stores.sqlite.letters import SqliteLetters
from redrive.stores.sqlite.lock import WriteLock
from redrive.stores.sqlite.migrating import migrate, pending, steps
from redrive.stores.sqlite.operations import SqliteOperations
from redrive.stores.sqlite.readers import Readers
from redrive.stores.sqlite.redrives import SqliteRedrives
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.wakeups import Bell, Ear
from redrive.stores.sqlite.workers import SqliteWorkers
from redrive.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore:
    """A store in a file on a local disk; nothing is touched before it is opened."""

    traits = Traits(
        engine="sqlite",
        durable="kill -9, a crash of the system and a power cut",
        shared="host",
        wakeups="a pipe per worker beside the file; polling is the truth",
    )

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        boot: str | None = None,
    ) -> None:
        self.path = Path(os.path.realpath(path))  # by whatever name it is opened, its processes meet at one place
        self.url = f"sqlite:///{self.path}"
        self.home = str(home_of(self.path))
        self._clock = clock or SystemClock()
        self._settings = settings or Settings()
        self._boot = boot or boot_id()
        self._opening = threading.Lock()
        self._machine: _Machine | None = None
        self.sampler = Sampler(random.Random())
        self.jobs = SqliteJobs(self)
        self.letters = SqliteLetters(self)
        self.operations = SqliteOperations(self)
        self.redrives = SqliteRedrives(self)
        self.workers = SqliteWorkers(self)
        self.journal = SqliteJournal(self)
        forks.tell(self)

    # life -----------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the file if need be, migrate it, and refuse what cannot be worked with."""
        if self._machine is None:
            await aside(self._start)

    async def close(self) -> None:
        """Finish what is under way and let go."""
        if self._machine is not None:
            await aside(self._stop)

    def _start(self) -> None:
        with self._opening:
            if self._machine is None:
                with self._translating():
                    refuse_unfit(self.path, self._settings)
                    prepare(self.path)
                    self._refuse_foreign()
                    make_home(Path(self.home))
                    self._machine = self._started()

    def _stop(self) -> None:
        with self._opening:  # also so that no fork comes between: its child would inherit what is not closed yet
            machine, self._machine = self._machine, None
            if machine is not None:
                machine.close(self._settings.busy_timeout)

    def _refuse_foreign(self) -> None:
        """Before anything is made beside the file of another program, or changed in it."""
        if self.path.stat().st_size:
            self._missing()

    def _missing(self) -> list[str]:
        db = to_look(self.path, self._settings)
        try:
            return [step.name for step in pending(db, self.path)]
        finally:
            db.close()

    def _started(self) -> "_Machine":
        lock, bell = WriteLock(Path(self.home)), Bell(Path(self.home))
        self.sampler = Sampler(random.Random())
        begin = partial(Transaction, clock=self._clock, boot=self._boot, settings=self._settings, sampler=self.sampler)
        look = partial(Snapshot, clock=self._clock, boot=self._boot, settings=self._settings)
        try:
            writer = Writer(self.path, lock, partial(self._connected, lock), begin, bell.ring)
        except RuntimeError as error:
            lock.drop()
            raise StoreUnavailable(
                f"the store {self.path} cannot be opened, because no thread can be started ({error}); "
                "open it before the program ends"
            ) from error
        except BaseException:
            lock.drop()
            raise
        return _Machine(lock, writer, Readers(self.path, self._connected_to_read, look), bell)

    def _connected(self, lock: WriteLock) -> apsw.Connection:
        make_home(Path(self.home))
        lock.renew()
        db = to_write(self.path, self._settings)
        try:
            migrate(db, lock, self.path, self._clock, self._settings.busy_timeout)
        except BaseException:
            db.close()
            raise
        return db

    def _connected_to_read(self) -> apsw.Connection:
        db = to_read(self.path, self._settings)
        try:
            if pending(db, self.path):
                raise StoreUnavailable(f"the store {self.path} was replaced by an empty one; open it again")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            fault = translated(error, str(self.path))
            if fault is error:
                raise
            raise fault from error

    # a fork ---------------------------------------------------------------------------------------------------------
    # SQLite keeps its locks per process and believes that a child has those of its parent: a connection that a child
    # opens beside an inherited one takes no lock at all. So none is inherited.

    def pause(self) -> None:
        """Before this process forks: SQLite stands still, and nothing of it is open that a child would inherit."""
        self._opening.acquire()
        if self._machine is not None:
            self._machine.pause()

    def resume(self) -> None:
        """After it: go on as if nothing had been."""
        if self._machine is not None:
            self._machine.resume()
        self._opening.release()

    def forked(self) -> None:
        """In the child: the threads and pipes are the parent's; this store is closed, and may be opened again."""
        machine, self._machine = self._machine, None
        self._opening = threading.Lock()
        if machine is not None:
            machine.forked()

    # asking ---------------------------------------------------------------------------------------------------------

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run an operation in a transaction; answers once it is on the disk."""
        writer, call = self._running.writer, Call(operation)
        writer.submit(call)
        patience = call.loop.call_later(self._settings.busy_timeout, self._give_up, call, writer)
        try:
            return await call.outcome()
        finally:
            patience.cancel()

    def _give_up(self, call: Call[Any], writer: Writer) -> None:
        """It has waited long enough: unless it has begun in the meantime, it will not happen."""
        given_up = call.give_up(
            StoreUnavailable(
                f"the store {self.path} could not be written for {self._settings.busy_timeout:g}s: {writer.holder()} "
                "holds it; see what it does, end it if it hangs, and try again"
            )
        )
        if given_up:
            writer.stalled()

    async def read(self, operation: Callable[[Snapshot], T]) -> T:
        """Run an operation that only looks, beside whoever writes."""
        call = Call(operation)
        self._running.readers.submit(call)
        return await call.outcome()

    @property
    def _running(self) -> "_Machine":
        machine = self._machine
        if machine is None:
            raise StoreUnavailable(f"the store {self.path} is not open; call open() first")
        return machine

    async def wait(self, listener: str, timeout: float) -> bool:
        """Rest until a hint says that jobs may be ready, at most `timeout` seconds; polling is the truth."""
        with self._translating():
            ear = self._running.ear(listener, Path(self.home))
        return await ear.wait(timeout)

    # for the doctor -------------------------------------------------------------------------------------------------

    async def check(self) -> list[Check]:
        """What the doctor wants to know of this engine."""
        of_store = await self.read(lambda snapshot: checking.of_store(snapshot, self.path))
        with self._translating():
            return [*await aside(partial(checking.of_file, self.path)), *of_store]

    def pending(self) -> list[str]:
        """The migrations that opening would apply; changes nothing."""
        if not self.path.exists():
            return [step.name for step in steps()]
        with self._opening, self._translating():
            refuse_odd(self.path)
            return self._missing()


@dataclass(slots=True)
class _Machine:
    """What runs while a store is open."""

    lock: WriteLock
    writer: Writer
    readers: Readers
    bell: Bell
    ears: dict[str, Ear] = field(default_factory=dict)

    def ear(self, listener: str, home: Path) -> Ear:
        """The ear of a listener, made anew when somebody has taken its pipe away."""
        ear = self.ears.get(listener)
        if ear is None or not ear.is_there():
            if ear is not None:
                ear.close()
            ear = self.ears[listener] = Ear(home, listener)
        return ear

    def close(self, patience: float) -> None:
        self.readers.close()
        self.writer.close(patience)
        self.bell.close()
        for ear in self.ears.values():
            ear.close()

    def pause(self) -> None:
        self.writer.pause()
        self.readers.pause()

    def resume(self) -> None:
        self.readers.resume()
        self.writer.resume()

    def forked(self) -> None:
        self.lock.drop()
        self.bell.close()
        for ear in self.ears.values():
            ear.close(unlink=False)

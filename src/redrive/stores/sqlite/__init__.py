"""The embedded store: one SQLite file, shared by the processes of one host."""

import asyncio
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from redrive.clock import Clock, SystemClock, boot_id
from redrive.errors import StoreUnavailable
from redrive.store import Check, Settings, Traits
from redrive.stores.sqlite import checking
from redrive.stores.sqlite.calls import Call
from redrive.stores.sqlite.connection import refuse_unfit, to_look, to_read, to_write
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import home_of, prepare
from redrive.stores.sqlite.jobs import SqliteJobs
from redrive.stores.sqlite.journal import SqliteJournal
from redrive.stores.sqlite.letters import SqliteLetters
from redrive.stores.sqlite.lock import WriteLock
from redrive.stores.sqlite.migrating import migrate, pending, steps, version
from redrive.stores.sqlite.readers import Readers
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
        self.path = Path(path).absolute()
        self.url = f"sqlite:///{self.path}"
        self.home = str(home_of(self.path))
        self._clock = clock or SystemClock()
        self._settings = settings or Settings()
        self._boot = boot or boot_id()
        self._opening = threading.Lock()
        self._machine: _Machine | None = None
        self.jobs = SqliteJobs(self)
        self.letters = SqliteLetters(self)
        self.workers = SqliteWorkers(self)
        self.journal = SqliteJournal(self)
        _stores.add(self)

    # life -----------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the file if need be, migrate it, and refuse what cannot be worked with."""
        if self._machine is None:
            await asyncio.to_thread(self._start)

    async def close(self) -> None:
        """Finish what is under way and let go."""
        machine, self._machine = self._machine, None
        if machine is not None:
            await asyncio.to_thread(machine.close)

    def _start(self) -> None:
        with self._opening:
            if self._machine is None:
                try:
                    prepare(self.path)
                    refuse_unfit(self.path, self._settings)
                    self._machine = self._started()
                except Exception as error:
                    raise translated(error, str(self.path)) from error

    def _started(self) -> "_Machine":
        lock, bell = WriteLock(Path(self.home)), Bell(Path(self.home))
        begin = partial(Transaction, clock=self._clock, boot=self._boot, settings=self._settings)
        look = partial(Snapshot, clock=self._clock, boot=self._boot, settings=self._settings)
        try:
            writer = Writer(self.path, lock, partial(self._connected, lock), begin, bell.ring)
        except BaseException:
            lock.drop()
            raise
        readers = Readers(self.path, lambda: to_read(self.path, self._settings), look)
        return _Machine(lock, writer, readers, bell)

    def _connected(self, lock: WriteLock) -> apsw.Connection:
        db = to_write(self.path, self._settings)
        try:
            migrate(db, lock, self.path, self._clock, self._settings.busy_timeout)
        except BaseException:
            db.close()
            raise
        return db

    def forked(self) -> None:
        """In a child process: what the parent has open is the parent's, and is neither used nor closed here."""
        machine, self._machine = self._machine, None
        self._opening = threading.Lock()
        if machine is not None:
            machine.forked()

    # asking ---------------------------------------------------------------------------------------------------------

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run an operation in a transaction; answers once it is on the disk."""
        writer = self._running.writer
        call = Call(operation)
        writer.submit(call)
        while not call.future.done():
            await asyncio.wait({call.future}, timeout=self._settings.busy_timeout)
            if not call.future.done() and not call.begun:
                call.give_up()
                raise StoreUnavailable(
                    f"the store {self.path} was not written to for {self._settings.busy_timeout:g}s: process "
                    f"{writer.holder()} holds it; see what that process does, and try again"
                )
        return call.future.result()

    async def read(self, operation: Callable[[Snapshot], T]) -> T:
        """Run an operation that only looks, beside whoever writes."""
        call = Call(operation)
        self._running.readers.submit(call)
        return await call.future

    @property
    def _running(self) -> "_Machine":
        machine = self._machine
        if machine is None:
            raise StoreUnavailable(f"the store {self.path} is not open; call open() first")
        return machine

    async def wait(self, listener: str, timeout: float) -> bool:
        """Rest until a hint says that jobs may be ready, at most `timeout` seconds; polling is the truth."""
        ears = self._running.ears
        if listener not in ears:
            ears[listener] = Ear(Path(self.home), listener)
        return await ears[listener].wait(timeout)

    # for the doctor -------------------------------------------------------------------------------------------------

    async def check(self) -> list[Check]:
        """What the doctor wants to know of this engine."""
        of_store = await self.read(lambda snapshot: checking.of_store(snapshot, version(snapshot.db)))
        return [*await asyncio.to_thread(checking.of_file, self.path), *of_store]

    def pending(self) -> list[str]:
        """The migrations that opening would apply; changes nothing."""
        if not self.path.exists():
            return [step.name for step in steps()]
        try:
            db = to_look(self.path, self._settings)
            try:
                return [step.name for step in pending(db, self.path)]
            finally:
                db.close()
        except Exception as error:
            raise translated(error, str(self.path)) from error


@dataclass(slots=True)
class _Machine:
    """What runs while a store is open."""

    lock: WriteLock
    writer: Writer
    readers: Readers
    bell: Bell
    ears: dict[str, Ear] = field(default_factory=dict)

    def close(self) -> None:
        self.readers.close()
        self.writer.close()
        self.bell.close()
        for ear in self.ears.values():
            ear.close()

    def forked(self) -> None:
        for connection in (self.writer.db, *self.readers.connections):
            _never_freed(connection)  # closing it would drop the parent's locks
        self.lock.drop()
        self.bell.close()
        for ear in self.ears.values():
            ear.close(unlink=False)


def _never_freed(connection: apsw.Connection) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_stores: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


def _forked() -> None:
    for store in list(_stores):
        store.forked()


os.register_at_fork(after_in_child=_forked)

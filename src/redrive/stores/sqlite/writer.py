"""The one thread of this process that writes: what waits at the same time shares a transaction, and so its fsync."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from redrive import failpoints
from redrive.errors import StoreUnavailable
from redrive.stores.sqlite.calls import Call, deliver
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import identity
from redrive.stores.sqlite.lock import WriteLock
from redrive.stores.sqlite.transaction import Transaction

GROUP = 64
"""So many operations share a transaction at the most."""


class Writer:
    """Runs operations in transactions; each is acknowledged only once it is on the disk."""

    def __init__(
        self,
        path: Path,
        lock: WriteLock,
        connect: Callable[[], apsw.Connection],
        begin: Callable[[apsw.Connection], Transaction],
        ring: Callable[[], None],
    ) -> None:
        self._path = path
        self._lock = lock
        self._connect = connect
        self._begin = begin
        self._ring = ring
        self._waiting: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="redrive-writer", daemon=True)
        self.db = connect()
        self._file = identity(path)
        self._thread.start()

    def submit(self, call: Call[Any]) -> None:
        """Have it written with the next group."""
        self._waiting.put(call)

    def holder(self) -> str:
        """The process that writes now, or wrote last."""
        return self._lock.holder()

    def close(self) -> None:
        """Write what waits, then let go of the file."""
        self._waiting.put(None)
        self._thread.join()

    # the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            calls, going = self._next()
            calls = [call for call in calls if call.begin()]
            if calls:
                self._write(calls)
                deliver(calls)
        self.db.close()
        self._lock.drop()

    def _next(self) -> tuple[list[Call[Any]], bool]:
        """All that waits, up to a group; False when it is the last."""
        call = self._waiting.get()
        calls = []
        while call is not None:
            calls.append(call)
            if len(calls) == GROUP:
                return calls, True
            try:
                call = self._waiting.get_nowait()
            except Empty:
                return calls, True
        return calls, False

    def _write(self, calls: Sequence[Call[Any]]) -> None:
        try:
            self._transact(calls)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            if len(calls) == 1:
                calls[0].failed(translated(error, str(self._path)))
            else:
                self._write_apart(calls)

    def _write_apart(self, calls: Sequence[Call[Any]]) -> None:
        """The group failed as a whole, and nothing of it is there: find out whose fault it is."""
        for call in calls:
            self._write([call])

    def _transact(self, calls: Sequence[Call[Any]]) -> None:
        done: list[Transaction] = []
        with self._transaction(done):
            for call in calls:
                transaction = self._apply(call) if len(calls) == 1 else self._apply_beside_others(call)
                if transaction is not None:
                    done.append(transaction)
        for point in _points(done):
            failpoints.reached(point)
        if any(transaction.wakes for transaction in done):
            self._ring()

    @contextmanager
    def _transaction(self, done: list[Transaction]) -> Iterator[None]:
        self._look_at_file()
        self._lock.acquire()
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            for point in _points(done):
                failpoints.reached(f"{point}.before")
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise
        finally:
            self._lock.release()

    def _apply(self, call: Call[Any]) -> Transaction:
        transaction = self._begin(self.db)
        answer = call.operation(transaction)
        transaction.finish()
        call.answered(answer)
        return transaction

    def _apply_beside_others(self, call: Call[Any]) -> Transaction | None:
        """One that fails leaves the others as they are, unless SQLite has rolled everything back (a full disk does)."""
        self.db.execute("SAVEPOINT beside")
        try:
            transaction = self._apply(call)
        except Exception as error:
            if not self.db.in_transaction:
                raise
            self.db.execute("ROLLBACK TO beside")
            self.db.execute("RELEASE beside")
            call.failed(translated(error, str(self._path)))
            return None
        self.db.execute("RELEASE beside")
        return transaction

    def _look_at_file(self) -> None:
        """A file that was removed or replaced under us would take in jobs that nobody ever finds."""
        found = identity(self._path)
        if found is None:
            raise StoreUnavailable(f"the store {self._path} was removed; put it back, or start anew")
        if found != self._file:
            self.db.close()
            self.db = self._connect()
            self._file = found


def _points(transactions: Sequence[Transaction]) -> set[str]:
    return set().union(*(transaction.points for transaction in transactions))

"""The one thread of this process that writes: what waits at the same time shares a transaction, and so its fsync."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from redrive import failpoints
from redrive.stores.sqlite.calls import Call, Inbox, deliver
from redrive.stores.sqlite.connection import let_go
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import identity, removed
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
        self._inbox = Inbox()
        self._stalled = False
        self._using = threading.Lock()  # held while SQLite is at work
        self._db: apsw.Connection | None = connect()
        self._file = identity(path)
        self._thread = threading.Thread(target=self._run, name="redrive-writer", daemon=True)
        self._thread.start()

    def submit(self, call: Call[Any]) -> None:
        """Have it written with the next group."""
        self._inbox.put(call)

    def holder(self) -> str:
        """Who keeps this process from writing, as a phrase."""
        return self._lock.holder()

    def stalled(self) -> None:
        """Somebody has waited in vain: until our next turn there is no use in waiting once more."""
        self._stalled = True

    def close(self, patience: float) -> None:
        """Write what waits, then let go of the file; a thread that stands in line behind a stopped process is left."""
        self._inbox.close()
        self._thread.join(0 if self._stalled else patience)

    def pause(self) -> None:
        """Stand still without a connection, so that a fork copies nothing of SQLite."""
        self._using.acquire()
        let_go(self._db)
        self._db = None

    def resume(self) -> None:
        """Go on; the connection is made anew when it is needed."""
        self._using.release()

    # the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})  # a pipe that nobody reads must not end the process
        while (first := self._inbox.get()) is not None:
            self._serve(first)
        with self._using:
            if self._db is not None:
                self._db.close()
        self._lock.drop()

    def _serve(self, first: Call[Any]) -> None:
        calls: list[Call[Any]] = []
        try:
            with self._turn() as done:
                calls = self._wanted(first)
                for call in calls:
                    self._apply_beside(call, done) if len(calls) > 1 else self._apply(call, done)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            if len(calls) > 1:
                self._apart(calls)
            else:
                calls = calls or self._wanted(first)
                self._fail(calls, error)
        deliver(calls)

    def _wanted(self, first: Call[Any]) -> list[Call[Any]]:
        """This call and all that came while it waited for its turn, without those that were given up."""
        return [call for call in (first, *self._inbox.more(GROUP - 1)) if call.begin()]

    def _apart(self, calls: Sequence[Call[Any]]) -> None:
        """The group failed as a whole, and nothing of it is there: find out whose fault it is."""
        for number, call in enumerate(calls):
            try:
                with self._turn() as done:
                    self._apply(call, done)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail([call], error)
                if isinstance(error, apsw.BusyError):  # it took its time, and will do so for each of them
                    self._fail(calls[number:], error)
                    return

    def _fail(self, calls: Sequence[Call[Any]], error: Exception) -> None:
        for call in calls:
            call.failed(translated(error, str(self._path)))

    @contextmanager
    def _turn(self) -> Iterator[list[Transaction]]:
        """Our turn to write: one transaction, on the disk at its end; then whoever waits for jobs is told."""
        done: list[Transaction] = []
        with self._using:
            self._look_at_file()
        self._lock.acquire()
        self._stalled = False
        try:
            with self._using, self._committed(self._connection()):
                yield done
                for point in _points(done):
                    failpoints.reached(f"{point}.before")
        finally:
            self._lock.release()
        for point in _points(done):
            failpoints.reached(point)
        if any(transaction.wakes for transaction in done):
            self._ring()

    @contextmanager
    def _committed(self, db: apsw.Connection) -> Iterator[None]:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            self._roll_back(db)
            raise

    def _roll_back(self, db: apsw.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:  # nothing more can be done with it; a new one begins where the file is
            self._db = None
            db.close(True)

    def _apply(self, call: Call[Any], done: list[Transaction]) -> None:
        transaction = self._begin(self._connection())
        answer = call.operation(transaction)
        transaction.finish()
        call.answered(answer)
        done.append(transaction)

    def _apply_beside(self, call: Call[Any], done: list[Transaction]) -> None:
        """One that fails leaves the others as they are, unless SQLite has rolled everything back (a full disk does)."""
        db = self._connection()
        db.execute("SAVEPOINT beside")
        try:
            self._apply(call, done)
        except Exception as error:
            if not db.in_transaction:
                raise
            db.execute("ROLLBACK TO beside")
            self._fail([call], error)
        db.execute("RELEASE beside")

    # the connection ---------------------------------------------------------------------------------------------------

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            self._db = self._connect()
        return self._db

    def _look_at_file(self) -> None:
        """A file that was removed or replaced under us would take in jobs that nobody ever finds."""
        found = identity(self._path)
        if found is None:
            raise removed(self._path)
        if found != self._file:
            if self._db is not None:
                self._db.close()
            self._db = None
            self._db = self._connect()
            self._file = found


def _points(transactions: Sequence[Transaction]) -> set[str]:
    return set().union(*(transaction.points for transaction in transactions))

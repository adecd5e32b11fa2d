"""Threads that read beside the writer, each with a connection of its own; started when first needed."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from redrive.stores.sqlite.calls import Call, Inbox, deliver
from redrive.stores.sqlite.connection import let_go
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import identity, removed
from redrive.stores.sqlite.transaction import Snapshot

THREADS = 3
"""So many reads at once; a long one does not keep the short ones waiting."""
STEPS = 20_000
"""After so many steps of SQLite, some milliseconds, a read looks whether it is still wanted."""


class Readers:
    """Runs operations that only look, each on one moment of the store."""

    def __init__(
        self, path: Path, connect: Callable[[], apsw.Connection], begin: Callable[[apsw.Connection], Snapshot]
    ) -> None:
        self._path = path
        self._connect = connect
        self._begin = begin
        self._inbox = Inbox()
        self._starting = threading.Lock()
        self._seats: list[_Seat] = []
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def submit(self, call: Call[Any]) -> None:
        """Have it read."""
        self._inbox.put(call)
        with self._starting:
            self._busy += 1
            if self._busy > len(self._threads) < THREADS:
                seat = _Seat(self._path, self._connect)
                thread = threading.Thread(target=self._run, args=(seat,), name="redrive-reader", daemon=True)
                thread.start()
                self._seats.append(seat)
                self._threads.append(thread)

    def close(self) -> None:
        """Answer what waits, then let go of the file."""
        self._inbox.close()
        with self._starting:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def pause(self) -> None:
        """Stand still without a connection, so that a fork copies nothing of SQLite."""
        self._starting.acquire()
        for seat in self._seats:
            seat.using.acquire()
            let_go(seat.leave())

    def resume(self) -> None:
        """Go on; connections are made anew when they are needed."""
        for seat in self._seats:
            seat.using.release()
        self._starting.release()

    # the threads ----------------------------------------------------------------------------------------------------

    def _run(self, seat: "_Seat") -> None:
        while (call := self._inbox.get()) is not None:
            if begun := call.begin():
                with seat.using:
                    self._read(seat, call)
            with self._starting:  # before the answer, so that who asks again at once finds this thread free
                self._busy -= 1
            if begun:
                deliver([call])
        with seat.using:
            seat.close()

    def _read(self, seat: "_Seat", call: Call[Any]) -> None:
        try:
            db = seat.connection()
            db.set_progress_handler(lambda: call.is_unwanted, STEPS)
            try:
                with db:
                    snapshot = self._begin(db)
                    snapshot.is_unwanted = lambda: call.is_unwanted
                    call.answered(call.operation(snapshot))
            finally:
                db.set_progress_handler(None)  # nothing keeps the answer longer than who asked
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to who waits
            call.failed(translated(error, str(self._path)))


class _Seat:
    """The connection of one reader, made anew when the file was replaced or the process has forked."""

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection]) -> None:
        self.using = threading.Lock()  # held while SQLite is at work
        self._path = path
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None

    def connection(self) -> apsw.Connection:
        found = identity(self._path)
        if found is None:
            raise removed(self._path)
        if self._db is None or found != self._file:
            self.close()
            self._db, self._file = self._connect(), found
        return self._db

    def leave(self) -> apsw.Connection | None:
        """Without its connection, which the caller closes."""
        db, self._db = self._db, None
        return db

    def close(self) -> None:
        db = self.leave()
        if db is not None:
            db.close()

"""Threads that read beside the writer, each with a connection of its own; started when first needed."""

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import apsw

from redrive.errors import StoreUnavailable
from redrive.stores.sqlite.calls import Call, deliver
from redrive.stores.sqlite.faults import translated
from redrive.stores.sqlite.files import identity
from redrive.stores.sqlite.transaction import Snapshot

THREADS = 3
"""So many reads at once; a long one does not keep the short ones waiting."""


class Readers:
    """Runs operations that only look, each on one moment of the store."""

    def __init__(
        self, path: Path, connect: Callable[[], apsw.Connection], begin: Callable[[apsw.Connection], Snapshot]
    ) -> None:
        self._path = path
        self._connect = connect
        self._begin = begin
        self._waiting: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self.connections: list[apsw.Connection] = []

    def submit(self, call: Call[Any]) -> None:
        """Have it read."""
        with self._starting:
            self._busy += 1
            if self._busy > len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, name="redrive-reader", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put(call)

    def close(self) -> None:
        """Answer what waits, then let go of the file."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    # the threads ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        seat = _Seat(self._path, self._connect, self.connections)
        while (call := self._waiting.get()) is not None:
            if call.begin():
                self._read(seat, call)
                deliver([call])
            with self._starting:
                self._busy -= 1
        seat.leave()

    def _read(self, seat: "_Seat", call: Call[Any]) -> None:
        try:
            db = seat.connection()
            with db:
                call.answered(call.operation(self._begin(db)))
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to who waits
            call.failed(translated(error, str(self._path)))


class _Seat:
    """The connection of one reader, made anew when the file was replaced."""

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection], listed: list[apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._listed = listed
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None

    def connection(self) -> apsw.Connection:
        found = identity(self._path)
        if found is None:
            raise StoreUnavailable(f"the store {self._path} was removed; put it back, or start anew")
        if self._db is None or found != self._file:
            self.leave()
            self._db, self._file = self._connect(), found
            self._listed.append(self._db)
        return self._db

    def leave(self) -> None:
        if self._db is not None:
            self._listed.remove(self._db)
            self._db.close()
            self._db = None

"""Who is there to run jobs, and who does which duty."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from redrive.store import Worker
from redrive.stores.sqlite import sampling
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import Row, listed, names_in
from redrive.stores.sqlite.wakeups import forget

if TYPE_CHECKING:
    from redrive.stores.sqlite import SqliteStore

_WORD = 1 << 64


class SqliteWorkers:
    """Who is there to run jobs."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def beat(self, worker: Worker, lease: int) -> Literal["drain"] | None:
        """Say that this worker lives for `lease` microseconds more; answers the order left for it."""
        return await self._store.write(lambda tx: _beat(tx, worker, lease))

    async def leave(self, worker: str) -> None:
        """This worker ends in peace; its duties are free."""
        await self._store.write(lambda tx: _leave(tx, worker))
        forget(Path(self._store.home), worker)

    async def find(self) -> list[Worker]:
        """The workers whose last beat still counts, and those that still hold leases."""
        return await self._store.read(_workers)

    async def tell(self, worker: str, order: Literal["drain"], actor: str) -> bool:
        """Leave an order for a worker; False when there is none of that id."""

        def tell(tx: Transaction) -> bool:
            if tx.first("tell", worker, order) is None:
                return False
            tx.journal("worker.told", worker=worker, actor=actor, text=order)
            return True

        return await self._store.write(tell)

    async def duty(self, name: str, holder: str, lease: int) -> bool:
        """Take or keep a duty for `lease` microseconds; False while somebody else has it."""
        return await self._store.write(
            lambda tx: tx.first("duty", name, holder, tx.steady + lease, tx.boot, tx.steady) is not None
        )


def _leave(tx: Transaction, worker: str) -> None:
    sampling.write(tx)  # while it is known where they ran
    tx.run("leave", worker)
    tx.run("free_duties", worker)


def _beat(tx: Transaction, worker: Worker, lease: int) -> Literal["drain"] | None:
    sampling.write(tx)
    w = worker
    row = tx.first(
        "beat", w.id, w.host, w.boot, w.pid, w.started_at, tx.now, tx.steady + lease, tx.boot, _signed(w.lock_device),
        _signed(w.lock_inode), w.release, listed(w.tasks), listed(w.queues), w.slots, w.stuck, listed(w.running),
        w.state,
    )  # fmt: skip
    return row[0] if row else None


def _workers(snapshot: Snapshot) -> list[Worker]:
    return [_worker(row) for row in snapshot.all("workers", snapshot.steady, snapshot.boot)]


def _worker(row: Row) -> Worker:
    return Worker(
        id=row[0],
        host=row[1],
        boot=row[2],
        pid=row[3],
        started_at=row[4],
        beat_at=row[5],
        lock_device=row[6] % _WORD,
        lock_inode=row[7] % _WORD,
        release=row[8],
        tasks=names_in(row[9]),
        queues=names_in(row[10]),
        slots=row[11],
        stuck=row[12],
        running=names_in(row[13]),
        state=row[14],
        order=row[15],
    )


def _signed(number: int) -> int:
    """A number of 64 bits as SQLite can hold it: some file systems use the highest one for inodes."""
    return number - _WORD if number >= _WORD // 2 else number

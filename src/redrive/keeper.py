"""Keeps a worker alive in the eyes of others, from a thread and a loop of its own: a handler that blocks the worker's
loop must not cost it its leases.

It beats, extends leases, takes over from workers of this host that are gone, and does the duties.
"""

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from redrive.attempt import Bench
from redrive.duties.loop import Duties
from redrive.duties.pruner import Pruner
from redrive.duties.reaper import Reaper
from redrive.errors import StoreError
from redrive.presence import Presence, cleanup, gone
from redrive.store import Lease, Store, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from redrive.worker import Worker as Running

TICK = 1.0
GRACE = 5.0


class Keeper:
    """The thread beside a worker's loop."""

    def __init__(self, worker: "Running", bench: Bench, store: Store, row: Worker) -> None:
        self._worker = worker
        self._store = store
        self._row = row
        self._app = bench.app
        self._reaper = Reaper(bench)
        self._duties = Duties(store, self._app.clock, row.id, [self._reaper, Pruner(store)])
        self._beaten_at = 0
        self._stop: Callable[[], Any] = lambda: None
        self._presence: Presence | None = None
        self._thread = threading.Thread(target=self._run, name="redrive-keeper", daemon=True)

    async def start(self) -> None:
        """Show that this worker lives, before it claims anything."""
        if self._store.home is not None:
            self._presence = Presence(Path(self._store.home), self._row.id)
            self._row = msgspec.structs.replace(
                self._row, lock_device=self._presence.device, lock_inode=self._presence.inode
            )
        await self._beat()
        self._thread.start()

    async def stop(self) -> None:
        """The worker has settled everything and leaves in peace."""
        self._stop()
        await asyncio.to_thread(self._thread.join, GRACE)
        await self._store.workers.leave(self._row.id)
        if self._presence is not None:
            self._presence.close()

    # the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(stopped.set)
        while not stopped.is_set():
            try:
                await self._tick()
            except StoreError as error:
                self._worker.report_outage(error)
            await _rest(stopped, TICK)

    async def _tick(self) -> None:
        self._worker.supervised_beat()
        if self._app.clock.steady() - self._beaten_at >= self._app.config.worker.heartbeat:
            await self._beat()
            await self._extend()
        await self._take_over()
        await self._duties.poll()

    async def _beat(self) -> None:
        self._beaten_at = self._app.clock.steady()
        row = self._worker.row(self._row)
        if await self._store.workers.beat(row, self._app.config.worker.lease) == "drain":
            self._worker.drain()

    async def _extend(self) -> None:
        leases = [Lease(job.id, job.fence) for job in self._worker.held()]
        if leases:
            lost = await self._store.jobs.extend(leases, self._app.config.worker.lease)
            if lost:
                self._worker.lose(lost)

    async def _take_over(self) -> None:
        """Look at the locks of this host; ask the store only when one that is not ours could be free."""
        if self._presence is None:
            return
        if not _others(self._presence.path):
            return
        for worker in await self._store.workers.find():
            if worker.host == self._row.host and worker.boot == self._row.boot and self._is_gone(worker):
                await self._bury_worker(worker)

    def _is_gone(self, worker: Worker) -> bool:
        home = Path(self._store.home or "")
        return worker.id != self._row.id and gone(home, worker.id, worker.lock_device, worker.lock_inode)

    async def _bury_worker(self, worker: Worker) -> None:
        jobs = 0
        while taken := await self._reaper.reap([worker.id], f"its worker {worker.id} died"):
            jobs += taken
        await self._store.journal.note("worker.lost", worker=worker.id, text=f"{jobs} jobs taken over")
        self._app.events.emit("worker.lost", worker=worker.id, cause="its process is gone", jobs=jobs)
        await self._store.workers.leave(worker.id)
        cleanup(Path(self._store.home or ""), worker.id, worker.lock_device, worker.lock_inode)


def _others(own: Path) -> bool:
    """Whether any other worker has a lock file here."""
    return any(path.name not in (own.name, "write.lock") for path in own.parent.glob("*.lock"))


async def _rest(stopped: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopped.wait(), seconds)
    except TimeoutError:
        return

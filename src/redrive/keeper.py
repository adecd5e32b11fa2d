"""Keeps a worker alive in the eyes of others, from a thread and a loop of its own: a handler that blocks the worker's
loop must not cost it its leases.

It beats, extends leases, takes over from workers of this host that are gone, and does the duties.
"""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from redrive.bench import Bench
from redrive.clock import SECOND
from redrive.duties.loop import Duties, Duty
from redrive.duties.merger import Merger
from redrive.duties.operator import Operator
from redrive.duties.pruner import Pruner
from redrive.duties.reaper import Reaper
from redrive.duties.redriver import Redriver
from redrive.duties.ruler import Ruler
from redrive.duties.sampler import Sampler
from redrive.duties.sealer import Sealer
from redrive.duties.trimmer import Trimmer
from redrive.errors import StoreError
from redrive.failpoints import reached
from redrive.operations import workshop_of
from redrive.presence import WRITE_LOCK, Presence, cleanup, gone, sweep
from redrive.reshaping import Reshaper
from redrive.rules import automatic_rules
from redrive.store import Lease, Store, Worker

if TYPE_CHECKING:
    from redrive.worker import Worker as Running

TICK = 1.0
GRACE = 5.0
NEVER = -(10**18)


class Keeper:
    """The thread beside a worker's loop."""

    def __init__(self, worker: "Running", bench: Bench, store: Store, row: Worker) -> None:
        self._worker = worker
        self._store = store
        self._row = row
        self._clock = bench.app.clock
        self._settings = bench.app.config.worker
        self._reaper = Reaper(bench, store, worker.announce)
        duties: list[Duty] = [self._reaper, Pruner(store), Sampler(store, self._clock), Merger(store)]
        duties += [Redriver(store, self._clock, Reshaper(bench.app)), Sealer(store)]
        duties.append(Operator(store, self._clock, workshop_of(bench.app)))
        duties.append(Trimmer(store, self._clock, bench.app.config.retention, worker.tell))
        if rules := automatic_rules(bench.app.config):
            duties.append(Ruler(store, self._clock, rules, worker.tell))
        self._duties = Duties(store, self._clock, row.id, duties, self._settings.lease)
        self._beaten_at = NEVER
        self._shown: tuple[str, ...] = ()
        self._stopped = threading.Event()
        self._faults: set[str] = set()
        self._presence: Presence | None = None
        self._thread = threading.Thread(target=self._run, name="redrive-keeper", daemon=True)

    async def start(self) -> None:
        """Show that this worker lives, before it claims anything."""
        if self._store.home is not None:
            self._presence = Presence(Path(self._store.home), self._row.id)
            self._row = msgspec.structs.replace(
                self._row, lock_device=self._presence.device, lock_inode=self._presence.inode
            )
        try:
            await self._beat()
        except BaseException:
            self._take_sign_away()
            raise
        self._thread.start()

    async def stop(self) -> None:
        """The worker has settled everything and leaves in peace."""
        self._stopped.set()
        await asyncio.to_thread(self._thread.join, GRACE)
        with suppress(StoreError):  # without a store to tell, others see it by the lock and by the row that ages
            await self._store.workers.leave(self._row.id)
        self._take_sign_away()

    def _take_sign_away(self) -> None:
        if self._presence is not None:
            self._presence.close()

    # the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tick = min(TICK, self._settings.heartbeat / SECOND / 2)
        with asyncio.Runner() as runner:
            while not self._stopped.is_set():
                runner.run(self._guarded_tick())
                self._worker.looked()
                self._stopped.wait(tick)

    async def _guarded_tick(self) -> None:
        """Whatever goes wrong, the next heartbeat follows: without it the worker would lose what it runs."""
        try:
            await self._tick()
        except StoreError as error:
            self._worker.tell_outage(error)
        except Exception as error:  # noqa: BLE001 - it is told, and the next heartbeat matters more
            text = f"{type(error).__name__}: {error}"
            if text not in self._faults:
                self._faults.add(text)
                self._worker.tell("worker.fault", worker=self._row.id, error=text)

    async def _tick(self) -> None:
        self._worker.supervised_beat()
        due = self._clock.steady() - self._beaten_at >= self._settings.heartbeat
        if due:
            await self._extend()
        if due or self._worker.row(self._row).running != self._shown:
            await self._beat()
        await self._take_over()
        await self._duties.poll()

    async def _beat(self) -> None:
        row = self._worker.row(self._row)
        steady = self._clock.steady()
        if await self._store.workers.beat(row, self._settings.lease) == "drain":
            self._worker.drain()
        self._beaten_at, self._shown = steady, row.running

    async def _extend(self) -> None:
        held = self._worker.held()
        if held:
            reached("heartbeat.sent.before")
            lost = await self._store.jobs.extend([Lease(job.id, job.fence) for job in held], self._settings.lease)
            reached("heartbeat.sent")
            if lost:
                self._worker.lose([job for job in held if job.id in lost])

    async def _take_over(self) -> None:
        """Look at the locks of this host; ask the store only when another worker has one here."""
        if self._presence is None or not _others(self._presence.path):
            return
        workers = await self._store.workers.find()
        for worker in workers:
            if worker.host == self._row.host and worker.boot == self._row.boot and self._is_gone(worker):
                await self._bury_worker(worker)
        known = {self._row.id, *(worker.id for worker in workers)}
        for id in sweep(self._presence.path.parent, known, self._settings.lease / SECOND):
            await self._store.workers.leave(id)  # it holds no lease, or the store would know it

    def _is_gone(self, worker: Worker) -> bool:
        home = Path(self._store.home or "")
        return worker.id != self._row.id and gone(home, worker.id, worker.lock_device, worker.lock_inode)

    async def _bury_worker(self, worker: Worker) -> None:
        jobs = 0
        while taken := await self._reaper.reap([worker.id], f"its worker {worker.id} died"):
            jobs += taken
        await self._store.workers.leave(worker.id)
        first = cleanup(Path(self._store.home or ""), worker.id, worker.lock_device, worker.lock_inode)
        if first or jobs:  # another worker may be at it in the same moment: it is told once
            await self._store.journal.note("worker.lost", worker=worker.id, text=f"{jobs} jobs taken over")
            self._worker.tell("worker.lost", worker=worker.id, cause="its process is gone", jobs=jobs)


def _others(own: Path) -> bool:
    """Whether any other worker has a lock file here."""
    return any(path.name not in (own.name, WRITE_LOCK) for path in own.parent.glob("*.lock"))

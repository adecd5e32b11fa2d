"""Workers and duties in memory."""

from typing import Literal

import msgspec

from redrive.store import Worker
from redrive.stores.memory.rows import Duty, Memory, Present


class MemoryWorkers:
    """Who is there to run jobs."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def beat(self, worker: Worker, lease: int) -> Literal["drain"] | None:
        """Say that this worker lives for `lease` microseconds more; answers the order left for it."""
        clock = self._memory.clock
        with self._rows.lock:
            before = self._rows.workers.get(worker.id)
            order = before.worker.order if before else None
            seen = msgspec.structs.replace(worker, beat_at=clock.now(), order=order)
            self._rows.workers[worker.id] = Present(seen, clock.steady() + lease, self._memory.boot)
            return order

    async def leave(self, worker: str) -> None:
        """This worker ends in peace; its duties are free."""
        with self._rows.lock:
            self._rows.workers.pop(worker, None)
            for name in [name for name, duty in self._rows.duties.items() if duty.holder == worker]:
                del self._rows.duties[name]

    async def find(self) -> list[Worker]:
        """The workers whose last beat still counts, and those that still hold leases."""
        with self._rows.lock:
            holders = {self._rows.jobs[each].worker for each in self._rows.leased}
            present = self._rows.workers.values()
            return [each.worker for each in present if self._runs(each) or each.worker.id in holders]

    async def tell(self, worker: str, order: Literal["drain"], actor: str) -> bool:
        """Leave an order for a worker; False when there is none of that id."""
        with self._rows.lock:
            present = self._rows.workers.get(worker)
            if present is None:
                return False
            present.worker = msgspec.structs.replace(present.worker, order=order)
            self._memory.note("worker.told", worker=worker, actor=actor, text=order)
            return True

    async def duty(self, name: str, holder: str, lease: int) -> bool:
        """Take or keep a duty for `lease` microseconds; False while somebody else has it."""
        now = self._memory.clock.steady()
        with self._rows.lock:
            duty = self._rows.duties.get(name)
            if duty is not None and duty.holder != holder and self._runs(duty):
                return False
            self._rows.duties[name] = Duty(holder, now + lease, self._memory.boot)
            return True

    def _runs(self, term: Present | Duty) -> bool:
        """Whether its time has not ended; what another boot began has."""
        return term.boot == self._memory.boot and term.until > self._memory.clock.steady()

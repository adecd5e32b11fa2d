"""What a worker has in hand: the jobs whose leases are its own, and the attempts at them that run."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from redrive.attempt import Waited
from redrive.bench import Bench, Underway
from redrive.errors import ConfigError
from redrive.job import Job
from redrive.store import AnySettlement, Released
from redrive.straight import straight
from redrive.task import completed

if TYPE_CHECKING:
    from redrive.slots import Slots

LOST = "its lease was lost"


class Hands:
    """Begins attempts and hears of their ends; `told` gets what is to be settled."""

    def __init__(self, bench: Bench, slots: "Slots", told: Callable[[AnySettlement], None]) -> None:
        self._bench = bench
        self._slots = slots
        self._told = told
        self.held: dict[str, Job] = {}
        """Every job with a lease of ours: those that run, and those whose end is not written yet."""
        self.running: dict[str, Underway] = {}
        self._strays: set[Underway] = set()

    def begin(self, job: Job) -> None:
        """Start an attempt."""
        job = self._completed(job)
        earlier = self.running.get(job.id)
        if earlier is not None:
            self._overtaken(earlier, job.id)
        self._slots.take(job)
        self.held[job.id] = job
        underway = straight(self._bench, job, self._ended) or Waited(self._bench, job, self._ended)
        self.running[job.id] = underway
        underway.begin()

    def _completed(self, job: Job) -> Job:
        try:
            return completed(job, self._bench.app.registry.get(job.task))
        except ConfigError:  # its policy is looked for again when it has failed, and said there
            return job

    def _overtaken(self, earlier: Underway, id: str) -> None:
        """Its lease was lost, and has come back to this very worker before it has ended."""
        self._strays.add(earlier)
        self._bench.app.events.emit("job.late", self.held[id])
        earlier.cancel(LOST)

    def _ended(self, underway: Underway, settlement: AnySettlement) -> None:
        job = settlement.job
        self._slots.give(job)
        if self.running.get(job.id) is underway:
            del self.running[job.id]
            self._told(settlement)
        else:
            self._strays.discard(underway)

    def let_go(self, job: Job) -> None:
        """Its end is written, or somebody else has it."""
        if self.held.get(job.id) is job:
            del self.held[job.id]

    def give_back(self) -> None:
        """Whatever runs still is over for the store; the handlers are strays now."""
        now = self._bench.app.clock.now()
        for id in list(self.running):
            self._strays.add(self.running.pop(id))
            job = self.held[id]
            self._told(Released(job=job, at=now, why="its worker left while it ran", suspect=job.suspect))

    def lose(self, jobs: Iterable[Job]) -> None:
        """These leases are ours no longer: stop their handlers."""
        for job in jobs:
            if job.id in self.running and self.held[job.id] is job:
                self.running[job.id].cancel(LOST)

    def interrupt(self, why: str) -> None:
        """Let everything that runs come to its end."""
        for underway in tuple(self.running.values()):
            underway.cancel(why)

    def abandon(self, why: str) -> None:
        """Nobody waits any more, for strays neither."""
        for underway in (*self.running.values(), *self._strays):
            underway.cancel(why)

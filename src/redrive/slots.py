"""How much a worker can take: slots on the loop, in threads and in child processes, and of each queue."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from redrive.job import Job
from redrive.store import Want
from redrive.task import Registry, Task


class Slots:
    """Counts what runs where, and says what could be started."""

    def __init__(
        self, registry: Registry, sizes: Mapping[str, int], queues: Mapping[str, int | None] | None, apart: bool
    ) -> None:
        self._registry = registry
        self.sizes = dict(sizes)
        self._queues = queues
        self._apart = apart
        self._taken: Counter[str] = Counter()
        self._of_queue: Counter[str] = Counter()
        self.stuck = 0

    @property
    def total(self) -> int:
        """All slots of the kinds that some task needs."""
        return sum(self.sizes[kind] for kind in self._kinds())

    def kind(self, job: Job) -> str:
        """Where this job runs."""
        task = self._registry.get(job.task)
        if task is None:
            return "loop"
        if self._apart and job.suspect:
            return "process"
        return self._kind(task)

    def _kind(self, task: Task[..., Any]) -> str:
        if self._apart and task.options.isolation == "process":
            return "process"
        return "loop" if task.runs_on_loop else "thread"

    def _kinds(self) -> set[str]:
        return {self._kind(task) for task in self._registry.all().values()} or {"loop"}

    def take(self, job: Job) -> None:
        """A job begins."""
        self._taken[self.kind(job)] += 1
        self._of_queue[job.queue] += 1

    def give(self, job: Job) -> None:
        """A job has ended."""
        self._taken[self.kind(job)] -= 1
        self._of_queue[job.queue] -= 1

    def free(self, kind: str) -> int:
        """Free slots of a kind; a thread that outlived its deadline still takes one."""
        stuck = self.stuck if kind == "thread" else 0
        return self.sizes[kind] - self._taken[kind] - stuck

    def open(self) -> int:
        """How many jobs could be started whatever tasks they are of, full kinds left out."""
        return min((free for kind in self._kinds() if (free := self.free(kind)) > 0), default=0)

    def want(self, worker: str, lease: int) -> Want | None:
        """What to claim now; None when nothing can be started."""
        limit = self.open()
        queues = self._open_queues()
        if limit <= 0 or (queues is not None and not queues):
            return None
        return Want(
            worker=worker,
            limit=limit,
            lease=lease,
            queues=queues,
            suspects=not self._apart or self.free("process") > 0,
            without=self._full_tasks(),
        )

    def _open_queues(self) -> dict[str, int] | None:
        if self._queues is None:
            return None
        largest = max(self.sizes.values())
        free = {queue: (largest if cap is None else cap) - self._of_queue[queue] for queue, cap in self._queues.items()}
        return {queue: count for queue, count in free.items() if count > 0}

    def _full_tasks(self) -> tuple[str, ...]:
        full = {kind for kind in self._kinds() if self.free(kind) <= 0}
        if not full:
            return ()
        return tuple(
            name
            for name in self._registry.names()
            if (task := self._registry.get(name)) is not None and self._kind(task) in full
        )

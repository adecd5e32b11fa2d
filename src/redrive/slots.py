"""How much a worker can take: slots on the loop, in threads and in child processes, and of each queue.

Two things make this more than counting. A claim brings jobs of any task, so its limit must fit the kind of slot that is
scarcest; and a suspect must run alone: in a child process, or where no child can import the app, in a worker that runs
nothing else meanwhile.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redrive.errors import UsageError
from redrive.job import Job
from redrive.store import Want
from redrive.task import Registry, Task

GLANCE = 0.05
"""So many seconds after it last looked at everything, a busy worker looks again for suspects and isolated tasks."""


class Slots:
    """Counts what runs where, and says what could be started."""

    def __init__(
        self, registry: Registry, sizes: Mapping[str, int], queues: Mapping[str, int | None] | None, apart: bool
    ) -> None:
        self._registry = registry
        self._version = -1
        self._kind_of: dict[str, str] = {}
        self._queues = queues
        self._taken: Counter[str] = Counter()
        self._of_queue: Counter[str] = Counter()
        self._of_job: dict[tuple[str, int], str] = {}
        """The kind of slot that each has taken: a task may be registered anew while it runs."""
        self._alone: set[str] = set()
        self.sizes = dict(sizes)
        self.apart = apart
        self.stuck: Counter[str] = Counter()

    @property
    def kinds(self) -> set[str]:
        """The kinds of slots that some task here needs."""
        return set(self._kinds_of_tasks().values()) or {"loop"}

    @property
    def total(self) -> int:
        """All slots of the kinds that some task needs."""
        return sum(self.sizes[kind] for kind in self.kinds)

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""
        return not any(self._taken.values())

    @property
    def given_over(self) -> bool:
        """Whether a suspect runs in this very process, beside which nothing else may be started."""
        return bool(self._alone)

    def kind(self, job: Job) -> str:
        """Where this job runs."""
        kind = self._kinds_of_tasks().get(job.task)
        if kind is None:
            return "loop"
        return "process" if self.apart and job.suspect else kind

    def _kinds_of_tasks(self) -> dict[str, str]:
        """By every name that is answered to; made anew when a task has been registered since."""
        if self._version != self._registry.version:
            self._version = self._registry.version
            tasks = ((name, self._registry.get(name)) for name in self._registry.names())
            self._kind_of = {name: self._kind(task) for name, task in tasks if task is not None}
        return self._kind_of

    def _kind(self, task: Task[..., Any]) -> str:
        if self.apart and task.options.isolation == "process":
            return "process"
        return "loop" if task.runs_on_loop else "thread"

    def take(self, job: Job) -> None:
        """A job begins."""
        kind = self._of_job[job.id, job.fence] = self.kind(job)
        self._taken[kind] += 1
        self._of_queue[job.queue] += 1
        if job.suspect and not self.apart:
            self._alone.add(job.id)

    def give(self, job: Job) -> None:
        """A job has ended."""
        self._taken[self._of_job.pop((job.id, job.fence))] -= 1
        self._of_queue[job.queue] -= 1
        if self._alone:
            self._alone.discard(job.id)

    def free(self, kind: str) -> int:
        """Free slots of a kind; a handler that outlived its deadline still takes one."""
        return self.sizes[kind] - self._taken[kind] - self.stuck[kind]

    def room(self, kinds: Iterable[str]) -> int:
        """How many jobs could be started whichever of these kinds they need, full ones left out."""
        return min((free for kind in kinds if (free := self.free(kind)) > 0), default=0)

    def open_queues(self) -> dict[str, int] | None:
        """The queues that may still be taken from, with how many; None for every queue."""
        if self._queues is None:
            return None
        largest = max(self.sizes.values())
        free = {queue: (largest if cap is None else cap) - self._of_queue[queue] for queue, cap in self._queues.items()}
        return {queue: count for queue, count in free.items() if count > 0}

    def tasks_without_slot(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Every name of a task whose kind is full, or is none of these."""
        able = {kind for kind in kinds if self.free(kind) > 0}
        if able >= self.kinds:
            return ()
        return tuple(sorted(name for name, kind in self._kinds_of_tasks().items() if kind not in able))


class Appetite:
    """What a worker asks for, turn by turn.

    While no suspect is about and no task is isolated, each claim asks for everything that fits the free slots. Else
    most claims leave those out, so that the few slots of child processes do not make every claim small; each `GLANCE`,
    and whenever such a claim came back short, one asks for everything.
    """

    def __init__(self, slots: Slots, worker: str, lease: int) -> None:
        self._slots = slots
        self._worker = worker
        self._lease = lease
        self._careful = True
        self._short = True
        self._glanced_at = -math.inf
        self.whole = True
        """Whether the last want left out nothing that could have been started."""

    def want(self, now: float) -> Want | None:
        """What to claim now; None when nothing can be started."""
        slots = self._slots
        if slots.given_over:
            self.whole = True
            return None
        if not slots.apart:
            return self._in_this_process()
        kinds = slots.kinds
        if not self._careful and "process" not in kinds:
            return self._asked(kinds, suspects=slots.free("process") > 0)
        others = kinds - {"process"}
        if self._short or now - self._glanced_at >= GLANCE or not slots.room(others):
            self._glanced_at = now
            return self._asked(kinds | {"process"}, suspects=slots.free("process") > 0)
        return self._asked(others, suspects=False, whole=False)

    def _in_this_process(self) -> Want | None:
        """No child can run a suspect: one is taken, by itself, when nothing else runs."""
        slots = self._slots
        if slots.idle and self._short:
            return self._asked(slots.kinds, suspects=True, most=1)
        return self._asked(slots.kinds, suspects=False, whole=not slots.idle)

    def _asked(self, kinds: set[str], *, suspects: bool, whole: bool = True, most: int | None = None) -> Want | None:
        self.whole = whole
        limit = self._slots.room(kinds)
        queues = self._slots.open_queues()
        if limit <= 0 or (queues is not None and not queues):
            return None
        return Want(
            worker=self._worker,
            limit=min(limit, most or limit),
            lease=self._lease,
            queues=queues,
            suspects=suspects,
            without=self._slots.tasks_without_slot(kinds),
        )

    def came(self, want: Want, jobs: Sequence[Job]) -> None:
        """What the claim brought."""
        if any(job.suspect for job in jobs):
            self._careful = True
        elif self.whole and want.suspects:
            self._careful = False
        self._short = len(jobs) < want.limit


def slot_count(name: str, given: int | None, default: int) -> int:
    """A number of slots as it was given, or the default."""
    if given is None:
        return default
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise UsageError(f"{name}={given!r} is not a number of slots; write a whole number from 1")
    return given


def queue_caps(queues: Sequence[str] | Mapping[str, int | None] | None) -> dict[str, int | None] | None:
    """Queues with the slots that each may take; None for every queue."""
    if isinstance(queues, str):
        raise UsageError(f"queues={queues!r} is one text; write queues=[{queues!r}]")
    if queues is None or isinstance(queues, Mapping):
        return {name: _cap(name, given) for name, given in (queues or {}).items()} or None
    return dict.fromkeys(queues) or None


def _cap(queue: str, given: int | None) -> int | None:
    return None if given is None else slot_count(f"queues {queue}", given, given)

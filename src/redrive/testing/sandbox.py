"""An app as a test wants it: its jobs in memory, its time and chance in the test's hand, everything put back after."""

import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from redrive import Redrive, Task, results
from redrive.clock import Duration, ManualClock
from redrive.errors import NotFound
from redrive.events import Event
from redrive.job import Job, State, decode
from redrive.letter import Letter
from redrive.store import Finished, Record
from redrive.stores.memory import MemoryStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """One job as a test wants to know it."""

    id: str
    task: str
    queue: str
    arguments: Any
    """What the handler gets, by name."""
    state: State
    attempts: int
    due_at: int
    key: str | None = None
    error: str | None = None
    """What the last failed attempt said."""
    result: Any = None
    """What the handler returned, if it could be kept."""


class Sandbox:
    """The jobs of one app in one test."""

    def __init__(self, app: Redrive, store: MemoryStore, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock
        self._store = store
        self._added: list[Job] = []

    def __repr__(self) -> str:
        return f"<{len(self._added)} jobs of {self.app!r}>"

    def _heard(self, event: Event) -> None:
        if event.name == "job.enqueued" and event.job is not None:
            self._added.append(event.job)

    def drain(self, timeout: Duration = 30) -> int:
        """Run all jobs and the retries that follow, moving the clock on; answers how many were done or buried."""
        return self.app.drain(timeout)

    async def adrain(self, timeout: Duration = 30) -> int:
        """Run all jobs and the retries that follow, moving the clock on; answers how many were done or buried."""
        return await self.app.adrain(timeout)

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self.clock.advance(duration)

    @property
    def jobs(self) -> list[SeenJob]:
        """Every job that was enqueued in this test, in that order, as it is now."""
        return [self._seen(job) for job in self._added]

    def jobs_of(self, task: "Task[..., Any] | str") -> list[SeenJob]:
        """The jobs of one task."""
        name = task if isinstance(task, str) else task.name
        return [job for job in self.jobs if job.task == name]

    def arguments(self, task: "Task[..., Any] | str") -> list[Any]:
        """With what arguments a task was enqueued, each time."""
        return [job.arguments for job in self.jobs_of(task)]

    def states(self, task: "Task[..., Any] | str") -> list[str]:
        """The states of a task's jobs."""
        return [str(job.state) for job in self.jobs_of(task)]

    @property
    def letters(self) -> list[Letter]:
        """The dead letters, in the order in which their jobs were enqueued."""
        letters = (_at_once(self._store.letters.get(job.id)) for job in self._added)
        return [letter for letter in letters if letter is not None]

    def _seen(self, added: Job) -> SeenJob:
        record = _at_once(self._store.jobs.get(added.id)) or Record()
        now, finished = record.job, record.finished
        return SeenJob(
            id=added.id,
            task=added.task,
            queue=(now or added).queue,
            arguments=decode(added.payload),
            state=now.state if now else State.DONE,
            attempts=now.attempts if now else (finished.attempts if finished else 0),
            due_at=(now or added).due_at,
            key=added.key,
            error=f"{record.failures[-1].type}: {record.failures[-1].message}" if record.failures else None,
            result=_result(finished, added.short),
        )


Sandboxes = Callable[[Redrive], Sandbox]


@contextmanager
def sandbox(app: Redrive) -> Iterator[Sandbox]:
    """The app with its jobs in memory, until the end."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    box = Sandbox(app, store, clock)
    with app.standing_in(store, clock, random.Random(0)):
        app.subscribe(box._heard)
        try:
            yield box
        finally:
            app.events.forget(box._heard)


def _result(finished: Finished | None, short: str) -> Any:
    try:
        return results.opened(finished.result, short) if finished else None
    except NotFound:
        return None


def _at_once(asking: Coroutine[Any, Any, T]) -> T:
    """The answer of the store in memory, which never waits: so that a test may look from inside a loop or outside."""
    try:
        asking.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    asking.close()
    raise AssertionError("the store in memory waited for something")

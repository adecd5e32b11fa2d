"""What the random machine knows of jobs and redrives: the plain reference that a store is held against."""

from dataclasses import dataclass, field

from redrive.job import Job, State
from redrive.store import Plan, RedriveState


@dataclass
class Expected:
    """What the reference knows of a job."""

    job: Job
    state: State
    due_at: int
    epoch: int = 1
    attempts: int = 0
    starts: int = 0
    fence: int = 0
    failures: int = 0
    deadline: int = 0
    ended_at: int = 0
    worker: str | None = None
    letter: bool = False
    by_hand: bool = False  # discarded as a letter
    failed_as: int = 0  # the how many-th failure of all its last one was

    @property
    def place(self) -> tuple[int, int, str]:
        """Where it stands in line."""
        return (-self.job.priority, self.due_at, self.job.id)


@dataclass
class Driven:
    """What the reference knows of a redrive."""

    id: str
    plan: Plan
    cut: int  # how many failures there were when it was opened
    version: int = 1
    state: RedriveState = "freezing"
    stage: int = 0
    pending: dict[str, int] = field(default_factory=dict)  # the epochs in which its letters had died

    def means(self, each: Expected) -> bool:
        """Whether its filter fits a job that is dead."""
        return self.plan.filter in ("", f"queue = {each.job.queue}")

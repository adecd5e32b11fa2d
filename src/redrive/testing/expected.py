"""What the random machine knows of jobs and redrives: the plain reference that a store is held against."""

from dataclasses import dataclass, field

from redrive.eligibility import guarded
from redrive.job import Job, State
from redrive.store import Mark, OperationVerb, Plan, RedriveState, Settings

MAX_EPOCHS = Settings().max_epochs


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
    group: str = ""
    returns: int = 0
    review: str | None = None
    rule: str | None = None
    edits: list[tuple[str, bytes, int]] = field(default_factory=list)  # by which operation, of what, in which epoch

    @property
    def place(self) -> tuple[int, int, str]:
        """Where it stands in line."""
        return (-self.job.priority, self.due_at, self.job.id)

    def dies(self, group: str) -> None:
        """It has a letter now, or has it again."""
        back = self.letter and self.group == group
        self.letter, self.group, self.rule, self.returns = True, group, None, self.returns + 1 if back else 0
        if self.returns >= MAX_EPOCHS and self.review is None:
            self.review = guarded(MAX_EPOCHS)


@dataclass
class Operated:
    """What the reference knows of a bulk operation."""

    id: str
    verb: OperationVerb
    cut: int  # how many failures there were when it was opened
    opened_at: int
    undo: str = ""
    running: bool = True
    mark: Mark | None = None
    done: int = 0


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

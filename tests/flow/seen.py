"""What tests of the flow look at: the store's own answers, in a few words."""

from redrive import Enqueued, Redrive
from redrive.events import Recorder
from redrive.job import Job, State
from redrive.letter import Letter
from redrive.store import Record


async def record(app: Redrive, job: Enqueued | str) -> Record:
    """Everything that the store knows of a job."""
    found = await app.store.jobs.get(job if isinstance(job, str) else job.id)
    assert found is not None
    return found


async def live(app: Redrive, job: Enqueued | str) -> Job:
    """A job that is not done."""
    found = (await record(app, job)).job
    assert found is not None
    return found


async def state(app: Redrive, job: Enqueued | str) -> State:
    """The state of a job."""
    found = await record(app, job)
    return found.job.state if found.job else State.DONE


async def letter(app: Redrive, job: Enqueued | str) -> Letter:
    """The letter of a dead job."""
    found = await app.store.letters.get(job if isinstance(job, str) else job.id)
    assert found is not None
    return found


async def journal(app: Redrive, job: Enqueued | str) -> list[str]:
    """The names of a job's entries, oldest first."""
    entries = await app.store.journal.events(limit=1_000, job=job if isinstance(job, str) else job.id)
    return [entry.event for entry in entries]


def names(told: Recorder) -> list[str]:
    """What was told, by name."""
    return [event.name for event in told.events]

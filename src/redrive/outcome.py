"""How one attempt ended, before anybody has decided what follows from it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""

    result: object


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, or could not be called."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Interrupted:
    """We stopped the handler ourselves: the worker drains, or the lease is lost."""

    why: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The process that ran this job alone died by itself."""

    cause: str
    memory: int | None = None
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The process that ran this job ended, and not by the job's own doing as far as anyone can tell."""

    cause: str


Outcome = Succeeded | Failed | Interrupted | Crashed | Lost

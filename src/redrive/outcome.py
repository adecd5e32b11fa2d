"""How one attempt ended, before anybody has decided what follows from it."""

import msgspec


class Succeeded(msgspec.Struct, frozen=True):
    """The handler returned."""

    result: object


class Failed(msgspec.Struct, frozen=True):
    """The handler raised, or could not be called."""

    error: BaseException


class Interrupted(msgspec.Struct, frozen=True):
    """We stopped the handler ourselves: the worker drains, or the lease is lost."""

    why: str


class Crashed(msgspec.Struct, frozen=True):
    """The process that ran this job alone died by itself."""

    cause: str
    memory: int | None = None
    stderr: str = ""


class Lost(msgspec.Struct, frozen=True):
    """The process that ran this job ended, and not by the job's own doing as far as anyone can tell."""

    cause: str


Outcome = Succeeded | Failed | Interrupted | Crashed | Lost

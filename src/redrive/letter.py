"""A dead letter and what it is made of: failures, and the group of equal ones."""

from enum import StrEnum

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that failed, with everything needed to understand it."""

    reason: str
    type: str
    message: str
    traceback: str | None = None
    fingerprint: str = ""
    title: str = ""
    retryable: bool = True
    epoch: int = 1
    attempt: int = 0
    at: int = 0
    duration: int = 0
    step: str | None = None
    host: str = ""
    process: int = 0
    release: str | None = None
    worker: str = ""
    cause: str | None = None  # how the process died: signal, exit code, memory, last lines of stderr
    truncated: bool = False
    frame: str = ""  # where in the user's own code, as far as that takes part in the fingerprint
    plain: str = ""  # the fingerprint without the project's own rules, when they have given it another one
    plain_title: str = ""


class GroupState(StrEnum):
    OPEN = "open"
    MUTED = "muted"
    CLOSED = "closed"
    REOPENED = "reopened"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wrote about a group or a letter; it outlives every retry."""

    at: int
    actor: str
    text: str
    group: bool = False  # about the group of the letter that it is shown with


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All letters with the same cause."""

    fingerprint: str
    title: str
    task: str
    reason: str
    type: str
    count: int
    first_seen: int
    last_seen: int
    sample: str  # a job id
    state: GroupState = GroupState.OPEN
    owner: str | None = None
    muted_until: int | None = None  # None: until somebody opens it again
    closed_in: str | None = None  # the release that fixed it
    notes: tuple[Note, ...] = ()  # only of a group that was asked for by its name


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was given before somebody edited its letter."""

    version: int
    payload: bytes
    at: int  # when it was replaced
    actor: str


class LetterState(StrEnum):
    OPEN = "open"
    REDRIVEN = "redriven"  # its job has been given a new epoch that has not ended
    CLOSED = "closed"  # its job succeeded in a later epoch
    DISCARDED = "discarded"


class Letter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a job given up on."""

    id: str  # the job's
    task: str
    queue: str
    priority: int
    state: LetterState
    reason: str
    type: str
    message: str
    group: str
    attempts: int
    epochs: int
    first_failed_at: int
    failed_at: int
    host: str
    worker: str
    release: str | None = None
    version: int = 1
    owner: str | None = None  # its own, else its group's
    review: str | None = None  # why it needs a person before it may run again
    returns: int = 0  # how often in a row it came back with the cause that it had before
    rule: str | None = None  # the rule that has held it, ended it or told of it since it died
    workflow: str | None = None  # the batch that its job belongs to
    payload: bytes | None = None
    headers: bytes | None = None
    payload_version: int = 1
    replaced: tuple[Replaced, ...] = ()  # the payloads before this one, the original first
    failures: tuple[Failure, ...] = ()
    notes: tuple[Note, ...] = ()  # its own and its group's, oldest first

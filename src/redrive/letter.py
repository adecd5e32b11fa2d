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


class GroupState(StrEnum):
    OPEN = "open"
    MUTED = "muted"
    CLOSED = "closed"
    REOPENED = "reopened"


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
    workflow: str | None = None  # the batch that its job belongs to
    payload: bytes | None = None
    headers: bytes | None = None
    failures: tuple[Failure, ...] = ()

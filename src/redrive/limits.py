"""The part of a policy that is data and travels in the job, because who finds a lost job has no handler code."""

from functools import lru_cache
from typing import Any

import msgspec

from redrive.backoff import Backoff, Jitter
from redrive.job import Job

MAX_ATTEMPTS = 3
CRASH_LIMIT = 3


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a policy that is data, as it travels in `Job.policy`; None: as the task says."""

    max_attempts: int | None = None
    crash_limit: int | None = None
    within: int | None = None  # microseconds; 0: no deadline
    timeout: int | None = None  # microseconds
    lost_delay: int | None = None
    crash_delay: int | None = None
    backoff: Backoff | None = None  # only when it was asked for beside the task's policy
    jitter: Jitter | None = None
    before: "Limits | None" = None  # its own, while those of a redrive stand in their place


def encode_limits(limits: Limits) -> bytes:
    """Limits as they stand in a job."""
    return msgspec.json.encode(limits)


@lru_cache(maxsize=4096)
def limits_of(policy: bytes | None) -> Limits:
    """The limits a job carries; a backoff or jitter that this version does not know counts as none given."""
    if not policy:
        return Limits()
    try:
        return msgspec.json.decode(policy, type=Limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _known_limits(policy)


def _known_limits(policy: bytes) -> Limits:
    try:
        told = msgspec.json.decode(policy, type=dict[str, Any])
        numbers = {key: value for key, value in told.items() if key not in ("backoff", "jitter", "before")}
        return msgspec.convert(numbers, type=Limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Limits()


KEPT = b'"before"'
"""Stands in limits that a redrive has put in the place of a job's own."""


@lru_cache(maxsize=4096)
def carried(policy: bytes | None, instead: Limits | None) -> bytes | None:
    """What a job carries into a new epoch: its own limits, with what is said instead, which holds for that epoch."""
    limits = limits_of(policy)
    own = limits.before or limits
    if instead is None:
        return policy if limits.before is None else encode_limits(own)
    said = {name: value for name in Limits.__struct_fields__ if (value := getattr(instead, name)) is not None}
    return encode_limits(msgspec.structs.replace(own, **said, before=own))


def attempts_of(job: Job) -> int:
    """How many attempts a job has at the most, as far as the job itself says."""
    return limits_of(job.policy).max_attempts or MAX_ATTEMPTS

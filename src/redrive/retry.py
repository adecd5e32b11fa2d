"""What follows from a failure: another attempt at a moment, or none. Pure: time and chance are arguments.

The numbers of a policy travel in the job (`Limits`), because who finds a lost job has no handler code; functions stay
with the task. What the job carries wins over what the task says.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal

from redrive.backoff import (
    BACKOFF_KEYS,
    JITTERS,
    LONGEST,
    Backoff,
    BackoffFunction,
    Delays,
    Jitter,
    backoff_from,
    delays,
    exponential,
    fixed,
    immediate,
    jittered,
    linear,
    one_name_each,
    span,
    spread,
    typical,
)
from redrive.clock import SECOND, Duration, Random, micros, spoken
from redrive.errors import ConfigError, RetryAfter, UsageError
from redrive.evidence import essence, is_a, lineage
from redrive.job import Job
from redrive.limits import CRASH_LIMIT, MAX_ATTEMPTS, Limits, attempts_of, encode_limits, limits_of
from redrive.reasons import RETRYABLE, Verdict, reason_named
from redrive.redact import class_name

__all__ = [
    "BURY",
    "DISCARD",
    "Backoff",
    "Decision",
    "Drop",
    "GiveUp",
    "Limits",
    "Retry",
    "RetryAt",
    "attempts_of",
    "decide",
    "decide_loss",
    "delays",
    "encode_limits",
    "exponential",
    "fixed",
    "immediate",
    "limits_of",
    "linear",
    "policy_from",
    "rides_out",
]

LOST_DELAY = SECOND
CRASH_DELAY = SECOND


class _End(Enum):
    BURY = "bury"
    DISCARD = "discard"

    def __repr__(self) -> str:
        return self.name


BURY = _End.BURY
"""In `on=`: make it a dead letter at once."""
DISCARD = _End.DISCARD
"""In `on=`: end the job without success and without a letter."""

Action = Any
"""A Retry, a duration, BURY, DISCARD, or a function of the exception that answers one of these."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again at this moment (microseconds of UTC)."""

    at: int
    note: str | None = None  # what went wrong while it was decided


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Make it a dead letter; `why` reads on: `exhausted 3 attempts`."""

    why: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """End it without a letter, because the policy says so."""

    reason: str
    note: str | None = None


Decision = RetryAt | GiveUp | Drop


class Retry:
    """How often, how fast and how long to try again, and what to do about which failure."""

    __slots__ = ("_arity", "backoff", "crash_limit", "jitter", "max_attempts", "on", "within")

    def __init__(
        self,
        max_attempts: int | None = None,
        *,
        backoff: Backoff | BackoffFunction | None = None,
        jitter: Jitter = "equal",
        within: Duration | None = None,
        on: Mapping[type[BaseException] | str, Action] | None = None,
        crash_limit: int = CRASH_LIMIT,
    ) -> None:
        self.backoff = exponential() if backoff is None else backoff
        self._arity = 0 if isinstance(self.backoff, Backoff) else _arity(self.backoff, "backoff")
        implied = len(self.backoff.delays) + 1 if isinstance(self.backoff, Delays) else MAX_ATTEMPTS
        self.max_attempts = _count(implied if max_attempts is None else max_attempts, "max_attempts")
        self.crash_limit = _count(crash_limit, "crash_limit")
        if jitter not in JITTERS:
            raise UsageError(f"jitter {jitter!r} is none of {', '.join(JITTERS)}")
        self.jitter = jitter
        self.within = None if within is None else span(within, "within")
        if on is not None and not isinstance(on, Mapping):
            raise UsageError(f"on={on!r} is no table; write on={{TimeoutError: '1m', 'validation': BURY}}")
        self.on = {_subject(key): _action(key, action) for key, action in (on or {}).items()}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("backoff", "jitter", "within", "on"))
        return f"Retry({self.max_attempts}, {shown}, crash_limit={self.crash_limit})"

    def limits(self, timeout: Duration | None = None) -> Limits:
        """The numbers of this policy, to travel with a job."""
        return Limits(
            max_attempts=self.max_attempts,
            crash_limit=self.crash_limit,
            within=self.within or 0,
            timeout=None if timeout is None else span(timeout, "timeout"),
        )


# --- deciding ---------------------------------------------------------------------------------------------------------


def decide(policy: Retry, job: Job, verdict: Verdict, error: BaseException, now: int, random: Random) -> Decision:
    """What follows from a failed attempt. `job.attempts` does not yet count it. Never raises."""
    error = essence(error)
    if verdict.reason == "buried":
        return GiveUp("not retryable (buried)", verdict.note)
    action, note = (None, None) if is_a(error, RetryAfter) else _chosen(policy, job, verdict, error)
    note = note or verdict.note
    match action:
        case _End.BURY:
            return GiveUp(f"buried by its policy ({verdict.reason})", note)
        case _End.DISCARD:
            return Drop(verdict.reason, note)
        case None if not verdict.retryable:
            return GiveUp(f"not retryable ({verdict.reason})", note)
    case = _Case(policy, job, error, verdict, random)
    if isinstance(action, Retry):
        case = _Case(action, job, error, verdict, random, outer=policy)
        action = None
    delay, fault = (action, None) if action is not None else case.delay()
    return case.settle(delay, now, note or fault)


@dataclass(slots=True)
class _Case:
    """One failed attempt under one policy; `outer` is the task's own when this one came from its `on=`."""

    policy: Retry
    job: Job
    error: BaseException
    verdict: Verdict
    random: Random
    outer: Retry | None = None

    @property
    def limits(self) -> Limits:
        return limits_of(self.job.policy)

    def delay(self) -> tuple[int, str | None]:
        """The wait before the next attempt, and what was wrong with the user's function if it did not answer."""
        wish = self.verdict.retry_after
        if wish is not None and is_a(self.error, RetryAfter):
            return max(0, min(wish, LONGEST)), None
        delay, fault = self._backoff()
        return max(delay, min(wish or 0, LONGEST)), fault

    def _backoff(self) -> tuple[int, str | None]:
        attempt = self.job.attempts + 1
        jitter = self.limits.jitter or self.policy.jitter
        backoff = self.limits.backoff or self.policy.backoff
        if isinstance(backoff, Backoff):
            return jittered(backoff, attempt, jitter, self.random), None
        arguments = (attempt,) if self.policy._arity == 1 else (attempt, self.job, self.error)
        delay, fault = _answer(backoff, arguments, "backoff", _seconds)
        if delay is None:
            fallback = jittered(exponential(), attempt, jitter, self.random)
            return fallback, fault or "the backoff function returned None; the default was used"
        return spread(delay, "equal" if jitter == "decorrelated" else jitter, self.random), None

    def settle(self, delay: int, now: int, note: str | None) -> Decision:
        """The next attempt after this delay, if the policy leaves one."""
        most = self._max_attempts()
        if self.job.attempts + 1 >= most:
            return GiveUp(_exhausted(most), note)
        over = _over(self.job, self._within(), now + delay, now)
        return GiveUp(over, note) if over else RetryAt(now + delay, note)

    def _max_attempts(self) -> int:
        carried = self.limits.max_attempts
        if self.outer is None or carried is None:
            return self.policy.max_attempts if carried is None else carried
        overridden = carried != self.outer.max_attempts
        return min(carried, self.policy.max_attempts) if overridden else self.policy.max_attempts

    def _within(self) -> int:
        carried = self.limits.within
        if self.outer is None or carried is None:
            return (self.policy.within or 0) if carried is None else carried
        return min((one for one in (carried, self.policy.within) if one), default=0)


def decide_loss(job: Job, kind: Literal["lost", "crashed"], now: int, random: Random) -> Decision:
    """What follows when the process of a job is gone; needs no handler code. The counts are those before this loss."""
    limits = limits_of(job.policy)
    if kind == "crashed":
        most = limits.crash_limit or CRASH_LIMIT
        if job.crashes + 1 >= most:
            return GiveUp(f"crashed {most} times" if most > 1 else "crashed once")
        pause = CRASH_DELAY if limits.crash_delay is None else limits.crash_delay
    else:
        most = attempts_of(job)
        if job.attempts + 1 >= most:
            return GiveUp(_exhausted(most))
        pause = LOST_DELAY if limits.lost_delay is None else limits.lost_delay
    at = now + spread(pause, "equal", random)
    over = _over(job, limits.within or 0, at, now)
    return GiveUp(over) if over else RetryAt(at)


def _exhausted(most: int) -> str:
    return f"exhausted {most} attempt{'s' if most != 1 else ''}"


def _over(job: Job, within: int, at: int, now: int) -> str | None:
    deadline = (job.epoch_at or job.created_at or now) + within
    return f"over its deadline of {spoken(within)}" if within and at > deadline else None


def _chosen(policy: Retry, job: Job, verdict: Verdict, error: BaseException) -> tuple[Action, str | None]:
    """What `on=` says: the nearest class of the exception first, then the reason."""
    subjects = [one for cls in lineage(error) for one in policy.on if one is cls] if policy.on else []
    if not subjects and verdict.reason not in policy.on:
        return None, None
    action = policy.on[subjects[0] if subjects else verdict.reason]
    if not isinstance(action, _Function):
        return action, None
    arguments = (error,) if action.arity == 1 else (job.attempts + 1, job, error)
    return _answer(action.function, arguments, "on=", _fixed_action)


def _answer(
    function: Callable[..., Any], arguments: tuple[Any, ...], name: str, read: Callable[[Any], Any]
) -> tuple[Any, str | None]:
    try:
        answer = function(*arguments)
        return None if answer is None else read(answer), None
    except BaseException as error:  # noqa: BLE001  a user's function; its job must not be lost for it
        return None, f"the {name} function failed ({class_name(error)}); the default was used"


def _seconds(answer: Any) -> int:
    return min(micros(answer), LONGEST)


def _fixed_action(answer: Any) -> Action:
    return _action("a function", answer) if isinstance(answer, Retry | _End) else _seconds(answer)


# --- reading what people write ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Function:
    function: Callable[..., Any]
    arity: int


def _arity(function: Any, name: str) -> int:
    """Whether a function takes one argument or (attempt, job, error)."""
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"{name} {function!r} is neither a function nor made by exponential(), linear(), fixed(), …")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for arity in (1, 3):
        try:
            signature.bind(*range(arity))
        except TypeError:
            continue
        return arity
    raise UsageError(f"the {name} function takes {signature}; it may take one argument or (attempt, job, error)")


def _count(value: int, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} {value!r} is not a count; write 1 or more")
    return value


def _subject(key: object) -> type[BaseException] | str:
    if isinstance(key, str) and key.strip():
        reason = reason_named(key)
        if reason not in RETRYABLE and re.fullmatch(r".*\..*|[A-Z]\w*(Error|Exception)", key.strip()):
            raise UsageError(f"on={{{key!r}: …}} is no reason; write the exception class itself, or a reason for it")
        return reason
    if isinstance(key, type) and issubclass(key, BaseException):
        return key
    raise UsageError(f"on={{{key!r}: …}}: a key is an exception class or a reason")


def _action(key: object, action: Action) -> Action:
    if isinstance(action, Retry) and action.on:
        raise UsageError(f"on={{{key!r}: Retry(on=…)}}: a policy inside on= cannot have an on= of its own")
    if isinstance(action, Retry | _End):
        return action
    if isinstance(action, int | float | str | timedelta):
        return span(action, f"on={{{key!r}}}", zero=True)
    if callable(action):
        return _Function(action, _arity(action, "on="))
    raise UsageError(f"on={{{key!r}: {action!r}}}: write a Retry, a duration, BURY, DISCARD or a function")


_PLAIN_KEYS = {name: name for name in ("max_attempts", "jitter", "within", "crash_limit", "on")} | {
    "max_retries": "max_attempts"
}
_POLICY_KEYS = (*_PLAIN_KEYS, *BACKOFF_KEYS)


def policy_from(table: Mapping[str, Any], where: str = "[retry]") -> Retry:
    """The policy of a table in the configuration, or one sentence about the key that is wrong."""
    for key in table:
        if key not in _POLICY_KEYS:
            near = get_close_matches(key, _POLICY_KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_POLICY_KEYS)}"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
    try:
        backoff = backoff_from(table)
        plain = one_name_each(table, _PLAIN_KEYS)
        if "on" in plain:
            plain["on"] = _actions_from(plain["on"], where)
        return Retry(backoff=backoff, **plain)
    except ConfigError:
        raise
    except UsageError as error:
        raise ConfigError(f"{where}: {error}") from None


def _actions_from(rows: object, where: str) -> dict[type[BaseException] | str, Action]:
    """`on` in a table: a reason, and `bury`, `discard`, a delay or a policy table."""
    if not isinstance(rows, Mapping):
        raise ConfigError(f"{where}: on = {rows!r} is not a table of reasons")
    ends = {end.value: end for end in _End}
    return {
        reason: policy_from(row, f"{where} on {reason}")
        if isinstance(row, Mapping)
        else ends.get(str(row).lower(), row)
        for reason, row in rows.items()
    }


def rides_out(policy: Retry) -> int | None:
    """How long an outage this policy survives on average, in microseconds; None when a function decides."""
    if not isinstance(policy.backoff, Backoff):
        return None
    pauses = policy.max_attempts - 1
    counted = min(pauses, 1_000)
    total = sum(typical(policy.backoff, attempt, policy.jitter) for attempt in range(1, counted + 1))
    if pauses > counted:
        total += (pauses - counted) * typical(policy.backoff, pauses, policy.jitter)
    return min(total, policy.within) if policy.within else total

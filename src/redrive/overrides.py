"""How redriven jobs are retried when it is not as their tasks say."""

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.backoff import Backoff, Delays, Fixed, delays, exponential, fixed, immediate, linear, span
from redrive.clock import SECOND, Duration
from redrive.errors import UsageError
from redrive.limits import Limits
from redrive.retry import Retry, policy_from

STRATEGIES = ("exponential", "linear", "fixed", "immediate", "delays")

_BASE, _CAP = 5 * SECOND, 300 * SECOND


def overrides(
    strategy: str | Backoff | Retry | None,
    base: Duration | None,
    max_delay: Duration | None,
    timeout: Duration | None,
    policies: Mapping[str, Mapping[str, Any]],
) -> Limits | None:
    """What the jobs carry instead of their own limits; None when all is as their tasks say.

    A base or a longest delay without a strategy means exponential. Delays that were written down, fixed or in a list,
    are kept to the second; the others have the jitter of the task.
    """
    limits = _limits(strategy, base, max_delay, policies)
    if timeout is None:
        return limits
    return msgspec.structs.replace(limits or Limits(), timeout=span(timeout, "timeout"))


def _limits(
    strategy: str | Backoff | Retry | None,
    base: Duration | None,
    max_delay: Duration | None,
    policies: Mapping[str, Mapping[str, Any]],
) -> Limits | None:
    if strategy is None and base is None and max_delay is None:
        return None
    if isinstance(strategy, str) and strategy not in STRATEGIES:
        strategy = _named(strategy, policies)
    if strategy is None or isinstance(strategy, str):
        return _of_backoff(_built(strategy or "exponential", base, max_delay))
    for name, value in (("base", base), ("max_delay", max_delay)):
        if value is not None:
            raise UsageError(f"{name}={value!r} says nothing beside a policy that is whole; leave it out")
    if isinstance(strategy, Retry):
        return _of_policy(strategy)
    if not isinstance(strategy, Backoff):
        raise UsageError(f"strategy={strategy!r} is none; there are {', '.join(STRATEGIES)}, and policies by name")
    return _of_backoff(strategy)


def _named(name: str, policies: Mapping[str, Mapping[str, Any]]) -> Retry:
    if name in policies:
        return policy_from(policies[name], f"[retry.{name}]")
    known = ", ".join((*STRATEGIES, *sorted(policies)))
    raise UsageError(f"strategy={name!r} is unknown; there are {known}, and each [retry.NAME] of the project file")


def _built(kind: str, base: Duration | None, max_delay: Duration | None) -> Backoff:
    first = None if base is None or kind == "delays" else span(base, "base")
    most = None if max_delay is None else span(max_delay, "max_delay")
    if most is not None and kind not in ("exponential", "linear"):
        raise UsageError(f"max_delay={max_delay!r} says nothing with {kind}; it bounds exponential and linear")
    match kind:
        case "immediate":
            if base is not None:
                raise UsageError(f"base={base!r} says nothing with immediate, which waits for nothing; leave it out")
            return immediate()
        case "delays":
            return _listed(base)
        case "fixed":
            if first is None:
                raise UsageError("strategy='fixed' needs the delay; give it as base, such as 30s")
            return fixed(first / SECOND)
    low = min(_BASE, most or _BASE) if first is None else first
    high = max(_CAP, low) if most is None else most
    return (exponential if kind == "exponential" else linear)(base=low / SECOND, cap=high / SECOND)


def _listed(base: Duration | None) -> Backoff:
    if base is None:
        raise UsageError("strategy='delays' needs the list; give it as base, such as 5,30,120")
    given = [piece.strip() for piece in base.split(",")] if isinstance(base, str) else [base]
    return delays(*given)


def _of_backoff(backoff: Backoff) -> Limits:
    """A list of n delays means n + 1 attempts."""
    return Limits(
        backoff=backoff,
        jitter="none" if isinstance(backoff, Fixed | Delays) else None,
        max_attempts=len(backoff.delays) + 1 if isinstance(backoff, Delays) else None,
    )


def _of_policy(policy: Retry) -> Limits:
    """The numbers of a policy; what it says of single reasons, and a function, stay where the policy is."""
    if not isinstance(policy.backoff, Backoff):
        raise UsageError("a backoff that is a function cannot travel with a job; give exponential(…), fixed(…), …")
    return Limits(
        max_attempts=policy.max_attempts,
        crash_limit=policy.crash_limit,
        within=policy.within or 0,
        backoff=policy.backoff,
        jitter=policy.jitter,
    )

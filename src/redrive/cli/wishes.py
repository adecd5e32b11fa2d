"""What a redrive was asked to do otherwise than usual, for its history."""

from collections.abc import Iterator

from redrive.backoff import Backoff, Delays, Exponential, Fixed, Linear
from redrive.clock import spoken
from redrive.limits import Limits
from redrive.redact import redact_text
from redrive.store import Plan


def otherwise(plan: Plan) -> Iterator[tuple[str, str]]:
    """Names and words; nothing when all was left as it is."""
    retry = ", ".join(_of_limits(plan.instead)) if plan.instead else ""
    if retry or plan.keep_attempts:
        yield "retry", ", ".join(filter(None, (retry, "attempts kept" if plan.keep_attempts else "")))
    if plan.settings:
        yield "set", ", ".join(redact_text(each) for each in plan.settings)
    if plan.patch is not None:
        yield "patch", ", ".join(f"{step.get('op')} {step.get('path')}" for step in plan.patch) or "of no steps"
    if plan.queue is not None:
        yield "queue", plan.queue
    if plan.priority is not None:
        yield "priority", str(plan.priority)
    if plan.order != "spread":
        yield "order", plan.order


def pace_asked(plan: Plan) -> Iterator[tuple[str, str]]:
    """The same of how many, how fast and how carefully, by the names of the flags."""
    if plan.limit is not None:
        yield "limit", f"{plan.limit:,}"
    if plan.rate is not None:
        yield "rate", _rate(plan.rate)
    if plan.parallel is not None:
        yield "parallel", f"{plan.parallel:,}"
    if plan.stages is not None:
        yield "ramp", ", ".join(f"{n:,}" for n in plan.stages) or "none"
    if plan.stop_at is not None:
        yield "stop_at", "never" if plan.stop_at == "never" else f"{plan.stop_at * 100:g}%"
    if plan.stage_timeout != Plan().stage_timeout:
        yield "stage_timeout", spoken(plan.stage_timeout)
    if plan.judge != "first":
        yield "judge", plan.judge
    if plan.force:
        yield "force", "also what needs review or has expired"


def _rate(rate: float) -> str:
    """As it is typed: by the second, or by the hour where it is slower."""
    return f"{rate:g}/s" if rate >= 1 else f"{rate * 60:g}/m" if rate >= 1 / 60 else f"{rate * 3_600:g}/h"


def _of_limits(limits: Limits) -> Iterator[str]:
    if limits.backoff is not None:
        yield _of_backoff(limits.backoff)
    if limits.max_attempts is not None:
        yield f"at most {limits.max_attempts:,} attempts"
    if limits.timeout is not None:
        yield f"each at most {spoken(limits.timeout)}"
    if limits.within:
        yield f"within {spoken(limits.within)}"


def _of_backoff(backoff: Backoff) -> str:
    match backoff:
        case Exponential(base, _, cap):
            return f"exponential from {spoken(base)} to {spoken(cap)}"
        case Linear(base, _, cap):
            return f"linear from {spoken(base)} to {spoken(cap)}"
        case Fixed(delay):
            return f"fixed {spoken(delay)}"
        case Delays(delays):
            return f"after {', '.join(spoken(each) for each in delays)}"
    return "immediate"

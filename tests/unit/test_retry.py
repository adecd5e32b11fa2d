"""What follows from a failure, and what following it never does."""

import random
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.backoff import LONGEST, Backoff, Jitter
from redrive.clock import SECOND, micros
from redrive.errors import Bury, RetryAfter
from redrive.job import Job
from redrive.limits import Limits, encode_limits
from redrive.options import Options
from redrive.reasons import Rules, Verdict, classify
from redrive.retry import (
    BURY,
    DISCARD,
    Decision,
    Drop,
    GiveUp,
    Retry,
    RetryAt,
    decide,
    decide_loss,
    delays,
    exponential,
    fixed,
    immediate,
    linear,
    rides_out,
)
from tests.backoffs import backoffs, jitters, waiting

NOW = 1_767_225_600 * SECOND
UNKNOWN = Verdict("unknown", retryable=True)
INVALID = Verdict("validation", retryable=False)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)
rngs = st.integers(0, 2**32).map(random.Random)


def a_job(attempts: int = 0, **changes: Any) -> Job:
    return Job(id="j", task="t", payload=b"{}", epoch_at=NOW, attempts=attempts, **changes)


def under(policy: Retry, attempts: int = 0, **using: Any) -> Job:
    """A job enqueued under this policy, with what `using(…)` said."""
    return a_job(attempts, policy=Options.checked(using).limits(encode_limits(policy.limits())))


def decided(
    policy: Retry,
    job: Job | None = None,
    verdict: Verdict = UNKNOWN,
    error: BaseException | None = None,
    now: int = NOW,
    rng: random.Random | None = None,
) -> Decision:
    return decide(policy, job or a_job(), verdict, error or ValueError("x"), now, rng or random.Random(7))


def waits(policy: Retry, job: Job | None = None, verdict: Verdict = UNKNOWN, error: BaseException | None = None) -> int:
    """The wait before the next attempt, which there must be."""
    decision = decided(policy, job, verdict, error)
    assert isinstance(decision, RetryAt), decision
    return decision.at - NOW


def failed(policy: Retry, error: BaseException, job: Job | None = None) -> Decision:
    """What follows from a failure as the default table sees it."""
    return decided(policy, job, classify(error, Rules(), now=NOW), error)


# --- how often --------------------------------------------------------------------------------------------------------


@rule
@given(st.integers(1, 50), backoffs, rngs)
def test_a_policy_of_n_makes_n_attempts_and_no_more(most: int, backoff: Backoff, rng: random.Random) -> None:
    policy = Retry(most, backoff=backoff)
    decisions = [decided(policy, a_job(spent), rng=rng) for spent in range(most)]
    assert all(isinstance(decision, RetryAt) for decision in decisions[:-1])
    assert decisions[-1] == GiveUp(f"exhausted {most} attempt{'s' if most > 1 else ''}")


@rule
@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=20))
def test_n_delays_imply_one_attempt_more(lengths: list[int]) -> None:
    policy = Retry(backoff=delays(*lengths), jitter="none")
    assert policy.max_attempts == len(lengths) + 1
    assert [waits(policy, a_job(spent)) for spent in range(len(lengths))] == [one * SECOND for one in lengths]
    assert Retry(2, backoff=delays(*lengths)).max_attempts == 2


def test_the_defaults_are_those_of_the_reference() -> None:
    policy = Retry()
    assert (policy.max_attempts, policy.backoff, policy.jitter) == (3, exponential("5s", 2, "5m"), "equal")
    assert (policy.within, policy.on, policy.crash_limit) == (None, {}, 3)


# --- how long ---------------------------------------------------------------------------------------------------------


@rule
@given(waiting, jitters, st.integers(0, 10**6), rngs)
def test_a_wait_is_more_than_nothing_and_within_the_cap(
    backoff: Backoff, jitter: Jitter, spent: int, rng: random.Random
) -> None:
    decision = decided(Retry(10**9, backoff=backoff, jitter=jitter), a_job(spent), rng=rng)
    assert isinstance(decision, RetryAt)
    assert 1 <= decision.at - NOW <= backoff.cap


@rule
@given(
    backoff=backoffs,
    jitter=jitters,
    within=st.integers(1, LONGEST),
    passed=st.integers(0, LONGEST),
    spent=st.integers(0, 20),
    asked=st.one_of(st.none(), st.integers(0, LONGEST)),
    rng=rngs,
)
def test_no_attempt_is_planned_beyond_the_deadline(
    backoff: Backoff, jitter: Jitter, within: int, passed: int, spent: int, asked: int | None, rng: random.Random
) -> None:
    policy = Retry(100, backoff=backoff, jitter=jitter, within=timedelta(microseconds=within))
    verdict = Verdict("rate_limited", retryable=True, retry_after=asked)
    match decided(policy, a_job(spent), verdict, now=NOW + passed, rng=rng):
        case RetryAt(at):
            assert NOW + passed <= at <= NOW + within
        case GiveUp(why):
            assert why.startswith("over its deadline of")
            longest = max(backoff.cap, asked or 0)
            assert passed + longest > within


@pytest.mark.parametrize(("passed", "kept"), [(0, True), (5 * SECOND, True), (5 * SECOND + 1, False)])
def test_within_counts_from_the_epoch_to_the_next_attempt(passed: int, kept: bool) -> None:
    policy = Retry(9, backoff=fixed(5), jitter="none", within=10)
    assert isinstance(decided(policy, now=NOW + passed), RetryAt) is kept
    later = a_job(created_at=NOW - 10**15, epoch=2)
    assert isinstance(decided(policy, later, now=NOW + passed), RetryAt) is kept


def test_a_deadline_that_passed_is_said() -> None:
    assert decided(Retry(9, within="6h"), now=NOW + micros("7h")) == GiveUp("over its deadline of 6h")


# --- what the other side asks -----------------------------------------------------------------------------------------


class RateLimited(Exception):
    def __init__(self, retry_after: Any) -> None:
        self.retry_after = retry_after


@rule
@given(waiting, jitters, st.integers(0, 10**6), rngs)
def test_a_wish_of_the_other_side_is_never_undercut(
    backoff: Backoff, jitter: Jitter, seconds: int, rng: random.Random
) -> None:
    """It may exceed the cap, but a longer backoff stays longer."""
    policy = Retry(9, backoff=backoff, jitter=jitter)
    verdict = classify(RateLimited(seconds), Rules())
    decision = decided(policy, verdict=verdict, rng=rng)
    assert isinstance(decision, RetryAt)
    assert decision.at - NOW >= seconds * SECOND
    assert decision.at - NOW <= max(backoff.cap, seconds * SECOND)


@pytest.mark.parametrize("jitter", ["full", "equal", "decorrelated", "none"])
def test_retry_after_is_exact_and_counts_the_attempt(jitter: Jitter) -> None:
    policy = Retry(2, backoff=fixed("1h"), jitter=jitter)
    assert failed(policy, RetryAfter("30s")) == RetryAt(NOW + 30 * SECOND)
    assert failed(policy, RetryAfter(0)) == RetryAt(NOW)
    assert failed(policy, RetryAfter("30s"), a_job(1)) == GiveUp("exhausted 2 attempts")


def test_retry_after_heals_what_the_policy_would_bury() -> None:
    policy = Retry(on={RetryAfter: BURY, "unknown": DISCARD})
    assert failed(policy, RetryAfter(3)) == RetryAt(NOW + 3 * SECOND)


def test_retry_after_still_ends_at_the_deadline() -> None:
    assert failed(Retry(within="1m"), RetryAfter("2m")) == GiveUp("over its deadline of 1m")


def test_retry_after_alone_in_a_group_is_meant_as_if_it_stood_alone() -> None:
    assert failed(Retry(), ExceptionGroup("g", [ExceptionGroup("h", [RetryAfter(9)])])) == RetryAt(NOW + 9 * SECOND)


def test_a_retry_after_that_lost_its_delay_falls_back_to_the_backoff() -> None:
    class Mine(RetryAfter):
        def __init__(self) -> None:
            pass

    assert waits(Retry(backoff=fixed(7), jitter="none"), error=Mine(), verdict=classify(Mine(), Rules())) == 7 * SECOND


# --- what no retry heals ----------------------------------------------------------------------------------------------


def test_a_permanent_failure_is_given_up_at_once() -> None:
    assert decided(Retry(9), verdict=INVALID) == GiveUp("not retryable (validation)")


def test_bury_ends_it_whatever_the_policy_says() -> None:
    for policy in (Retry(9), Retry(9, on={Bury: 5, "buried": 5, Exception: DISCARD})):
        assert failed(policy, Bury("bad input")) == GiveUp("not retryable (buried)")


# --- on= --------------------------------------------------------------------------------------------------------------


class Base(Exception):
    pass


class Near(Base):
    pass


class Nearest(Near):
    pass


def test_on_takes_the_nearest_class() -> None:
    policy = Retry(jitter="none", on={Exception: 1, Base: 2, Near: 3, "unknown": 4, OSError: 5})
    found = [waits(policy, error=error) // SECOND for error in (KeyError(), Base(), Near(), Nearest(), TimeoutError())]
    assert found == [1, 2, 3, 3, 5]


def test_on_takes_the_reason_when_no_class_fits() -> None:
    policy = Retry(on={"TIMEOUT": 4, Near: 3})
    assert waits(policy, verdict=Verdict("timeout", retryable=True)) == 4 * SECOND
    assert waits(policy, verdict=Verdict("timeout", retryable=True), error=Near()) == 3 * SECOND


def test_on_looks_at_the_class_and_not_at_what_it_says_of_itself() -> None:
    class Liar(Exception):
        __class__ = property(lambda self: 1 / 0)

    assert waits(Retry(on={Base: BURY, Liar: 2}), error=Liar()) == 2 * SECOND


def test_on_reads_a_class_whose_metaclass_has_no_hash() -> None:
    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(cls, other: object) -> bool:
            raise ZeroDivisionError

    class Odd(Exception, metaclass=Meta):
        pass

    assert waits(Retry(on={Base: BURY, Exception: 2}), error=Odd()) == 2 * SECOND


def test_on_can_bury_discard_wait_or_follow_another_policy() -> None:
    policy = Retry(
        jitter="none",
        on={KeyError: BURY, IndexError: DISCARD, OSError: "2m", ValueError: Retry(2, backoff=fixed(9), jitter="none")},
    )
    assert decided(policy, error=KeyError()) == GiveUp("buried by its policy (unknown)")
    assert decided(policy, error=IndexError()) == Drop("unknown")
    assert decided(policy, error=OSError()) == RetryAt(NOW + 120 * SECOND)
    assert decided(policy, error=ValueError()) == RetryAt(NOW + 9 * SECOND)
    assert decided(policy, a_job(1), error=ValueError()) == GiveUp("exhausted 2 attempts")
    assert decided(policy, a_job(2), error=OSError()) == GiveUp("exhausted 3 attempts")


@pytest.mark.parametrize("action", [0, 5, "5s", Retry(3, backoff=fixed(5), jitter="none")])
def test_on_can_heal_what_is_permanent_by_default(action: Any) -> None:
    assert isinstance(decided(Retry(on={"validation": action}), verdict=INVALID), RetryAt)


@pytest.mark.parametrize(
    ("answer", "follows"),
    [
        (12, RetryAt(NOW + 12 * SECOND)),
        (0, RetryAt(NOW)),
        ("2m", RetryAt(NOW + 120 * SECOND)),
        (timedelta(seconds=3), RetryAt(NOW + 3 * SECOND)),
        (1e-9, RetryAt(NOW + 1)),
        (BURY, GiveUp("buried by its policy (unknown)")),
        (DISCARD, Drop("unknown")),
        (Retry(5, backoff=immediate()), RetryAt(NOW)),
        (None, RetryAt(NOW + 5 * SECOND)),
    ],
)
def test_a_function_of_on_answers_what_on_takes_and_none_for_the_default(answer: Any, follows: Decision) -> None:
    assert decided(Retry(jitter="none", on={ValueError: lambda error: answer})) == follows


def test_a_function_of_on_may_see_attempt_job_and_error() -> None:
    seen: list[Any] = []

    def choose(attempt: int, job: Job, error: Exception) -> int:
        seen.append((attempt, job.id, error))
        return 4

    error = ValueError("x")
    assert waits(Retry(9, on={"unknown": choose}), a_job(2), error=error) == 4 * SECOND
    assert seen == [(3, "j", error)]


class Worse(BaseException):
    pass


def _raises(error: BaseException) -> Callable[[Any], Any]:
    def function(_: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    "broken",
    [
        _raises(KeyError()),
        _raises(Worse()),
        _raises(SystemExit(1)),
        lambda _: object(),
        lambda _: -1,
        lambda _: True,
        lambda _: float("nan"),
        lambda _: float("inf"),
        lambda _: "soon",
        lambda _: Retry(on={KeyError: BURY}),
    ],
)
def test_a_function_that_fails_leaves_the_default_and_a_note(broken: Callable[[Any], Any]) -> None:
    by_on = decided(Retry(jitter="none", on={ValueError: broken}))
    assert isinstance(by_on, RetryAt)
    assert by_on.at == NOW + 5 * SECOND
    assert re.fullmatch(r"the on= function failed \(\w+\); the default was used", by_on.note or "")
    permanent = decided(Retry(on={ValueError: broken}), verdict=INVALID)
    assert isinstance(permanent, GiveUp)
    assert permanent.note == by_on.note
    by_backoff = decided(Retry(jitter="none", backoff=broken))
    assert isinstance(by_backoff, RetryAt)
    assert by_backoff.at == NOW + 5 * SECOND
    assert re.fullmatch(r"the backoff function failed \(\w+\); the default was used", by_backoff.note or "")


# --- a backoff of the user's own --------------------------------------------------------------------------------------


@rule
@given(st.floats(0, 10**7), jitters, rngs)
def test_a_delay_from_a_function_is_jittered_but_never_more_than_it_said(
    seconds: float, jitter: Jitter, rng: random.Random
) -> None:
    decision = decided(Retry(backoff=lambda attempt: seconds, jitter=jitter), rng=rng)
    assert isinstance(decision, RetryAt)
    said = micros(seconds)
    assert (1 if said else 0) <= decision.at - NOW <= said
    if jitter == "none":
        assert decision.at - NOW == said


def test_a_backoff_function_sees_the_attempt_or_attempt_job_and_error() -> None:
    assert waits(Retry(9, backoff=lambda attempt: 10 * attempt, jitter="none"), a_job(2)) == 30 * SECOND
    assert waits(Retry(9, backoff=lambda *seen: len(seen), jitter="none")) == SECOND
    assert waits(Retry(9, backoff=lambda attempt, job, error: len(str(error)), jitter="none")) == SECOND
    assert waits(Retry(9, backoff=lambda attempt, job=None: 2 if job is None else 3, jitter="none")) == 2 * SECOND


def test_a_backoff_function_that_answers_none_is_replaced_with_a_note() -> None:
    decision = decided(Retry(backoff=lambda attempt: None, jitter="none"))
    assert decision == RetryAt(NOW + 5 * SECOND, "the backoff function returned None; the default was used")


def test_no_delay_of_a_function_is_longer_than_the_longest() -> None:
    assert waits(Retry(backoff=lambda attempt: "3000d", jitter="none")) == LONGEST


# --- what one job says about itself -----------------------------------------------------------------------------------


def test_what_a_job_carries_wins_over_its_task() -> None:
    policy = Retry(3, backoff=fixed(5), jitter="none")
    assert decided(policy, under(policy, 2)) == GiveUp("exhausted 3 attempts")
    assert waits(policy, under(policy, 2, max_attempts=9)) == 5 * SECOND
    assert decided(policy, under(policy, 0, max_attempts=1)) == GiveUp("exhausted 1 attempt")
    assert waits(policy, under(policy, 1, backoff=linear(2))) == 4 * SECOND
    assert waits(policy, under(policy, 1, backoff=immediate())) == 0


def test_a_job_keeps_the_numbers_under_which_it_was_enqueued() -> None:
    """A deploy that changes the task's policy changes later jobs, not those that wait."""
    before, after = Retry(7, within="1h"), Retry(2, within="1m")
    assert isinstance(decided(after, under(before, 5)), RetryAt)
    assert decided(after, under(before, 5), now=NOW + micros("2h")) == GiveUp("over its deadline of 1h")


def test_a_jobs_own_backoff_wins_over_a_function() -> None:
    policy = Retry(9, backoff=lambda attempt: 100, jitter="none")
    assert waits(policy, under(policy, backoff=fixed(3))) == 3 * SECOND


@pytest.mark.parametrize(
    ("of_task", "of_case", "of_job", "most"), [(3, 8, None, 8), (8, 3, None, 3), (3, 8, 5, 5), (8, 3, 5, 3)]
)
def test_a_policy_inside_on_has_its_own_count_unless_the_job_asks_for_less(
    of_task: int, of_case: int, of_job: int | None, most: int
) -> None:
    policy = Retry(of_task, on={ValueError: Retry(of_case)})
    using = {} if of_job is None else {"max_attempts": of_job}
    spent = [isinstance(decided(policy, under(policy, n, **using)), RetryAt) for n in range(9)]
    assert spent.index(False) == most - 1


@pytest.mark.parametrize(
    ("of_task", "of_case", "kept"), [("1h", None, "1h"), (None, "1m", "1m"), ("1h", "1m", "1m"), ("1m", "1h", "1m")]
)
def test_a_policy_inside_on_may_only_shorten_the_deadline(of_task: Any, of_case: Any, kept: str) -> None:
    policy = Retry(9, within=of_task, on={ValueError: Retry(9, within=of_case)})
    assert decided(policy, under(policy), now=NOW + micros("2h")) == GiveUp(f"over its deadline of {kept}")


def test_a_job_without_limits_follows_its_task() -> None:
    assert decided(Retry(1)) == GiveUp("exhausted 1 attempt")
    assert decided(Retry(9, within="1m"), now=NOW + micros("2m")) == GiveUp("over its deadline of 1m")


# --- when the process is gone -----------------------------------------------------------------------------------------


def lost(job: Job, kind: Any, now: int = NOW) -> Decision:
    return decide_loss(job, kind, now, random.Random(7))


def test_a_crash_counts_against_its_own_limit() -> None:
    job = under(Retry(1, crash_limit=2))
    assert isinstance(lost(job, "crashed"), RetryAt)
    crashed = Job(id="j", task="t", payload=b"{}", policy=job.policy, crashes=1)
    assert lost(crashed, "crashed") == GiveUp("crashed 2 times")
    assert lost(under(Retry(crash_limit=1)), "crashed") == GiveUp("crashed once")


def test_a_loss_spends_an_attempt() -> None:
    assert isinstance(lost(under(Retry(2)), "lost"), RetryAt)
    assert lost(under(Retry(2), 1), "lost") == GiveUp("exhausted 2 attempts")


def test_a_job_that_says_nothing_has_the_default_limits() -> None:
    assert [isinstance(lost(a_job(spent), "lost"), RetryAt) for spent in range(3)] == [True, True, False]
    assert [isinstance(lost(a_job(crashes=n), "crashed"), RetryAt) for n in range(3)] == [True, True, False]


@pytest.mark.parametrize("kind", ["lost", "crashed"])
def test_a_lost_job_rests_as_its_limits_say_and_ends_at_its_deadline(kind: str) -> None:
    limits = Limits(lost_delay=8 * SECOND, crash_delay=8 * SECOND, within=60 * SECOND)
    job = a_job(policy=encode_limits(limits))
    match lost(job, kind):
        case RetryAt(at):
            assert 4 * SECOND <= at - NOW <= 8 * SECOND
        case other:
            pytest.fail(f"{other}")
    assert lost(job, kind, NOW + micros("1h")) == GiveUp("over its deadline of 1m")


@rule
@given(
    kind=st.sampled_from(["lost", "crashed"]),
    pause=st.integers(0, LONGEST),
    within=st.integers(0, LONGEST),
    passed=st.integers(0, LONGEST),
    most=st.integers(1, 20),
    spent=st.integers(0, 25),
    rng=rngs,
)
def test_a_lost_job_is_tried_again_in_its_bounds_or_not_at_all(
    kind: Any, pause: int, within: int, passed: int, most: int, spent: int, rng: random.Random
) -> None:
    """At least half of its pause and at most all of it, within its count, and never beyond its deadline."""
    limits = Limits(max_attempts=most, crash_limit=most, within=within, lost_delay=pause, crash_delay=pause)
    job = a_job(spent, crashes=spent, policy=encode_limits(limits))
    match decide_loss(job, kind, NOW + passed, rng):
        case RetryAt(at):
            assert spent + 1 < most
            assert pause / 2 <= at - NOW - passed <= pause
            assert not within or at <= NOW + within
        case GiveUp(why):
            assert spent + 1 >= most or (within and passed + pause > within and why.startswith("over its deadline of"))


# --- never an error ---------------------------------------------------------------------------------------------------


@rule
@given(st.binary(max_size=40), st.text(max_size=10), st.booleans(), st.integers(-(10**20), 10**20), rngs)
def test_deciding_never_fails(policy: bytes, reason: str, heals: bool, asked: int, rng: random.Random) -> None:
    job = a_job(policy=policy)
    for kind in (Exception, SystemExit, KeyboardInterrupt, GeneratorExit, RetryAfter):
        error = kind(5)
        decision = decide(Retry(on={"x": BURY}), job, Verdict(reason, heals, asked), error, NOW, rng)
        assert isinstance(decision, RetryAt | GiveUp | Drop)
        if isinstance(decision, RetryAt):
            assert NOW <= decision.at <= NOW + LONGEST


# --- how long an outage it survives -----------------------------------------------------------------------------------


def test_a_policy_rides_out_the_sum_of_its_pauses() -> None:
    assert rides_out(Retry(4, backoff=delays(5, 30, 120), jitter="none")) == 155 * SECOND
    assert rides_out(Retry(4, backoff=delays(5, 30, 120))) == round(155 * 0.75 * SECOND)
    assert rides_out(Retry(1)) == 0
    assert rides_out(Retry(9, within="1m")) == 60 * SECOND
    assert rides_out(Retry(10**12, backoff=fixed(1), jitter="none")) == (10**12 - 1) * SECOND
    assert rides_out(Retry(backoff=lambda attempt: 5)) is None


@rule
@given(st.integers(2, 30), backoffs)
def test_without_chance_it_rides_out_what_its_pauses_add_up_to(most: int, backoff: Backoff) -> None:
    policy = Retry(most, backoff=backoff, jitter="none")
    decisions = [decided(policy, a_job(spent)) for spent in range(most - 1)]
    assert rides_out(policy) == sum(one.at - NOW for one in decisions if isinstance(one, RetryAt))

"""Whose doing the end of a process was: a doubt convicts nobody."""

import signal

import pytest

from redrive.outcome import Crashed, Lost
from redrive.runners.death import cause_of_death, said


@pytest.mark.parametrize("code", [0, 1, 3, 70, 255])
def test_an_exit_is_its_own_doing(code: int) -> None:
    """Also with 0: a job that ends its process has not been done."""
    assert cause_of_death(code, memory=7, stderr="last words") == Crashed(f"exit code {code}", 7, "last words")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGPIPE", "SIGALRM"])
def test_a_signal_that_a_process_brings_on_itself_is_its_own_doing(name: str) -> None:
    """The cause names the signal."""
    assert cause_of_death(-signal.Signals[name]) == Crashed(f"signal {name}")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_a_signal_that_others_send_convicts_nobody(name: str) -> None:
    """An operator, a container's stop, a terminal that closes."""
    assert cause_of_death(-signal.Signals[name]) == Lost(f"killed from outside (signal {name})")


def test_a_kill_while_the_kernel_ran_out_of_memory_is_its_own_doing() -> None:
    """The kernel's count has risen while it ran."""
    killed = -signal.SIGKILL
    assert cause_of_death(killed, oom_before=2, oom_after=3, memory=9) == Crashed("out of memory", 9)


@pytest.mark.parametrize(("before", "after"), [(2, 2), (None, 3), (2, None), (None, None)])
def test_a_kill_without_proof_of_missing_memory_convicts_nobody(before: int | None, after: int | None) -> None:
    """A count that did not rise, or that is not there."""
    assert isinstance(cause_of_death(-signal.SIGKILL, oom_before=before, oom_after=after), Lost)


def test_missing_memory_does_not_explain_another_signal() -> None:
    """The kernel ends with SIGKILL only."""
    assert isinstance(cause_of_death(-signal.SIGTERM, oom_before=2, oom_after=3), Lost)


def test_a_process_we_killed_died_of_what_we_killed_it_for() -> None:
    """Whatever its return code says."""
    assert cause_of_death(-signal.SIGKILL, killed_by_us="memory: over its cap") == Crashed("memory: over its cap")


def test_an_end_that_nobody_saw_convicts_nobody() -> None:
    """Somebody else in this process waited for it first."""
    assert isinstance(cause_of_death(None), Lost)


def test_a_signal_without_a_name_is_said_by_its_number() -> None:
    """Real-time signals have none."""
    assert said(-40) == "signal 40"

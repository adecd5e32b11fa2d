"""Why a process ended: its own doing, or somebody else's."""

import signal

from redrive.outcome import Crashed, Lost

# What a process brings on itself. Every other signal is taken for somebody else's: a doubt convicts nobody.
_OWN_SIGNALS = frozenset(
    {
        *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP),
        *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGPIPE),
    }
)


def cause_of_death(
    returncode: int | None,
    *,
    killed_by_us: str | None = None,
    oom_before: int | None = None,
    oom_after: int | None = None,
    memory: int | None = None,
    stderr: str = "",
) -> Crashed | Lost:
    """Whose doing the end of a process was; `killed_by_us` is the fault for which we killed it ourselves."""
    if killed_by_us is not None:
        return Crashed(killed_by_us, memory, stderr)
    if returncode is None:
        return Lost("its process ended, and nobody can tell how: its exit status was taken by somebody else")
    if returncode >= 0:
        return Crashed(said(returncode), memory, stderr)
    if -returncode in _OWN_SIGNALS:
        return Crashed(said(returncode), memory, stderr)
    if -returncode == signal.SIGKILL and _rose(oom_before, oom_after):
        return Crashed("out of memory", memory, stderr)
    return Lost(f"killed from outside ({said(returncode)})")


def said(returncode: int) -> str:
    """A return code in words: `exit code 3`, `signal SIGSEGV`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before

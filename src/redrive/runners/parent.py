"""What a process does so that it ends together with the one that started it."""

import ctypes
import os
import resource
import signal
import sys

if sys.platform == "linux":
    import fcntl

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with its parent; where it cannot, the closed channel tells."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        end_group()


def die_with_parent_and_all(parent: int, lifeline: int) -> None:
    """Ask the kernel to end our whole group once the parent's end of this pipe is closed, as it is by its death."""
    if not _tied(lifeline):
        die_with_parent(parent)
    if os.getppid() != parent:
        end_group()


def _tied(lifeline: int) -> bool:
    # Not beside the death signal: that one reaches us alone, and may come before the pipe could end all others.
    if sys.platform != "linux":
        return False
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:  # an emulated kernel
        return False
    return True


def leave_no_core() -> None:
    """No core file, no crash reporter: what there is to know goes to stderr."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)


def end_group() -> None:
    """End this process and all it has started, at once; only for the leader of a session of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")

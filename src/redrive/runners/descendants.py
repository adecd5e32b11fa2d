"""The processes that a process has started, and those that these have started."""

import os
from contextlib import suppress

import psutil


def own_children() -> frozenset[int]:
    """The processes that this one has started and that are still there; one call to the kernel when there are none."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return frozenset()
    return frozenset(process.pid for process in psutil.Process().children())


def descendants(pid: int) -> list[psutil.Process]:
    """All that this process has started, at any depth, also what has left its group or session."""
    with suppress(psutil.Error):  # it has ended meanwhile
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
        return found
    return []


def end(processes: list[psutil.Process]) -> None:
    """End these at once."""
    for process in processes:
        with suppress(psutil.Error):  # it has ended meanwhile
            process.kill()

"""What tests ask about processes that they have started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def hangups(handling: signal.Handlers) -> Iterator[None]:
    """A process started in here begins so, whether or not these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, handling)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def alive(pid: int) -> bool:
    """Whether it still runs; one that is dead and not yet waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def open_files() -> int:
    """How many descriptors this process holds."""
    return len(list(Path("/dev/fd").iterdir()))

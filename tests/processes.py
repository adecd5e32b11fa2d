"""What tests ask about processes that they have started."""

from pathlib import Path

import psutil


def alive(pid: int) -> bool:
    """Whether it still runs; one that is dead and not yet waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def open_files() -> int:
    """How many descriptors this process holds."""
    return len(list(Path("/dev/fd").iterdir()))

"""Named points of a job's way at which a test can end the process, as a crash or a power cut would.

`REDRIVE_FAILPOINT=settle.done` kills this process with -9 right after the step of that name, `settle.done.before` right
before it, `settle.done:3` at its third passing. Without the variable a point costs one comparison.
"""

import os
import signal

_armed = os.environ.get("REDRIVE_FAILPOINT", "")
_point, _, _count = _armed.partition(":")
_left = int(_count or 1)


def reached(point: str) -> None:
    """The process is at this point of its way."""
    if _armed and point == _point:
        _pass()


def _pass() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

"""The command line, one file per noun; a command is imported when it is typed."""

import signal
import sys
from types import FrameType


def main() -> None:
    """Run what was typed, and end with its exit code."""
    from redrive.cli.root import root  # lazily: `import redrive.cli` alone needs no click

    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    root(prog_name="redrive")


def _terminated(number: int, frame: FrameType | None) -> None:
    """Leave as after Ctrl-C: what is open is closed on the way out."""
    sys.exit(128 + number)

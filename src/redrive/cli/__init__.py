"""The command line, one file per noun; a command is imported when it is typed."""

import os
import sys
from types import FrameType

import redrive

QUICK = (["--help"], ["-h"], ["--version"])
"""What is asked most, and by scripts that must not wait: answered without a library."""


def main() -> None:
    """Run what was typed, and end with its exit code."""
    _open_what_is_closed()
    if sys.argv[1:] in QUICK and _answered(sys.argv[1]):
        return
    import signal

    from redrive.cli.root import root  # lazily: `import redrive.cli` alone needs no click

    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, _interrupted)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    root(prog_name="redrive")


def _open_what_is_closed() -> None:
    """Standard streams that our caller has closed lead nowhere; no file that is opened later may take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


class Terminated(SystemExit):
    """SIGTERM came: leave as after Ctrl-C, so that what is open is closed on the way out."""


def _terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated(128 + number)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Python's own, under another name: asyncio would put its own in its place, which cannot end a blocking read."""
    raise KeyboardInterrupt


def _answered(question: str) -> bool:
    from redrive.cli.quick import HELP

    answer = f"redrive {redrive.__version__}" if question == "--version" else HELP
    try:  # past the buffer, which would keep what cannot be written, and fail of it again at the end
        os.write(sys.stdout.fileno(), f"{answer}\n".encode())
    except OSError:
        return False  # the whole program knows how to end then
    return True

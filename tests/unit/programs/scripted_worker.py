"""A worker process with a script: its Nth start in a folder does the Nth behaviour, the last one again and again.

It leaves a file `N` with its pid, the time of its start, and what it was told by signals.
"""

import ctypes
import os
import re
import signal
import sys
import time
from itertools import count
from pathlib import Path
from types import FrameType

from redrive.supervisor import supervised_beat


def behave(name: str, number: str) -> None:
    """Do what a behaviour says."""
    beat = supervised_beat()
    assert beat is not None
    match name:
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(int(number))
        case "ready-exit":
            beat()
            sys.exit(int(number))
        case "silent":
            beat()
            signal.pause()
        case "spin":
            re.match(r"(a+)+$", "a" * 64 + "b")  # which never lets go of the interpreter
        case "work":
            while True:
                beat()
                time.sleep(0.05)  # sleep: what a worker does between two beats


def start(folder: Path) -> Path:
    """The file of this start, still empty."""
    for number in count():
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return folder / str(number)
    raise AssertionError("counting does not end")


def listen(file: Path, *, stubborn: int) -> None:
    """Write down which signals come; end at the first one beyond those that are to be ignored."""
    told = 0

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told += 1
        with file.open("a", encoding="ascii") as out:
            out.write(f"{signal.Signals(number).name}\n")
        if told > stubborn:
            sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hear)


def main() -> None:
    folder, *behaviours = sys.argv[1:]
    file = start(Path(folder))
    name, _, number = behaviours[min(int(file.name), len(behaviours) - 1)].partition(":")
    if name != "deaf":
        listen(file, stubborn=int(number) if name == "work" and number else 0)
    file.write_text(f"{os.getpid()} {time.monotonic()}\n", encoding="ascii")
    behave("work" if name == "deaf" else name, number)


if __name__ == "__main__":
    main()

"""A child process that starts as its hello says and does what each frame tells it: `word` or `word:argument`."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from redrive.runners.child import Handler, Parent, serve

hoard: list[bytearray] = []


def start(hello: bytes, parent: Parent) -> Handler:
    """Begin, or fail to."""
    word, _, argument = hello.decode().partition(":")
    match word:
        case "raise":
            raise ImportError(argument)
        case "exit":
            sys.exit(argument)
        case "segfault":
            ctypes.string_at(0)
        case "never":
            signal.pause()
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return partial(obey, parent)


def obey(parent: Parent, frame: bytes) -> bytes:
    """Do as the frame says and answer."""
    word, _, argument = frame.decode().partition(":")
    return ORDERS[word](parent, argument).encode()


def echo(parent: Parent, text: str) -> str:
    return text


def pid(parent: Parent, text: str) -> str:
    return str(os.getpid())


def wait(parent: Parent, text: str) -> str:
    print(f"waiting {os.getpid()}", flush=True)
    signal.pause()
    return "woken"


def die(parent: Parent, how: str) -> str:
    print(f"dying of {how}", file=sys.stderr)
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "exit":
            os._exit(3)
        case "sys.exit":
            sys.exit(4)
        case signal_name:
            os.kill(os.getpid(), signal.Signals[signal_name])
    return "alive"


def extend(parent: Parent, seconds: str) -> str:
    """Move the deadline as often as there are seconds given, then work for the time after the last comma."""
    *moves, work = map(float, seconds.split(","))
    for move in moves:
        parent.extend(move)
    time.sleep(work)  # sleep: the handler's own work
    return "done in time"


def late_extension(parent: Parent, seconds: str) -> str:
    """Leave a thread behind that asks for a shorter deadline when this job is over."""
    threading.Timer(0.05, parent.extend, (float(seconds),)).start()
    return "left"


def spawn(parent: Parent, how: str) -> str:
    """Start a process that itself starts one, and tell both; `leave` answers, `wait` does not, `crash` dies."""
    parts = how.split(",")
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session="apart" in parts,
    )
    assert child.stdout is not None
    told = f"{child.pid} {int(child.stdout.readline())}"
    print(f"spawned {told}", flush=True)
    hoard.append(child)  # type: ignore[arg-type]  # so that it is not waited for
    if "wait" in parts:
        signal.pause()
    if "crash" in parts:
        ctypes.string_at(0)
    return told


def finished(parent: Parent, text: str) -> str:
    """Start a process and wait for its end, as an orderly job does."""
    subprocess.run(["true"], check=True)
    return str(os.getpid())


def allocate(parent: Parent, mebibytes: str) -> str:
    """Take memory and fill it."""
    try:
        hoard.append(bytearray(b"x") * (int(mebibytes) * 1024 * 1024))
    except MemoryError:
        return "MemoryError"
    hoard.clear()
    return "allocated"


def swell(parent: Parent, mebibytes: str) -> str:
    """Take memory that no limit of this process counts."""
    import mmap

    shared = mmap.mmap(-1, int(mebibytes) * 1024 * 1024)
    for page in range(0, len(shared), mmap.PAGESIZE):
        shared[page] = 1
    signal.pause()
    return "allocated"


def flood(parent: Parent, lines: str) -> str:
    for number in range(int(lines)):
        print(f"line {number} " + "x" * 80)
    return "flooded"


def read(parent: Parent, text: str) -> str:
    return repr(sys.stdin.read())


def close(parent: Parent, text: str) -> str:
    parent.channel.shutdown(socket.SHUT_WR)
    signal.pause()
    return "closed"


def spin(parent: Parent, text: str) -> str:
    """Never let go of the interpreter."""
    print(f"spinning {os.getpid()}", flush=True)
    re.match(r"(a+)+$", "a" * 64 + "b")
    return "dizzy"


def nonsense(parent: Parent, text: str) -> str:
    parent.channel.sendall(b"\xff" * 64)
    signal.pause()
    return "said"


def limits(parent: Parent, text: str) -> str:
    import resource

    return f"{resource.getrlimit(resource.RLIMIT_DATA)[0]} {resource.getrlimit(resource.RLIMIT_CORE)[0]}"


def files(parent: Parent, text: str) -> str:
    return str(len(list(Path("/dev/fd").iterdir())))


ORDERS: dict[str, Callable[[Parent, str], str]] = {
    order.__name__: order
    for order in (
        *(echo, pid, wait, die, extend, late_extension, spawn, finished, allocate, swell, flood, read, close, spin),
        *(nonsense, limits, files),
    )
}


if __name__ == "__main__":
    serve(start)

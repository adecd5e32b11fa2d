"""Sixteen ways for a handler to harm its worker, each on the loop, in a thread and in a child process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from redrive import Redrive, Retry

app = Redrive()
ONCE = Retry(1)
RUNNERS = ("loop", "thread", "process")


class Speechless(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Greedy(Exception):
    """It asks for more than a number can hold."""

    retry_after = 2**80
    status_code = 2**200
    errno = -(2**100)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def raise_it() -> NoReturn:
        raise error

    return raise_it


def nest() -> Any:
    return nest()


def hoard(size: int = 2**60) -> None:
    hoarded = []
    while True:
        hoarded.append(bytearray(size))


def breed() -> NoReturn:
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"])
    raise OSError("left three children behind")


def spin() -> None:
    while True:
        time.sleep(0.01)  # sleep: it keeps its thread, and with it the loop, without heating the room


POISONS: dict[str, tuple[Callable[[], object], str]] = {
    "text raises": (lambda: raising(Speechless())(), "unknown"),
    "surrogate, NUL, NaN": (lambda: raising(ValueError("a\ud800\0b", float("nan")))(), "unknown"),
    "huge numbers": (lambda: raising(Greedy(10**30))(), "unknown"),
    "endless recursion": (nest, "unknown"),
    "100 MB message": (lambda: raising(RuntimeError("x" * 100_000_000))(), "unknown"),
    "group of 100,000": (lambda: raising(BaseExceptionGroup("g", [OSError()] * 100_000))(), "unknown"),
    "SystemExit": (lambda: sys.exit(3), "unknown"),
    "KeyboardInterrupt": (lambda: raising(KeyboardInterrupt())(), "unknown"),
    "GeneratorExit": (lambda: raising(GeneratorExit())(), "unknown"),
    "never returns": (lambda: "wait", "timeout"),
    "never yields": (spin, "timeout"),
    "leaves children": (breed, "unknown"),
    "hoards memory": (hoard, "resource_exhausted"),
    "segfault": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "crashed"),
    "os._exit": (lambda: os._exit(7), "crashed"),
    "unknown task": (lambda: None, "unknown_task"),
}
"""What each does, and the reason with which it has to end: dead, each of them. The sixteenth has no handler at all."""

ODD_RESULTS: dict[int, Callable[[], object]] = {
    0: lambda: object(),
    100: lambda: float("nan"),
    200: lambda: "x" * 1_000_000,
    300: lambda: "\ud800",
    400: lambda: {2, "no list", 3},
}
"""What some good jobs return; they are done all the same."""


def good(n: int) -> object:
    """A job like any other."""
    return ODD_RESULTS.get(n, lambda: n)()


@app.task(name="loop.poison", queue="loop", retry=ONCE, timeout=3)
async def poison_on_loop(kind: str) -> None:
    if POISONS[kind][0]() == "wait":
        await asyncio.Event().wait()


@app.task(name="loop.good", queue="loop")
async def good_on_loop(n: int) -> object:
    return good(n)


@app.task(name="thread.poison", queue="thread", retry=ONCE, timeout=3)
def poison_in_thread(kind: str) -> None:
    if POISONS[kind][0]() == "wait":
        threading.Event().wait()


@app.task(name="thread.good", queue="thread")
def good_in_thread(n: int) -> object:
    return good(n)


@app.task(name="process.poison", queue="process", retry=ONCE, timeout=3, isolation="process", memory="300MiB")
def poison_in_process(kind: str) -> None:
    if kind == "hoards memory":
        hoard(2**29)  # each piece is beyond the cap of its child, yet not beyond the machine
    if POISONS[kind][0]() == "wait":
        time.sleep(1_000)  # sleep: the handler that never returns


@app.task(name="process.good", queue="process", isolation="process")
def good_in_process(n: int) -> object:
    return good(n)

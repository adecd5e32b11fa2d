"""A loop that no longer answers is noticed, and one that was merely paused is not."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redrive.watchdog import EXIT_SILENT, Silence, Watchdog, stack_of
from tests.waiting import until

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parent / "programs" / "watched_loop.py"


class Watched:
    """A watchdog on the running loop that remembers what it noticed."""

    def __init__(self, patience: float) -> None:
        self.noticed: list[Silence] = []
        self.dog = Watchdog(asyncio.get_running_loop(), patience, self.noticed.append, tick=0.02)
        self.dog.start()


def blocking(watched: Watched, seconds: float) -> None:
    """A handler that does not yield until it is noticed, or for so long."""
    end = time.monotonic() + seconds
    while not watched.noticed and time.monotonic() < end:
        time.sleep(0.005)  # sleep: the handler's own, and it never yields


async def test_a_loop_that_does_not_answer_is_noticed_once() -> None:
    """With how long it was silent and where it stands."""
    watched = Watched(patience=0.2)
    blocking(watched, 10)
    (silence,) = watched.noticed
    assert silence.seconds >= 0.2
    assert "in blocking" in silence.stack
    await asyncio.sleep(0)
    watched.dog.stop()
    assert len(watched.noticed) == 1


async def test_a_loop_that_answers_in_time_is_left_alone() -> None:
    """Each answer forgives what was before."""
    watched = Watched(patience=1.0)
    for _ in range(4):
        blocking(watched, 0.3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    watched.dog.stop()
    assert watched.noticed == []


async def test_a_stopped_watchdog_watches_no_longer() -> None:
    """Its thread is gone when `stop` returns."""
    watched = Watched(patience=0.2)
    watched.dog.stop()
    assert not any(thread.name == "redrive-watchdog" for thread in threading.enumerate())
    blocking(watched, 0.5)
    assert watched.noticed == []


def test_a_loop_that_was_closed_is_not_silent() -> None:
    """There is nothing left to watch."""
    noticed: list[Silence] = []

    async def leave() -> Watchdog:
        dog = Watchdog(asyncio.get_running_loop(), 0.1, noticed.append, tick=0.01)
        dog.start()
        return dog

    dog = asyncio.run(leave())
    until(lambda: not dog._thread.is_alive())
    assert noticed == []


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    """Said instead of a stack."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.ident is not None
    assert stack_of(thread.ident) == "(its thread has ended)\n"


@contextmanager
def started(*arguments: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """The watched program, once it is watched; killed if it did not end by itself."""
    command = [sys.executable, str(PROGRAM), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=stderr) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "watched\n"
            yield process
        finally:
            process.kill()


def test_a_process_whose_loop_is_silent_ends_and_says_why() -> None:
    """The job is named, and the line at which its handler stands."""
    with started("0.3", "block") as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == EXIT_SILENT
    assert "has not answered for 0s while it ran 5a1f01c2 thumbnail.make; ending this process" in said
    assert "in stand_still" in said


def test_nobody_who_reads_is_needed_to_end_a_silent_process() -> None:
    """Its stderr is a pipe that is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 512):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        with started("0.3", "block", stderr=writing) as process:
            assert process.wait(20) == EXIT_SILENT
    finally:
        os.close(reading)
        os.close(writing)


def paused(seconds: float) -> None:
    """The time of a pause goes by."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end)


def test_a_paused_process_is_not_taken_for_silent() -> None:
    """A suspended laptop or a stopped container goes on as if nothing had been; the control is the silent loop."""
    with started("0.5") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            os.kill(process.pid, signal.SIGSTOP)
            paused(0.7)
            os.kill(process.pid, signal.SIGCONT)
            process.stdin.write("still there\n")
            process.stdin.flush()
            assert process.stdout.readline() == "still there\n"
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0

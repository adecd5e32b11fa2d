"""Processes that tests of the store start, talk to line by line, and see end."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 30.0


class Child:
    """A running program; what it says is a word and a value."""

    def __init__(self, program: str, *arguments: object, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments)],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.pid = self._process.pid
        self._said = b""

    def says(self, word: str) -> Any:
        """The value that it says with this word, which must come next and soon."""
        line = self._line()
        assert line.startswith(f"{word} "), f"not `{word}` but: {line}{self._rest()}"
        return json.loads(line.removeprefix(word))

    def tell(self, text: str = "go") -> None:
        """Say a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n".encode())
        self._process.stdin.flush()

    def send(self, number: int) -> None:
        """A signal from outside."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """How it ended, which must be soon."""
        return self._process.wait(PATIENCE)

    def stopped(self) -> None:
        """Wait until a signal has stopped it."""
        end = time.monotonic() + PATIENCE
        while not os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
            assert time.monotonic() < end, f"{self.pid} does not stop"
            select.select([], [], [], 0.005)

    def gone(self) -> None:
        """Whatever it does: end it, and let go of its pipes."""
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._said:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"nothing but {self._said!r}"
            piece = os.read(self._process.stdout.fileno(), 65_536)
            assert piece, f"it ended with {self._process.wait()}, and said {self._said.decode()}"
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def _rest(self) -> str:
        self._process.kill()
        return self._said.decode() + self._process.communicate()[0].decode()

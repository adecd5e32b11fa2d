"""Processes that are measured: each is ready before the clock begins, and tells what it saw, a JSON line at a time."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE = 300.0
"""No word of a child takes this many seconds to come, whatever else the machine does."""


class Child:
    """One measured process: it reads words and writes JSON lines."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process

    async def said(self) -> dict[str, Any]:
        """Its next line."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        if not line:
            code = await self._process.wait()
            raise RuntimeError(f"{self.name} ended with {code} before it had said all; see its words above")
        found: dict[str, Any] = json.loads(line)
        return found

    def tell(self, word: str) -> None:
        """A word to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())

    async def end(self) -> None:
        """Close its input, which ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), PATIENCE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise


@asynccontextmanager
async def started(folder: Path, module: str, *arguments: object, count: int = 1) -> AsyncIterator[list[Child]]:
    """So many processes of a module of this package, all of them ready; ended afterwards."""
    children: list[Child] = []
    try:
        for _ in range(count):
            children.append(await _start(folder, module, arguments))  # noqa: PERF401 - what has started is ended
        for child in children:
            await child.said()
        yield children
    finally:
        for child in children:
            await child.end()


async def _start(folder: Path, module: str, arguments: Sequence[object]) -> Child:
    """In a folder of its own, so that no configuration of this place is read."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)),
        cwd=folder,
        env=environment | {"PYTHONPATH": path, "REDRIVE_URL": url(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    return Child(module, process)


def url(folder: Path) -> str:
    """The store in a folder."""
    return f"sqlite:///{folder}/redrive.db"


def say(**words: Any) -> None:
    """In a child: a line to whoever measures."""
    print(json.dumps(words), flush=True)


async def heard() -> str:
    """In a child: the next word, empty when there will be none; read in a thread, so that nothing waits for it."""
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


def span(reports: Sequence[dict[str, Any]]) -> float:
    """Seconds from the first claim of any process to the last done of any; they share one monotonic clock."""
    busy = [report for report in reports if report["jobs"]]
    last, first = max(report["last"] for report in busy), min(report["first"] for report in busy)
    return float(last - first)

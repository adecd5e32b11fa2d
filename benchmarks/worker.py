"""A worker that is measured: `python -m benchmarks.worker SLOTS [logged]`, in a process of its own.

What is watched is watched per turn, not per job, so that the measuring costs nothing that counts.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import jobs
from benchmarks.children import heard, say
from redrive.logs import log_event, start_logging
from redrive.store import AnySettlement, Buried, Done, Jobs, Store, Turn, Want


class Watched:
    """The store's jobs, with a look at the time when a turn begins and ends."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._turn = jobs.turn
        self._held = 0
        self._told = 0
        self.first = 0.0
        self.last = 0.0
        self.ended = 0
        self.turns = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        """Settle and claim; once nothing is left and nothing is held, say what came of it."""
        began = time.monotonic()
        turn = await self._turn(settlements, want)
        if turn.jobs and not self.first:
            self.first = began
        if settlements:
            self.last = time.monotonic()
            self.turns += 1
            self.ended += sum(isinstance(settlement, Done | Buried) for settlement in settlements)
        self._held += len(turn.jobs) - len(settlements)
        if not self._held and not turn.jobs and self.ended > self._told:
            self._told = self.ended
            say(first=self.first, last=self.last, jobs=self.ended, turns=self.turns)
        return turn


def counted(store: Store) -> list[int]:
    """Count the round trips to the store from here on; every one is a `write` or a `read` of it."""
    trips = [0]
    for name in ("write", "read"):
        setattr(store, name, _counting(getattr(store, name), trips))
    return trips


def _counting(ask: Any, trips: list[int]) -> Any:
    async def asked(operation: Any) -> Any:
        trips[0] += 1
        return await ask(operation)

    return asked


def log_like_the_command() -> None:
    """Two lines per job, as `redrive worker` writes them, to nowhere."""
    start_logging("info", "text", Path(os.devnull).open("w"))  # noqa: SIM115 - until the process ends
    jobs.app.subscribe(log_event)


async def main(slots: int, *, logged: bool) -> None:
    """Work until the input ends; answer what is asked meanwhile."""
    logging.getLogger("redrive").setLevel(logging.CRITICAL)
    if logged:
        log_like_the_command()
    store = await jobs.app.opened()
    trips = counted(store)
    store.jobs = Watched(store.jobs)  # type: ignore[misc]
    async with jobs.app.worker(concurrency=slots):
        say(ready=True)
        while word := await heard():
            say(**answer(word, trips[0]))


def answer(word: str, trips: int) -> dict[str, Any]:
    """What somebody wants to know of this process."""
    match word:
        case "waits":
            return {"waits": jobs.waits}
        case "spent":
            used = os.times()
            return {"cpu": used.user + used.system, "at": time.monotonic(), "trips": trips}
    raise ValueError(f"nobody here understands {word!r}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), logged="logged" in sys.argv[2:]))

"""A worker process: works until SIGTERM, or with `--drain` until nothing is left in the store, nor of other workers.

`--patience SECONDS` is how long that may take. `--add TASK=ID…` adds these jobs first, as the client does. `--limit N`
lets the queue refuse what is beyond so many. `--cores` lets the system write core files, which others do not ask for:
handlers that kill this very process are part of the tests.
"""

import asyncio
import resource
import signal
from argparse import ArgumentParser, Namespace
from pathlib import Path

from redrive.store import Gate
from tests.crash.programs.client import add_all
from tests.crash.programs.tasks import app, witness

LOOK = 0.05


async def drained(patience: float) -> None:
    """Every job has ended, and what dead workers left is cleared away."""
    async with asyncio.timeout(patience):
        while not await is_at_rest():  # noqa: ASYNC110 - other processes change it
            await asyncio.sleep(LOOK)  # sleep: between two looks at the store


async def is_at_rest() -> bool:
    """Whether no job is left, and of other workers neither a row nor a lock."""
    depths = await app.store.jobs.depth()
    busy = any(depth.scheduled or depth.ready or depth.leased for depth in depths)
    return not busy and len(await app.store.workers.find()) == 1 and len(locks()) == 2


def locks() -> list[Path]:
    """That of the writers, and one of each worker."""
    return list(Path(app.store.home or "").glob("*.lock"))


async def work(asked: Namespace) -> None:
    """Run a worker in this process."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    app.subscribe(witness)
    if asked.limit:
        store = await app.opened()
        await store.jobs.gate(Gate(kind="queue", key="default", depth_limit=asked.limit), "test")
    if asked.add:
        await add_all(asked.add)
    async with app.worker():
        await (drained(asked.patience) if asked.drain else stopped.wait())
    await app.aclose()


def main() -> None:
    """What a planted program runs too, with another store."""
    parser = ArgumentParser()
    parser.add_argument("--cores", action="store_true")
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--add", nargs="+")
    parser.add_argument("--limit", type=int)
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most if asked.cores else 0, most))
    asyncio.run(work(asked))


if __name__ == "__main__":
    main()

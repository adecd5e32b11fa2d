"""A process that drives redrives until none is open, a few letters at a time.

`--open` opens one of every letter, unless there is one already. `--work` runs the jobs too. `--rate N`: so many letters
a second. `--chunk N`: so many in one transaction. `--set PLACE=VALUE`: each job is given another payload.
`--when-release SPEC`: it waits for a worker of such a release. `--plant`: with a bug that the test has to find.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from redrive import redrives
from redrive.reshaping import Reshaper
from redrive.store import OPEN_REDRIVES, Chunk, Given, Plan, Store
from tests.crash.programs.tasks import app, witness


async def drive(asked: Namespace) -> None:
    """Open one if need be, and drive what is open to its end."""
    app.subscribe(witness)
    store = await app.opened()
    if asked.plant:
        store.redrives.release = in_two_moves(store)  # type: ignore[method-assign,assignment]  # a store is not meant to be changed
    async with asyncio.timeout(asked.patience), AsyncExitStack() as stack:
        if asked.work:
            await stack.enter_async_context(app.worker())
        if asked.open and not await store.redrives.find():
            settings, release = tuple(asked.set), asked.when_release
            plan = Plan(stages=(1, 5, 25), rate=asked.rate, settings=settings, when_release=release)
            await store.redrives.open(plan, "test", "killed again and again")
        while found := await store.redrives.find(OPEN_REDRIVES):
            for redrive in found:
                await redrives.driven(store, app.clock, redrive.id, Reshaper(app))
    await app.aclose()


def in_two_moves(store: Store) -> Callable[..., Awaitable[Chunk]]:
    """The planted bug: the first letter is brought back in a transaction of its own, before the redrive knows of it."""
    release = store.redrives.release

    async def released(id: str, stage: int, size: int, limit: int, given: Sequence[Given]) -> Chunk:
        for item in await store.redrives.items(id, ["pending"], limit=1):
            await store.letters.revive([item.id], "test", "planted")
        return await release(id, stage, size, limit, given)

    return released


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--work", action="store_true")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--chunk", type=int, default=7)
    parser.add_argument("--patience", type=float, default=60)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--when-release")
    parser.add_argument("--plant", action="store_true")
    arguments = parser.parse_args()
    redrives.CHUNK = redrives.RESHAPED = arguments.chunk
    redrives.LOOK = 20_000
    asyncio.run(drive(arguments))

"""A process that carries on bulk operations until none is left, a few letters at a time.

`--open` begins an edit of every letter, unless there is one already. `--plant`: with a bug that the test has to find.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable

from redrive import operations
from redrive.operations import carried_on, workshop_of
from redrive.query.tree import EVERYTHING
from redrive.store import Change, Mark, Operation, Share, Store
from tests.crash.programs.tasks import app, witness

PATIENCE = 60
NESTED = Change(patch=[{"op": "copy", "from": "", "path": "/before"}], force=True)
"""A payload that is changed twice is not the one that was changed once."""


async def operate(asked: Namespace) -> None:
    """Begin one if need be, and carry on what is there to its end."""
    app.subscribe(witness)
    store = await app.opened()
    if asked.plant:
        store.operations.step = in_two_moves(store)  # type: ignore[method-assign,assignment]  # a store is not meant to be changed
    async with asyncio.timeout(PATIENCE):
        if asked.open and not await store.operations.find():
            await store.operations.open("edit", EVERYTHING, "test", "killed again and again", change=NESTED)
        for operation in await store.operations.find(["running"]):
            await carried_on(store, operation, workshop_of(app))
    await app.aclose()


def in_two_moves(store: Store) -> Callable[..., Awaitable[Operation | None]]:
    """The planted bug: letters are edited in a transaction of their own, before the operation knows of it."""
    step = store.operations.step

    async def stepped(id: str, after: Mark | None, share: Share) -> Operation | None:
        await store.letters.edit(share.edits, "test", "planted")
        return await step(id, after, share)

    return stepped


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--plant", action="store_true")
    operations.WHOLE = 3
    asyncio.run(operate(parser.parse_args()))

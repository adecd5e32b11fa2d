"""A parent with one busy child: killed by a test, to see what is left.

`keeper_of_a_child.py ORDER [fork]` tells what the child prints, then its pid; with `fork` it has forked before.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from redrive.runners.process import ChildPool
from tests.waiting import auntil

CHILD = Path(__file__).with_name("obedient_child.py")


async def main(order: str, *, fork: bool) -> None:
    """Give the child its order and wait."""
    said: list[str] = []
    pool = ChildPool([sys.executable, str(CHILD)], b"", 1, forward=lambda lines: said.append(lines.decode()))
    job = asyncio.create_task(pool.run(order.encode(), timeout=None))
    await auntil(lambda: said)
    if fork and os.fork() == 0:
        signal.pause()
    print("".join(said), f"child {pool.pids[0]}", sep="", flush=True)
    await job


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], fork="fork" in sys.argv))

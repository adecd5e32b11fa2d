"""A process with a watchdog: `watched_loop.py PATIENCE [block]`.

Its loop blocks, or answers each line of its input.
"""

import asyncio
import sys
import time

from redrive.watchdog import Watchdog, end_process


def stand_still() -> None:
    """Called by a handler that never yields."""
    while True:
        time.sleep(0.01)  # sleep: the handler's own, and it never yields


async def main(patience: float, *, block: bool) -> None:
    """Watch a loop that blocks, or one that answers."""
    loop = asyncio.get_running_loop()
    watchdog = Watchdog(loop, patience, end_process(lambda: ["5a1f01c2 thumbnail.make"]))
    watchdog.start()
    print("watched", flush=True)
    if block:
        stand_still()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(line, end="", flush=True)
    watchdog.stop()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), block="block" in sys.argv))

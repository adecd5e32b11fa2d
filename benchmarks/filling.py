"""A process that fills the store with dead letters, so that what it takes is not counted to what is measured."""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import islice

from benchmarks.children import heard, say
from redrive import Redrive
from redrive.job import Job, new_id
from redrive.letter import Failure
from redrive.store import Foreign

QUEUES = ("default", "email", "billing")
REASONS = ("network", "timeout", "validation")
TASKS = 5
GROUPS = 20
BATCH = 1_000


def letters(n: int) -> Iterator[Foreign]:
    """Letters of three queues, five tasks and twenty causes, a millisecond apart."""
    now = time.time_ns() // 1_000
    for number in range(n):
        at, group = now - number * 1_000, number % GROUPS
        failure = Failure(
            reason=REASONS[number % 3],
            type="ConnectionError",
            message=f"host {number} refused the connection",
            traceback=f"Traceback (most recent call last):\n  cause {group}",
            fingerprint=f"{group:016x}",
            title=f"ConnectionError: host N refused the connection, cause {group}",
            attempt=3,
            at=at,
            host=f"host-{number % 4}",
            worker="bench",
        )
        payload = b'{"user": {"tier": "%s"}, "n": %d}' % (b"gold" if number % 10 else b"tin", number)
        queue, task = QUEUES[number % 3], f"task-{number % TASKS}"
        yield Foreign(
            job=Job(id=new_id(), task=task, queue=queue, payload=payload, attempts=3),
            failures=(failure,),
            first_failed_at=at,
        )


async def main(n: int) -> None:
    """Fill, say so, and end when nobody listens any more."""
    app = Redrive()
    store = await app.opened()
    found = letters(n)
    while batch := list(islice(found, BATCH)):
        await store.letters.take_in(batch, "bench")
    await app.aclose()
    say(ready=True)
    await heard()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

"""Finding what a person means by a few typed letters: a job by the end of its id, a worker by a part of its name."""

import re
from collections.abc import Sequence

from redrive.errors import NotFound, UsageError
from redrive.store import Store, Worker

CHOICES = 5
_PLACES = (12, 16, 20, 24)
"""Digits from the end after which an id has a dash."""


async def find_job(store: Store, typed: str) -> str:
    """The one id that ends like this."""
    suffix = _spelled(typed)
    found = await store.jobs.resolve(suffix, CHOICES)
    if not found:
        raise NotFound(
            f"no job ends with {typed}; `redrive jobs list` shows the newest (finished ones are kept for a while)"
        )
    if len(found) > 1:
        more = ", …" if len(found) == CHOICES else ""
        raise UsageError(f"several jobs end with {typed}: {', '.join(sorted(found))}{more}; type more of the id")
    return found[0]


def digits_of(typed: str) -> str:
    """The hex digits of an id, or of the end of one."""
    digits = typed.strip().lower().replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{1,32}", digits):
        raise UsageError(f"{typed!r} is not the end of an id; ids have digits and the letters a to f")
    return digits


def _spelled(typed: str) -> str:
    """The digits with the dashes that an id has there."""
    digits = digits_of(typed)
    places = [len(digits) - place for place in _PLACES if place < len(digits)]
    return "".join(f"-{digit}" if at in places else digit for at, digit in enumerate(digits))


def find_worker(workers: Sequence[Worker], typed: str) -> Worker:
    """The one worker with this id, or with this in it."""
    exact = [worker for worker in workers if worker.id == typed]
    found = exact or [worker for worker in workers if typed in worker.id]
    if not found:
        there = f"there are: {', '.join(worker.id for worker in workers)}" if workers else "none runs"
        raise NotFound(f"there is no worker {typed!r}; {there}")
    if len(found) > 1:
        names = ", ".join(worker.id for worker in found)
        raise UsageError(f"several workers have {typed!r} in their id: {names}; type more of it")
    return found[0]

"""Whose turn it is in a redrive, and what the jobs of those letters have."""

from collections.abc import Container, Sequence

from redrive.ramp import room, shared
from redrive.store import Due, Plan, Tally
from redrive.stores.sqlite.transaction import Snapshot
from redrive.stores.sqlite.values import Row, blobs_of, spelled

TOGETHER = 4 * 1024 * 1024
"""Payloads of about so many bytes are handed out at once."""


class Turns:
    """Whose turn it is."""

    def __init__(self, snapshot: Snapshot, key: bytes, plan: Plan, paced_at: int, tallies: Sequence[Tally]) -> None:
        self._snapshot = snapshot
        self._key = key
        self._plan = plan
        self._paced_at = paced_at
        self._tallies = tallies
        self._waiting = {each.cause: each.left for each in tallies if each.stopped is None}

    @property
    def left(self) -> int:
        """Of all causes that go on."""
        return sum(self._waiting.values())

    def next(self, n: int) -> list[Row]:
        """At most so many, as far as the pace leaves room."""
        running = sum(each.running for each in self._tallies)
        free = room(self._plan.rate, self._plan.parallel, running, self._snapshot.now, self._paced_at)
        n = n if free is None else min(n, free)
        if self._plan.order == "oldest":
            return self._snapshot.all("oldest_items", self._key, n)
        before = {each.cause: each.released + each.skipped for each in self._tallies}
        turns = shared({cause: (before[cause], left) for cause, left in self._waiting.items()}, n)
        return [item for cause, k in turns.items() for item in self._snapshot.all("next_items", self._key, cause, k)]


def handed(snapshot: Snapshot, keys: Sequence[bytes], without: Container[str] = ()) -> list[Due]:
    """What the jobs of these have, as far as it is few megabytes together."""
    found: list[Due] = []
    length = 0
    for key, version, task, size in snapshot.all("letters_due", blobs_of(keys)):
        id, length = spelled(key), length + size
        if found and length > TOGETHER:
            break
        if id not in without:
            [(payload,)] = snapshot.all("payload_due", key)
            found.append(Due(id=id, version=version, task=task, payload=payload))
    return found

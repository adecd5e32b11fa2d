"""Letters by chance, with what is awkward in all of their parts."""

import random
from typing import Any

import msgspec

from redrive.clock import SECOND, moment
from redrive.query.matching import Subject

NOW = moment("2026-11-19T12:00:00Z")
TEXTS = (
    "",
    "timeout",
    "Timed out in 5s",
    "connection refused by host-1",
    "Übung MACHT den \u017ftrauß",
    "a b",
    "gold",
    "%_'\"",
)
PAYLOADS: tuple[Any, ...] = (
    None,
    {"a": 1, "id": "7", "user": {"tier": "gold"}, "items": [{"n": 1, "price": 5}, {"n": 2, "price": 50}]},
    {"a": {"b": "x", "c": None}, "a b": [3], "x": True, "n": -1.5, "score": 10**30},
    {"id": 5, "items": [], "user": {"tier": "GOLD"}, "x": "5"},
    ["gold", 5, 5.0, True, None, "5.5"],
    "gold",
    5,
)


def subject(random: random.Random) -> Subject:
    """One letter."""
    pick = random.choice
    return Subject(
        id=f"{random.getrandbits(96):024x}{pick(('5a1f01c2', '00003f2a'))}",
        task=pick(("email.send", "thumbnail.make", "timeout")),
        queue=pick(("default", "email", "5")),
        priority=random.randrange(10),
        state=pick(("open", "redriven", "closed", "discarded")),
        reason=pick(("timeout", "network", "validation", "mine")),
        error=pick(("ConnectionError", "httpx.ConnectError", "app.ConnectionError", "MyConnectionError")),
        message=pick(TEXTS),
        group=pick(("3f2a000000000000", "3f2b000000000000", "ffffffffffffffff", "0")),
        attempts=random.randrange(7),
        epochs=random.randrange(1, 4),
        failed_at=NOW - random.randrange(100 * 3_600) * SECOND,
        first_failed_at=NOW - random.randrange(200 * 3_600) * SECOND,
        host=pick(("", "host-1", "host-2")),
        worker=pick(("w1", "w2")),
        release=pick((None, "", "2.4.1")),
        workflow=pick((None, "mapreduce-1")),
        owner=pick((None, "", "alice")),
        review=pick((None, "", "ask ANNA", "loop guard: gold")),
        returns=random.randrange(4),
        rule=pick((None, "gold")),
        note=pick((None, "the relay was down", "gold\n5")),
        traceback=pick((None, "Traceback: timeout")),
        payload=pick((None, b"\xff", b"{", b"[" * 5_000, *map(msgspec.json.encode, PAYLOADS))),
        headers=pick((None, b'{"x":"5","id":5}')),
    )

"""Filters by chance, as people and machines type them: some in the grammar, some not."""

import random

from redrive.query.fields import FIELDS

NAMES = (*FIELDS, "error_type", "item.user.tier", 'payload["a b"]', "payload.items[0].id", "headers.x", "failureReason")
SIGNS = ("=", "==", "!=", "<", "<=", ">", ">=", "~")
VALUES = (
    *("timeout", "5", "-1", "5.5", "true", "null", "gold", "'a b'", '"5"', '"é\\n"', "-24h", "2026-01-31", "high"),
    *("open", "3f2a", "now", "Übung", "''", "a&b", "ConnectionError", "host-1", "1e3", "a.b.c"),
)
PATHS = ("$", "$.a", "$..id", "$.items[?@.n > 1]", "$['a b'][0]", "$.items[*].n", "$.a[?@.b == 'x' && @.c]")
PIECES = (
    *NAMES,
    *SIGNS,
    *VALUES,
    *PATHS,
    "(",
    ")",
    ",",
    "and",
    "or",
    "not",
    "in",
    "is",
    "&&",
    "||",
    "!",
    "$",
    "[",
    "'",
)
NOISE = "\x00\ud800\u202e\"'\\$[](){}.,=<>~!&|%;:@#/ \t\n5aé💥"


def valid(random: random.Random, depth: int = 3) -> str:
    """A filter that the grammar has; its values need not fit its fields."""
    match random.randrange(8 if depth else 5):
        case 0:
            return random.choice(VALUES)
        case 1:
            return f"{random.choice(NAMES)} {random.choice(('is null', 'is not null', 'IS NULL'))}"
        case 2:
            values = ", ".join(random.choice(VALUES) for _ in range(random.randint(1, 3)))
            return f"{random.choice((*NAMES, *PATHS))} {random.choice(('in', 'not in'))} ({values})"
        case 3:
            return random.choice(PATHS)
        case 4:
            return f"{random.choice((*NAMES, *PATHS))}{random.choice(SIGNS)}{random.choice(VALUES)}"
        case 5:
            return f"({valid(random, depth - 1)})"
        case 6:
            return f"{random.choice(('not ', '!'))}{valid(random, depth - 1)}"
        case _:
            joint = random.choice((" and ", " or ", ", ", " && ", "||", "\nAND "))
            return f"{valid(random, depth - 1)}{joint}{valid(random, depth - 1)}"


def broken(random: random.Random) -> str:
    """Pieces and noise in any order."""
    pieces = (
        random.choice(PIECES) if random.random() < 0.8 else random.choice(NOISE) for _ in range(random.randint(1, 9))
    )
    return random.choice(("", " ")).join(pieces)

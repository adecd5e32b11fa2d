"""Which letters a person means by words: groups, queues, workflows, ends of ids."""

import re
from collections.abc import Sequence

from redrive.errors import NotFound, UsageError
from redrive.query.parsing import parse
from redrive.query.tree import OPEN, Both
from redrive.store import Store

FIELDS = {"group": "group", "queue": "queue", "workflow": "workflow", "letter": "id"}
"""What may stand before the colon of a word, and the field that it means."""

_HEX = {"group": re.compile(r"[0-9a-f]{4,16}"), "letter": re.compile(r"[0-9a-f-]{4,36}")}


async def chosen(store: Store, words: Sequence[str], filter: str) -> str:
    """One filter for the words, each of which adds letters, and for the filter, which leaves fewer."""
    terms = list(dict.fromkeys([await _term(store, word) for word in words]))
    named = " or ".join(terms)
    if not named or not filter.strip():
        return named or filter
    return f"({named}) and ({filter})"


async def _term(store: Store, word: str) -> str:
    kind, colon, name = word.partition(":")
    if colon and kind in FIELDS:
        if not await _there(store, kind, name):
            raise NotFound(f"no open letter has {kind} {name!r}; see `redrive dlq groups`")
        return _equal(FIELDS[kind], name)
    kinds = [kind for kind in FIELDS if await _fits(store, kind, word)]
    if not kinds:
        raise NotFound(f"no open letter has a group, queue, workflow or id {word!r}; see `redrive dlq groups`")
    if len(kinds) > 1:
        choices = " or ".join(f"{kind}:{word}" for kind in kinds)
        raise UsageError(f"{word!r} may mean several things; write {choices}")
    return _equal(FIELDS[kinds[0]], word)


async def _fits(store: Store, kind: str, word: str) -> bool:
    """Whether the word may mean this, and an open letter has it there."""
    return (kind not in _HEX or _HEX[kind].fullmatch(word) is not None) and await _there(store, kind, word)


async def _there(store: Store, kind: str, word: str) -> bool:
    tree = Both((OPEN, parse(_equal(FIELDS[kind], word), 0)))
    return await store.letters.count(tree) > 0


def _equal(field: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{field} = "{escaped}"'

"""What a person means by a few typed letters: groups and letters, by the ends of their names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from redrive.errors import NotFound, UsageError
from redrive.job import name_of
from redrive.query.tree import Compare
from redrive.store import Store

CHOICES = 5
NOTE_LIMIT = 10_000
_TYPED = re.compile(r"(?:(group|letter):)?([0-9a-f-]{1,36})", re.IGNORECASE)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Targets:
    """The groups and letters that were meant, by their whole names."""

    groups: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()


async def targets(store: Store, typed: Iterable[str] | str, *, letters: bool = True) -> Targets:
    """What these words name: the beginning of a group's name or the end of a letter's id, with a prefix if need be."""
    words = (typed,) if isinstance(typed, str) else tuple(typed)
    if not words:
        raise UsageError("nothing was named; name groups or letters, as `redrive dlq groups` and `dlq list` show them")
    found = [await _one(store, word, letters) for word in words]
    return Targets(
        tuple(dict.fromkeys(name for kind, name in found if kind == "group")),
        tuple(dict.fromkeys(name for kind, name in found if kind == "letter")),
    )


async def _one(store: Store, word: str, letters: bool) -> tuple[str, str]:
    kind, digits = _read(word, letters)
    found: list[tuple[str, str]] = []
    if kind != "letter":
        found += [("group", group.fingerprint) for group in await store.letters.named(digits, CHOICES)]
    if kind != "group" and letters:
        page = await store.letters.find(Compare("id", "=", digits), limit=CHOICES)
        found += [("letter", letter.id) for letter in page.letters]
    what = "group" if kind == "group" or not letters else "letter" if kind else "group and no letter"
    if not found:
        raise NotFound(f"there is no {what} {word!r}; `redrive dlq groups` and `redrive dlq list` show what there is")
    if len(found) > 1:
        names = ", ".join(f"{kind}:{name}" for kind, name in found)
        raise UsageError(f"{word!r} may be several: {names}; type one of these, or more of it")
    return found[0]


def _read(word: str, letters: bool) -> tuple[str | None, str]:
    """The prefix and the hex digits of a typed name."""
    match = _TYPED.fullmatch(word.strip())
    if match is None:
        forms = "group:3f2a or letter:5a1f01c2" if letters else "group:3f2a"
        raise UsageError(
            f"{word!r} names nothing; write hex digits as `redrive dlq groups` shows them, such as {forms}"
        )
    kind = match[1].lower() if match[1] else None
    if kind == "letter" and not letters:
        raise UsageError(f"{word!r} is a letter, and this is done to groups; `redrive dlq groups` shows them")
    return kind, match[2].replace("-", "").lower()


def kept(text: str, what: str = "owner") -> str:
    """The name of an owner or a release, as every store can keep it."""
    try:
        return name_of(text.strip())
    except ValueError as error:
        raise UsageError(f"the {what} {text!r} cannot be kept: {error}") from None


def note_of(text: str) -> str:
    """A note as every store can keep it."""
    text = text.strip()
    if not 1 <= len(text) <= NOTE_LIMIT or _UNSTORABLE.search(text):
        raise UsageError(f"write a note of 1 to {NOTE_LIMIT:,} characters, none of them a NUL or half of a character")
    return text

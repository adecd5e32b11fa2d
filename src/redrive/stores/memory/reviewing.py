"""Letters in memory that need a person, and those that a rule has told of."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from redrive.disposal import GONE
from redrive.eligibility import NEEDS_NO_REVIEW, guarded, most_returns, told_of
from redrive.letter import Letter, LetterState
from redrive.store import Disposed
from redrive.stores.memory.rows import Memory


def come_back(before: Letter, cause: str, max_epochs: int) -> dict[str, Any]:
    """What a letter that died again remembers of its last death."""
    returns = before.returns + 1 if before.group == cause else 0
    held = guarded(max_epochs) if returns >= most_returns(max_epochs) else None
    return {"returns": returns, "review": before.review or held}


class MemoryReviews:
    """The verbs that say what needs a person."""

    _memory: Memory

    async def review(self, ids: Sequence[str], why: str | None, actor: str, *, rule: str | None = None) -> Disposed:
        """Say why open letters need a person, or with None that they need none any more, and count returns anew."""
        left = dict[str, str]()
        with self._memory.rows.lock:
            letters = self._memory.rows.letters
            for id in dict.fromkeys(ids):
                letter = letters.get(id)
                if (fault := _why_not(letter, why)) is not None or letter is None:
                    left[id] = fault or GONE
                    continue
                returns = letter.returns if why else 0
                letters[id] = msgspec.structs.replace(
                    letter, review=why, returns=returns, version=letter.version + 1, rule=rule or letter.rule
                )
                self._tell_review("letter.review" if why else "letter.reviewed", letter, actor, why)
        return Disposed([id for id in dict.fromkeys(ids) if id not in left], left)

    async def notify(self, ids: Sequence[str], rule: str, actor: str) -> list[str]:
        """Write a line for each group of open letters that no rule has told of since they died; answers which."""
        with self._memory.rows.lock:
            letters = self._memory.rows.letters
            named = [letters[id] for id in dict.fromkeys(ids) if id in letters]
            found = [each for each in named if each.state is LetterState.OPEN and each.rule is None]
            for letter in found:
                letters[letter.id] = msgspec.structs.replace(letter, rule=rule)
            for cause, n in sorted(Counter(letter.group for letter in found).items()):
                group = self._memory.rows.groups[cause]
                text = told_of(rule, n, cause, group.title)
                self._memory.note("rule.notified", task=group.task, reason=group.reason, actor=actor, text=text)
            return [letter.id for letter in found]

    def _tell_review(self, event: str, letter: Letter, actor: str, text: str | None) -> None:
        about: dict[str, str | int] = {"job": letter.id, "task": letter.task, "queue": letter.queue}
        self._memory.note(event, **about, epoch=letter.epochs, attempt=letter.attempts, actor=actor, text=text)


def _why_not(letter: Letter | None, why: str | None) -> str | None:
    if letter is None:
        return GONE
    if letter.state is not LetterState.OPEN:
        return f"it is {letter.state}, not open"
    return NEEDS_NO_REVIEW if why is None and letter.review is None else None

"""What is removed although nobody has dealt with it: open letters, by an explicit policy, announced before it acts."""

from collections.abc import Mapping, Sequence

import msgspec

from redrive.clock import iso, spoken
from redrive.query.tree import OPEN, Among, Both, Compare, Not, Tree

ITSELF = "retention"
"""Who acts when a policy does."""

FOR_EVER = 0
"""A time that does not end."""


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A policy: open letters go so long after they failed last."""

    queue: str | None  # None: of all queues that have no policy of their own
    after: int
    but: tuple[str, ...] = ()  # those that have

    @property
    def of(self) -> str:
        """Whose letters it removes, as a phrase."""
        if self.queue is not None:
            return f"queue {self.queue}"
        return f"every queue but {', '.join(self.but)}" if self.but else "every queue"

    def tree(self, now: int) -> Tree:
        """The letters whose time is over."""
        terms: list[Tree] = [OPEN, Compare("failed_at", "<=", now - self.after)]
        if self.queue is not None:
            terms.append(Compare("queue", "=", self.queue))
        elif self.but:
            terms.append(Not(Among("queue", self.but)))
        return Both(tuple(terms))


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """That a policy will remove letters, and from when on."""

    removal: Removal
    announced_at: int
    acts_at: int
    letters: int  # how many it would have removed when it was announced

    @property
    def said(self) -> str:
        """What it announces, as a sentence."""
        after, letters = spoken(self.removal.after).replace(".0s", "s"), f"{self.letters:,} by now"
        return f"open letters of {self.removal.of} go {after} after they failed, {letters}, from {iso(self.acts_at)} on"


def removals(every: int, own: Mapping[str, int]) -> list[Removal]:
    """The policies of a configuration: of all queues, and of those that say something else."""
    named = [Removal(queue=queue, after=after) for queue, after in sorted(own.items()) if after != FOR_EVER]
    return [*named, *([Removal(queue=None, after=every, but=tuple(sorted(own)))] if every != FOR_EVER else [])]


def standing(policies: Sequence[Removal], notices: Sequence[Notice], least: int) -> list[Notice]:
    """Notices of policies that are exactly what was announced; `least` puts a day off, and never brings it on."""
    return [
        msgspec.structs.replace(notice, acts_at=max(notice.acts_at, notice.announced_at + least))
        for notice in notices
        if notice.removal in policies
    ]

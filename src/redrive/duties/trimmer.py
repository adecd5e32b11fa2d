"""Removes open letters whose time is over, by an explicit policy and after notice; most stores have no such policy."""

from collections.abc import Callable
from typing import Any

from redrive.clock import SECOND, Clock
from redrive.config import Retention
from redrive.retention import ITSELF, Notice, Removal, removals, standing
from redrive.store import Store

LIMIT = 500
REST = 60 * SECOND
SOON = SECOND // 10


class Trimmer:
    """Announces what a policy will remove, and removes it in shares once the notice is over."""

    name = "trimmer"

    def __init__(self, store: Store, clock: Clock, settings: Retention, tell: Callable[..., Any]) -> None:
        self._policies = removals(settings.open, settings.own("open"))
        self._notice = settings.notice
        self._store = store
        self._clock = clock
        self.tell = tell
        self._told: list[Notice] = []

    async def poll(self) -> int:
        """Announce, or remove a share; come back soon while there is more."""
        removed = 0
        for notice in await self._announced():
            if notice.acts_at <= self._clock.now() and removed < LIMIT:
                removed += await self._remove(notice.removal, LIMIT - removed)
        return SOON if removed == LIMIT else REST

    async def _announced(self) -> list[Notice]:
        before = await self._store.letters.notices()
        notices = standing(self._policies, before, self._notice)
        there = [notice.removal for notice in notices]
        notices += [await self._new(policy) for policy in self._policies if policy not in there]
        if len(notices) != len(before) or any(notice not in before for notice in notices):
            await self._store.letters.announce(notices, ITSELF)
        for notice in notices:
            if notice not in self._told:
                self._told.append(notice)
                self.tell("retention.announced", what=notice.said)
        return notices

    async def _new(self, policy: Removal) -> Notice:
        now = self._clock.now()
        letters = await self._store.letters.count(policy.tree(now))
        return Notice(removal=policy, announced_at=now, acts_at=now + self._notice, letters=letters)

    async def _remove(self, policy: Removal, limit: int) -> int:
        now = self._clock.now()
        page = await self._store.letters.find(policy.tree(now), None, limit)
        reason = f"open for longer than the retention of {policy.of}"
        gone = await self._store.letters.purge(
            [letter.id for letter in page.letters], ITSELF, reason, now - policy.after
        )
        if gone.ids:
            self.tell("retention.applied", letters=len(gone.ids), of=policy.of)
        return len(gone.ids)

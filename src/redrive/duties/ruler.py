"""Applies the automatic rules: collects due letters into redrives, discards them, holds them, or tells of them."""

from collections.abc import Callable, Sequence
from typing import Any

from redrive.clock import SECOND, Clock
from redrive.errors import UsageError
from redrive.rules import Rule
from redrive.store import OPEN_REDRIVES, Mark, Redrive, Store
from redrive.triage import meant

REST = 5 * SECOND
SHARE = 20
"""After a look that took long it rests so many times as long: a store of many letters has other things to do."""

LONGEST = SECOND
"""So long at one time, so that the keeper's heartbeat is not late; the next poll goes on where this one was."""

PAUSE = 60 * SECOND
"""At least so long between two redrives of a rule, so that letters gather."""

CHUNK = 500


class Ruler:
    """Does what the rules say; each step is one transaction and finds nothing to do a second time."""

    name = "rules"

    def __init__(self, store: Store, clock: Clock, rules: Sequence[Rule], tell: Callable[..., Any]) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self.tell = tell
        self._marks: dict[tuple[str, str], Mark | None] = {}
        self._until = 0
        self._faults: set[tuple[str, str]] = set()

    async def poll(self) -> int:
        """Each rule in turn."""
        begun = self._clock.steady()
        for rule in self._rules:
            self._until = self._clock.steady() + LONGEST
            try:
                await (self._bring_back(rule) if rule.action == "retry" else self._deal(rule))
            except UsageError as error:
                await self._tell(rule, str(error))
        return max(REST, SHARE * (self._clock.steady() - begun))

    async def _deal(self, rule: Rule) -> None:
        """What is done to the letters themselves."""
        letters, upto, done = self._store.letters, self._clock.now() - rule.after, 0
        while ids := await self._found(rule, rule.due):
            match rule.action:
                case "discard":
                    done += len((await letters.discard(ids, rule.actor, rule.why, upto, rule=rule.name)).ids)
                case "review":
                    done += len((await letters.review(ids, rule.why, rule.actor, rule=rule.name)).ids)
                case _:
                    done += len(await letters.notify(ids, rule.name, rule.actor))
        if done:
            self.tell("rule.applied", rule=rule.name, action=rule.action, n=done)

    async def _bring_back(self, rule: Rule) -> None:
        """Hold what came back too often, and begin a redrive of the others, unless one is under way."""
        held = 0
        while ids := await self._found(rule, rule.spent):
            held += len((await self._store.letters.review(ids, rule.too_often, rule.actor)).ids)
        if held:
            self.tell("rule.applied", rule=rule.name, action="review", n=held)
        last = next(iter(await self._store.redrives.find(limit=1, actor=rule.actor)), None)
        if (last is None or await self._may_follow(rule, last)) and await self._found(rule, rule.due):
            self._marks.pop((rule.name, rule.due), None)
            begun = await self._store.redrives.open(rule.plan, rule.actor, rule.why, sole=True)
            self.tell("rule.begun", rule=rule.name, redrive=begun.id)

    async def _tell(self, rule: Rule, fault: str) -> None:
        """A filter that cannot be answered for some payload: the other rules go on, and this is said once."""
        self._marks = {place: mark for place, mark in self._marks.items() if place[0] != rule.name}
        if (rule.name, fault) not in self._faults:
            self._faults.add((rule.name, fault))
            self.tell("rule.failed", rule=rule.name, error=fault)
            await self._store.journal.note("rule.failed", actor=rule.actor, text=f"rule {rule.name}: {fault}")

    async def _may_follow(self, rule: Rule, last: Redrive) -> bool:
        """A moment after one that went well, as long as letters wait after one that did not."""
        if last.state in OPEN_REDRIVES:
            return False
        tallies = await self._store.redrives.tally(last.id)
        well = last.state == "finished" and all(each.stopped is None and not each.skipped for each in tallies)
        return self._clock.now() - (last.ended_at or 0) >= (PAUSE if well else max(PAUSE, rule.after))

    async def _found(self, rule: Rule, filter: str) -> list[str]:
        """The next letters of a filter; none at the end, where the next look begins anew, or when time is over."""
        tree, place = meant(filter, self._clock.now()), (rule.name, filter)
        while self._clock.steady() <= self._until:
            page = await self._store.letters.find(tree, self._marks.get(place), CHUNK)
            self._marks[place] = page.after
            if page.letters:
                return [letter.id for letter in page.letters]
            if page.after is None:
                break
        return []

"""Rules of finding letters: every engine means the same by a filter, and pages have no gap."""

import random
from collections import Counter

import msgspec

from redrive.clock import ManualClock
from redrive.job import Job
from redrive.letter import Letter, LetterState
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.query.tree import Tree
from redrive.query.words import BadFilter
from redrive.store import Buried, Done, Outline, Retried, Store, Totals
from redrive.survey import surveyed
from redrive.testing.contract.base import Rules
from redrive.testing.factories import a_failure, buried, claimed, leased, settled
from redrive.testing.filters import valid

TIERS = ("gold", "Silver", 5, None)
REASONS = ("network", "timeout", "validation")


class FindingRules(Rules):
    """What finding promises."""

    async def test_the_last_failure_comes_first(self, store: Store, clock: ManualClock) -> None:
        """Also when many failed in the same moment; pages have each letter once."""
        ids = [job.id for job in await self._some(store, clock, 23)]
        assert [letter.id for letter in await _all(store, "", page=23)] == ids[::-1]
        assert [letter.id for letter in await _all(store, "", page=5)] == ids[::-1]

    async def test_a_page_is_light(self, store: Store, clock: ManualClock) -> None:
        """Payload, headers and failures are read only for those that somebody looks at."""
        [job] = await self._some(store, clock, 1)
        [letter] = (await store.letters.find(parse("", 0))).letters
        whole = await store.letters.get(job.id)
        assert whole is not None
        assert (letter.payload, letter.headers, letter.workflow, letter.failures) == (None, None, None, ())
        assert letter == msgspec.structs.replace(
            whole, payload=None, headers=None, workflow=None, failures=(), notes=()
        )

    async def test_whole_letters_have_everything(self, store: Store, clock: ManualClock) -> None:
        """In the order they were asked for; those that are gone are left out."""
        jobs = await self._some(store, clock, 3)
        found = await store.letters.whole([jobs[2].id, "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2", jobs[0].id])
        assert [letter.id for letter in found] == [jobs[2].id, jobs[0].id]
        assert [letter.payload for letter in found] == [jobs[2].payload, jobs[0].payload]
        assert [len(letter.failures) for letter in found] == [1, 1]
        assert found[0].headers == b'{"x":"1"}'

    async def test_filters_on_every_field(self, store: Store, clock: ManualClock) -> None:
        """One that fits, and one that does not."""
        jobs = await self._some(store, clock, 4)
        letter = await store.letters.get(jobs[1].id)
        assert letter is not None
        fitting = (
            f"id = {letter.id[-8:]} and queue = {letter.queue} and task = '{letter.task}' and reason = timeout",
            f"id = {letter.id} and error = ConnectionError and message ~ REFUSED and traceback ~ most",
            f"id = {letter.id[-12:]} and priority = high and attempts = 1 and epochs = 1 and state = open",
            f"id in ({letter.id}) and group = {letter.group} and host = host-1 and release is null and worker = w1",
            f"id in ({letter.id[-8:]}, 00000000) and workflow = batch-1 and headers.x = 1 and payload.tier = Silver",
            f"id = {letter.id[-8:]} and failed_at <= now and first_failed_at < +1s and age < 1h and refused",
        )
        for text in fitting:
            assert [each.id for each in await _all(store, text, now=clock.now())] == [letter.id], text
            assert await _all(store, f"not ({text}) and id = {letter.id[-8:]}", now=clock.now()) == [], text

    async def test_the_traceback_is_that_of_the_last_failure(self, store: Store, clock: ManualClock) -> None:
        """Who died without a trace in the end is not found by the traceback of an attempt before."""
        job = await leased(store)
        await settled(store, Retried(job=job, at=clock.now(), failure=a_failure(traceback="first of all")))
        [job] = await claimed(store)
        await settled(store, Buried(job=job, failure=a_failure(traceback=None, reason="lost", attempt=2)))
        assert await _all(store, "traceback ~ first") == []
        assert [letter.id for letter in await _all(store, "traceback is null")] == [job.id]

    async def test_a_survey_says_the_same_by_whatever_way(self, store: Store, clock: ManualClock) -> None:
        """How many letters, of which groups, from when to when; and how many were looked at where it had to look."""
        await self._some(store, clock, 12)
        for text in ("queue = email", "payload.tier = gold", "workflow = batch-1", "payload.tier = tin"):
            query, looked = parse(text, 0), list[int]()
            found = await surveyed(store, query, looked.append)
            outline = await store.letters.outline(query)
            assert (found.letters, found.oldest, found.newest) == (outline.n, outline.oldest, outline.newest), text
            assert found.groups == await store.letters.groups(query), text
            assert looked[-1:] == ([] if text.startswith("queue") else [12]), text

    async def test_long_filters(self, store: Store, clock: ManualClock) -> None:
        """As long as a filter may be: a list with a thousand values, and 200 terms."""
        [job] = await self._some(store, clock, 1)
        many = ", ".join(["a"] * 999)
        for field, own in (
            ("queue", job.queue),
            ("error", "ConnectionError"),
            ("id", job.id),
            ("payload.tier", "gold"),
        ):
            assert len(await _all(store, f"{field} in ({many}, {own})")) == 1, field
            assert await _all(store, f"{field} not in ({many}, {own})") == [], field
        assert len(await _all(store, " or ".join(["queue = a"] * 199 + ["refused"]))) == 1
        assert await _all(store, " and ".join(["(refused or x)"] * 99 + ["queue = a"])) == []

    async def test_count_counts_what_find_finds(self, store: Store, clock: ManualClock) -> None:
        """Whether the engine can answer by itself or has to look into each."""
        await self._some(store, clock, 12)
        for text in ("", "reason = network", "payload.tier = gold", "payload.tier = gold or reason = network"):
            assert await store.letters.count(parse(text, clock.now())) == len(await _all(store, text)), text

    async def test_an_outline_is_what_a_filter_means_from_afar(self, store: Store, clock: ManualClock) -> None:
        """How many, in how many groups, from the first to the last; there are no times without letters."""
        assert await store.letters.outline(parse("", 0)) == Outline(n=0)
        await self._some(store, clock, 12)
        for text in ("", "reason = network", "payload.tier = gold"):
            found = await _all(store, text)
            times, groups = [letter.failed_at for letter in found], {letter.group for letter in found}
            expected = Outline(n=len(found), groups=len(groups), oldest=min(times), newest=max(times))
            assert await store.letters.outline(parse(text, 0)) == expected, text
        assert await store.letters.outline(parse("payload.tier = lead", 0)) == Outline(n=0)

    async def test_totals_follow_every_change(self, store: Store, clock: ManualClock) -> None:
        """They count open letters by kind; what is brought back leaves them, what dies again comes back to them."""
        jobs = await self._some(store, clock, 9)
        times = [letter.failed_at for letter in await _all(store, "")]
        totals = await store.letters.totals()
        assert (totals.oldest, totals.newest) == (min(times), max(times))
        await self._check_totals(store)
        await store.letters.revive([job.id for job in jobs[:4]], "alice", "fixed")
        await self._check_totals(store)
        again = {job.id: job for job in await claimed(store, 4)}
        await settled(store, Done(job=again[jobs[0].id]))
        await settled(store, Buried(job=again[jobs[1].id], failure=a_failure(epoch=2, reason="crashed")))
        await store.jobs.cancel([jobs[2].id], "alice")
        await self._check_totals(store)
        await store.jobs.prune(100)
        await self._check_totals(store)

    async def _check_totals(self, store: Store) -> None:
        letters = await _all(store, "state = open")
        expected = Counter((each.queue, each.task, each.priority, each.reason) for each in letters)
        kinds = (await store.letters.totals()).kinds
        assert {(kind.queue, kind.task, kind.priority, kind.reason): kind.n for kind in kinds} == expected

    async def test_without_letters_there_are_no_totals(self, store: Store) -> None:
        """And no times."""
        assert await store.letters.totals() == Totals(kinds=[])

    async def test_groups_of_a_filter(self, store: Store, clock: ManualClock) -> None:
        """Counted among the letters that are meant, whatever their state; most of them first."""
        jobs = await self._some(store, clock, 12)
        await store.letters.revive([jobs[0].id], "alice", "fixed")
        for text in ("", "reason = network", "payload.tier = gold"):
            expected = Counter(letter.group for letter in await _all(store, text))
            found = await store.letters.groups(parse(text, clock.now()))
            assert {group.fingerprint: group.count for group in found} == expected, text
            assert [group.count for group in found] == sorted(expected.values(), reverse=True), text
        assert len(await store.letters.groups(parse("", 0), limit=2)) == 2

    async def test_a_closed_letter_is_found_without_its_payload(self, store: Store, clock: ManualClock) -> None:
        """The job is done and its row is gone; the letter stays as history."""
        [job] = await self._some(store, clock, 1)
        await store.letters.revive([job.id], "alice", "fixed")
        await settled(store, Done(job=(await claimed(store))[0]))
        [letter] = await _all(store, "state = closed")
        assert (letter.id, letter.state) == (job.id, LetterState.CLOSED)
        assert await _all(store, "state = closed and payload.tier = gold") == []

    async def test_any_filter_means_what_the_predicate_means(self, store: Store, clock: ManualClock) -> None:
        """300 filters by chance: find, count and groups answer what looking at each letter answers."""
        jobs = await self._some(store, clock, 40)
        await store.letters.revive([job.id for job in jobs[:5]], "alice", "fixed")
        await store.letters.assign("gold", "alice", [f"0f{'0' * 14}"], [jobs[1].id, jobs[6].id])
        await store.letters.note("the gold relay", "alice", [f"1f{'0' * 14}"], [jobs[2].id, jobs[4].id])
        await store.letters.note("5", "bob", ids=[jobs[4].id, jobs[8].id])
        await store.letters.review([jobs[7].id, jobs[9].id], "5 is gold", "alice")
        await store.letters.notify([jobs[9].id, jobs[10].id], "gold", "rule:gold")
        letters = await store.letters.whole([job.id for job in jobs])
        assert len(letters) == 40
        for text, tree in _filters(300, clock.now()):
            fits = matcher(tree)
            meant = [letter for letter in letters if fits(Subject.of(letter))]
            assert {letter.id for letter in await _paged(store, tree, 100)} == {each.id for each in meant}, text
            assert await store.letters.count(tree) == len(meant), text
            counted = {group.fingerprint: group.count for group in await store.letters.groups(tree)}
            assert counted == Counter(each.group for each in meant), text

    async def _some(self, store: Store, clock: ManualClock, n: int) -> list[Job]:
        """Dead jobs of several kinds, two in each second."""
        jobs = []
        for number in range(n):
            clock.advance(number % 2)
            reason = REASONS[number % 3]
            failure = a_failure(at=clock.now(), reason=reason, fingerprint=f"{number % 3}f{'0' * 14}", title=reason)
            payload = msgspec.json.encode({"tier": TIERS[number % 4], "n": number})
            jobs.append(
                await buried(
                    store,
                    failure=failure,
                    queue=("default", "email")[number % 2],
                    priority=8 if number % 2 else 2,
                    payload=payload,
                    headers=b'{"x":"1"}',
                    batch=f"batch-{number % 3}",
                )
            )
        return jobs


def _filters(n: int, now: int) -> list[tuple[str, Tree]]:
    chance, found = random.Random(5), list[tuple[str, Tree]]()
    while len(found) < n:
        text = valid(chance)
        try:
            found.append((text, parse(text, now)))
        except BadFilter:
            continue
    return found


async def _all(store: Store, text: str, *, page: int = 100, now: int = 0) -> list[Letter]:
    return await _paged(store, parse(text, now), page)


async def _paged(store: Store, tree: Tree, size: int) -> list[Letter]:
    found: list[Letter] = []
    page = await store.letters.find(tree, limit=size)
    found += page.letters
    while page.after is not None:
        page = await store.letters.find(tree, page.after, size)
        found += page.letters
    return found

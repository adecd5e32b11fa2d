"""Open letters go by an explicit policy only, after notice, and are told, counted and never raised again."""

from collections.abc import Sequence
from typing import Any

import pytest

from redrive.clock import SECOND, ManualClock
from redrive.config import Retention
from redrive.duties import trimmer
from redrive.duties.trimmer import REST, Trimmer
from redrive.query.parsing import parse
from redrive.store import Buried, Existing, Page
from redrive.stores.memory import MemoryStore
from redrive.testing.factories import a_failure, buried, claimed, entries_of, settled, totals

pytestmark = pytest.mark.anyio
DAY = 24 * 3_600 * SECOND


class Told:
    """What the duty has told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, **fields: Any) -> None:
        self.events.append((name, fields))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


async def dead(store: MemoryStore, clock: ManualClock, *queues: str) -> list[str]:
    """One that died now in each of these queues."""
    return [(await buried(store, queue=queue, failure=a_failure(at=clock.now()))).id for queue in queues]


async def left(store: MemoryStore) -> Sequence[str]:
    """The queues of the open letters."""
    return sorted(letter.queue for letter in (await store.letters.find(parse("state = open", 0))).letters)


def policy(**changes: Any) -> Retention:
    """Open letters of `email` go after a day, which is announced a week before."""
    return Retention(**{"queues": {"email": {"open": DAY}}, **changes})


async def polled(store: MemoryStore, clock: ManualClock, settings: Retention, told: Told | None = None) -> int:
    """A worker that has just started, until it has nothing to do."""
    duty = Trimmer(store, clock, settings, told or Told())
    while (rest := await duty.poll()) != REST:
        pass
    return rest


async def test_without_a_policy_open_letters_stay(store: MemoryStore, clock: ManualClock) -> None:
    """For ever, and nothing is written."""
    await dead(store, clock, "email")
    before = await store.journal.events()
    clock.advance("3650d")
    await polled(store, clock, Retention())
    assert await left(store) == ["email"]
    assert await store.journal.events() == before


async def test_a_policy_is_announced_before_it_acts(store: MemoryStore, clock: ManualClock) -> None:
    """In the journal and to whoever listens, with how many and from when; none goes before that."""
    await dead(store, clock, "email", "other")
    clock.advance("30d")
    told = Told()
    await polled(store, clock, policy(), told)
    assert await left(store) == ["email", "other"]
    [notice] = await store.letters.notices()
    assert (notice.letters, notice.acts_at) == (1, clock.now() + 7 * DAY)
    assert told.events == [("retention.announced", {"what": notice.said})]
    assert (await store.journal.latest(1))[0].event == "retention.announced"
    clock.advance(7 * 86_400 - 1)
    await polled(store, clock, policy())
    assert await left(store) == ["email", "other"]
    clock.advance(1)
    await polled(store, clock, policy(), told)
    assert await left(store) == ["other"]
    assert told.events[-1] == ("retention.applied", {"letters": 1, "of": "queue email"})


async def test_what_was_removed_is_counted_told_and_never_raised(store: MemoryStore, clock: ManualClock) -> None:
    """The journal has each with who and why, a tombstone keeps its id, and the ledger adds up."""
    [id] = await dead(store, clock, "email")
    await polled(store, clock, policy())
    clock.advance("8d")
    await polled(store, clock, policy())
    entry = (await entries_of(store, id))[-1]
    assert (entry.event, entry.actor, entry.text) == (
        "job.purged",
        "retention",
        "open for longer than the retention of queue email",
    )
    counts = await totals(store)
    assert (counts["letters_purged"], counts["dead_purged"]) == (1, 1)
    assert await store.jobs.get(id) is None
    proof = await store.journal.prove()
    assert (proof.adds_up, proof.accounts[0].dead_purged) == (True, 1)


async def test_a_younger_letter_stays(store: MemoryStore, clock: ManualClock) -> None:
    """Its time counts from when it failed last."""
    await polled(store, clock, policy())
    clock.advance("8d")
    await dead(store, clock, "email")
    clock.advance(86_399)
    await polled(store, clock, policy())
    assert await left(store) == ["email"]
    clock.advance(1)
    await polled(store, clock, policy())
    assert await left(store) == []


async def test_a_queue_may_keep_its_letters_for_ever(store: MemoryStore, clock: ManualClock) -> None:
    """What it says itself counts, not what is said for all."""
    settings = policy(open=10 * DAY, queues={"audit": {"open": 0}, "email": {"open": DAY}})
    await dead(store, clock, "audit", "email", "other")
    await polled(store, clock, settings)
    clock.advance("8d")
    await polled(store, clock, settings)
    assert await left(store) == ["audit", "other"]
    clock.advance("2d")
    await polled(store, clock, settings)
    assert await left(store) == ["audit"]


@pytest.mark.parametrize("changed", [policy(queues={"email": {"open": DAY // 2}}), policy(open=DAY, queues={})])
async def test_another_policy_is_announced_anew(store: MemoryStore, clock: ManualClock, changed: Retention) -> None:
    """A shorter time, or one for all: its notice runs from its own announcement."""
    await dead(store, clock, "email")
    await polled(store, clock, policy(notice=30 * DAY))
    clock.advance("29d")
    await polled(store, clock, changed)
    clock.advance("6d")
    await polled(store, clock, changed)
    assert await left(store) == ["email"]
    clock.advance("1d")
    await polled(store, clock, changed)
    assert await left(store) == []
    events = [entry.event for entry in await store.journal.events() if entry.event.startswith("retention.")]
    assert events == ["retention.announced", "retention.withdrawn", "retention.announced"]


async def test_the_day_that_was_announced_is_put_off_and_never_brought_on(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A shorter notice is for the next policy; a longer one counts at once."""
    await dead(store, clock, "email")
    await polled(store, clock, policy())
    clock.advance("2d")
    await polled(store, clock, policy(notice=DAY))
    assert await left(store) == ["email"]
    await polled(store, clock, policy(notice=9 * DAY))
    clock.advance("6d")
    await polled(store, clock, policy(notice=9 * DAY))
    assert await left(store) == ["email"]
    clock.advance("1d")
    await polled(store, clock, policy(notice=9 * DAY))
    assert await left(store) == []


async def test_a_queue_that_loses_its_own_time_is_given_notice(store: MemoryStore, clock: ManualClock) -> None:
    """It falls under the time of all others, which is announced anew for all."""
    kept = policy(open=DAY, queues={"audit": {"open": 0}})
    await dead(store, clock, "audit")
    await polled(store, clock, kept)
    clock.advance("8d")
    await polled(store, clock, policy(open=DAY, queues={}))
    assert await left(store) == ["audit"]


async def test_many_go_in_shares(store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction grows with the data."""
    monkeypatch.setattr(trimmer, "LIMIT", 2)
    await dead(store, clock, *["email"] * 5)
    await polled(store, clock, policy())
    clock.advance("8d")
    told = Told()
    await polled(store, clock, policy(), told)
    assert [fields["letters"] for name, fields in told.events if name == "retention.applied"] == [2, 2, 1]


async def test_a_letter_that_fails_again_meanwhile_stays(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged by when it failed last, also between being found and being removed."""
    [id] = await dead(store, clock, "email")
    await polled(store, clock, policy())
    clock.advance("8d")
    find = store.letters.find

    async def find_and_fail_again(*args: Any, **options: Any) -> Page:
        page = await find(*args, **options)
        if page.letters:
            await store.letters.revive([id], "alice", "")
            await settled(store, Buried(job=(await claimed(store))[0], failure=a_failure(at=clock.now())))
        return page

    monkeypatch.setattr(store.letters, "find", find_and_fail_again)
    await polled(store, clock, policy())
    assert await left(store) == ["email"]


async def test_a_removed_job_is_not_accepted_again(store: MemoryStore, clock: ManualClock) -> None:
    """As after a purge by hand."""
    job = await buried(store, queue="email", failure=a_failure(at=clock.now()))
    await polled(store, clock, policy())
    clock.advance("8d")
    await polled(store, clock, policy())
    assert await store.jobs.add([job]) == [Existing(job.id, "purged")]

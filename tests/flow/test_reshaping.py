"""Redrives that change something on the way: how jobs are retried, when, where, and what they are given."""

import asyncio
from typing import Any, cast

import pytest

from redrive import Redrive, Retry, fixed
from redrive.clock import SECOND, ManualClock
from redrive.config import Config
from redrive.config.settings import RetryTables
from redrive.errors import UsageError
from redrive.job import Job, State
from redrive.redrives import Options, drive, plan_from, report
from redrive.reshaping import Reshaper
from redrive.store import Due, Edit, Store
from redrive.testing.factories import live
from tests.flow.conftest import MakeApp
from tests.waiting import auntil

pytestmark = pytest.mark.anyio

PATIENT = 3_600


class Seen:
    """What handlers were given, and how they shall end."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []
        self.breaks = True
        self.last: asyncio.Event | None = None


def with_report(app: Redrive, attempts: int = 1, **options: Any) -> Seen:
    """A task that fails until it is mended."""
    seen = Seen()

    @app.task(name="report", retry=Retry(attempts, backoff=fixed(PATIENT), jitter="none"), **options)
    async def report(limit: int, to: str = "all") -> None:
        seen.payloads.append({"limit": limit, "to": to})
        if seen.breaks:
            raise ConnectionError("too much")

    return seen


async def die(app: Redrive, *payloads: dict[str, Any]) -> list[str]:
    """A letter for each."""
    ids = [(await app.aenqueue("report", payload)).id for payload in payloads]
    await app.adrain(60)
    return ids


async def released(app: Redrive, **options: Any) -> str:
    """A redrive whose letters are released, and nobody has run them yet."""
    wanted: Options = {"all": True, "wait": False, "actor": "alice"} | options  # type: ignore[assignment]  # of a TypedDict
    run = await app.aredrive("", **wanted)
    while await drive(app.store, app.clock, run.id, Reshaper(app)) == 0:
        pass
    return run.id


async def after_one_attempt(app: Redrive, id: str) -> Job:
    """The job once it has failed once and waits for its retry."""

    async def waits() -> bool:
        return (await live(app.store, id)).state is State.SCHEDULED

    async with app.worker():
        await auntil(waits)
    return await live(app.store, id)


# --- how they are retried ---------------------------------------------------------------------------------------------


async def test_a_redriven_job_is_retried_as_was_said(app: Redrive, clock: ManualClock) -> None:
    """By whatever worker runs it: after the second that was said, and not after the hour of its task."""
    with_report(app, attempts=3)
    [id] = await die(app, {"limit": 9})
    await released(app, strategy="fixed", base="1s")
    assert (await after_one_attempt(app, id)).due_at - clock.now() == SECOND


async def test_without_a_word_it_is_retried_as_its_task_says(app: Redrive, clock: ManualClock) -> None:
    """Also after a redrive of which something else was said."""
    with_report(app, attempts=3)
    [id] = await die(app, {"limit": 9})
    await released(app, strategy="immediate", max_attempts=2)
    await app.adrain(60)
    assert len((await app.letters.aget(id)).failures) == 5  # type: ignore[union-attr]  # it is there
    await released(app)
    assert (await after_one_attempt(app, id)).due_at - clock.now() == PATIENT * SECOND


async def test_a_policy_of_the_project_is_taken_by_its_name(make_app: MakeApp, clock: ManualClock) -> None:
    """As tasks do."""
    policies = RetryTables(named={"often": {"max_attempts": 7, "backoff": "fixed", "base": "2s", "jitter": "none"}})
    app = make_app(clock, config=Config(retry=policies))
    with_report(app)
    [id] = await die(app, {"limit": 9})
    await released(app, strategy="often")
    assert (await after_one_attempt(app, id)).due_at - clock.now() == 2 * SECOND


@pytest.mark.parametrize(("own", "said", "reason"), [("1h", "50ms", "timeout"), ("50ms", "1h", None)])
async def test_another_timeout_is_the_deadline_of_the_handler(
    make_app: MakeApp, own: str, said: str, reason: str | None
) -> None:
    """Shorter or longer than the one of its task."""
    app, release = make_app(), asyncio.Event()

    @app.task(name="report", retry=Retry(1), timeout=own)
    async def wait(limit: int) -> None:
        if limit < 0:
            raise ConnectionError("not yet")
        if reason is None:
            await asyncio.wait([asyncio.create_task(asyncio.sleep(0.2))])  # sleep: longer than the task's own timeout
        else:
            await release.wait()

    [id] = await die(app, {"limit": -1})
    await released(app, timeout=said, set="payload.limit=1")
    await app.adrain(60)
    letter = await app.letters.aget(id)
    assert letter is not None
    assert (letter.state, letter.reason) == (("open", "timeout") if reason else ("closed", letter.reason))


# --- what they are given ----------------------------------------------------------------------------------------------


async def test_letters_come_back_with_other_payloads(app: Redrive) -> None:
    """Each with its own other values; the original is kept, and the letter says what became of it."""
    seen = with_report(app)
    ids = await die(app, {"limit": 9, "to": "ann"}, {"limit": 8, "to": "bob"})
    seen.breaks, seen.payloads = False, []
    run = await released(app, set=["payload.limit=5"], priority="high", queue="slow")
    assert {(await live(app.store, id)).priority for id in ids} == {8}
    await app.adrain(60)
    assert sorted(seen.payloads, key=str) == [{"limit": 5, "to": "ann"}, {"limit": 5, "to": "bob"}]
    assert (await report(app.store, app.clock, run)).successful == 2
    letter = await app.letters.aget(ids[0])
    assert letter is not None
    assert [each.payload for each in letter.replaced] == [b'{"limit":9,"to":"ann"}']


async def test_a_patch_does_the_same(app: Redrive) -> None:
    """And a letter to which it cannot be done is skipped with a sentence, while the others go on."""
    seen = with_report(app)
    await die(app, {"limit": 9, "to": "ann"}, {"limit": 8})
    seen.breaks, seen.payloads = False, []
    run = await released(app, patch=[{"op": "remove", "path": "/to"}])
    await app.adrain(60)
    ended = await report(app.store, app.clock, run)
    assert (ended.successful, ended.skipped) == (1, 1)
    [why] = ended.skips
    assert why.startswith("the patch cannot be done to it: step 1: ")
    assert seen.payloads == [{"limit": 9, "to": "all"}]


async def test_a_payload_that_the_task_does_not_take_is_not_released(app: Redrive) -> None:
    """It would only be set aside."""
    with_report(app)
    await die(app, {"limit": 9})
    run = await released(app, set=["payload.limits=5"])
    ended = await report(app.store, app.clock, run)
    assert "the patch makes a payload that its task does not take" in next(iter(ended.skips))


async def test_workers_know_what_their_tasks_take(make_app: MakeApp) -> None:
    """Also when one of them drives the redrive."""
    app = make_app()
    with_report(app)
    await die(app, {"limit": 9})
    run = await app.aredrive(all=True, wait=False, set="payload.limits=5")

    async def over() -> bool:
        return (await report(app.store, app.clock, run.id)).state == "finished"

    async with app.worker():
        await auntil(over)
    assert (await report(app.store, app.clock, run.id)).skipped == 1


class Interrupted:
    """A store on which somebody edits a letter between the look at it and its release, once."""

    def __init__(self, store: Store, edit: Edit) -> None:
        self._store = store
        self._edits = [edit]

    def __getattr__(self, name: str) -> Any:
        return self if name == "redrives" else getattr(self._store.redrives, name)

    async def due(self, *words: Any) -> list[Due]:
        """What is due, and then the edit."""
        found = await self._store.redrives.due(*words)
        if found and self._edits:
            await self._store.letters.edit([self._edits.pop()], "bob", "")
        return found


async def test_an_edit_on_the_way_is_not_lost(app: Redrive) -> None:
    """The change is made to what somebody wrote while it was computed."""
    seen = with_report(app)
    [id] = await die(app, {"limit": 9, "to": "ann"})
    seen.breaks, seen.payloads = False, []
    run = await app.aredrive(all=True, wait=False, set="payload.limit=5")
    interrupted = cast("Store", Interrupted(app.store, Edit(id, 1, b'{"limit":7,"to":"cat"}')))
    while await drive(interrupted, app.clock, run.id, Reshaper(app)) == 0:
        pass
    assert (await live(app.store, id)).state is State.DEAD
    while await drive(app.store, app.clock, run.id, Reshaper(app)) == 0:
        pass
    await app.adrain(60)
    assert seen.payloads == [{"limit": 5, "to": "cat"}]


async def test_another_process_goes_on_with_the_same_change(make_app: MakeApp) -> None:
    """What is to be changed stands in the store: whoever drives it on does it too."""
    first = make_app()
    seen = with_report(first)
    await die(first, *({"limit": 9} for _ in range(30)))
    run = await first.aredrive(all=True, wait=False, set="payload.limit=5", ramp=[10], stop_at=False)
    for _ in range(2):
        await drive(first.store, first.clock, run.id, Reshaper(first))
    second = make_app()
    mended = with_report(second)
    mended.breaks = False

    async def over() -> bool:
        return (await report(second.store, second.clock, run.id)).state == "finished"

    async with second.worker():
        await auntil(over)
    assert [each["limit"] for each in mended.payloads] == [5] * 30
    assert len(seen.payloads) == 30


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"set": "limit=5"}, "names no place"),
        ({"set": "payload.n=5", "patch": []}, "exclude each other"),
        ({"patch": [5]}, "list of objects"),
        ({"patch": [{"op": "leave"}]}, "no JSON Patch"),
        ({"priority": "urgent"}, "priority"),
        ({"order": "newest"}, "spread and oldest"),
        ({"strategy": "lazy"}, "exponential"),
    ],
)
def test_a_wrong_wish_is_refused(options: Options, said: str) -> None:
    """In one sentence, before anything is opened."""
    with pytest.raises(UsageError, match=said):
        plan_from("reason = network", options)

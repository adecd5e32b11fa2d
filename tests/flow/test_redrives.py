"""Redrives from code: released in stages, stopped where the cause recurs, told how they ended."""

import asyncio
from collections import Counter

import pytest

from redrive import Redrive, Retry
from redrive.clock import ManualClock
from redrive.errors import UsageError
from redrive.letter import LetterState
from redrive.query import paths
from redrive.redrives import Options, Run, drive, plan_from, report
from redrive.store import Item
from tests.flow.conftest import MakeApp
from tests.waiting import auntil

pytestmark = pytest.mark.anyio


class Relay:
    """What the tasks depend on: kinds of mail that cannot be delivered now."""

    def __init__(self) -> None:
        self.broken: set[str] = {"plain", "gold"}


ERRORS = {"plain": ConnectionError, "gold": ValueError, "grey": KeyError}


def with_mail(app: Redrive, attempts: int = 1) -> Relay:
    """An app whose mail fails while the relay is broken, of one cause for each kind."""
    relay = Relay()

    @app.task(name="mail", retry=Retry(attempts))
    async def mail(kind: str) -> None:
        if kind in relay.broken:
            raise ERRORS[kind](f"no {kind} mail")

    return relay


async def die(app: Redrive, n: int, kind: str = "plain") -> None:
    """So many letters."""
    await app.aenqueue_many(app.job("mail", {"kind": kind}) for _ in range(n))
    await app.adrain(120)


async def to_its_end(app: Redrive, filter: str = "", **options: object) -> Run:
    """A redrive driven by hand, with time for the jobs whenever it waits for them."""
    wanted: Options = {"all": True, "wait": False, "actor": "alice"} | options  # type: ignore[assignment]  # of a TypedDict
    run = await app.aredrive(filter, **wanted)
    while (rest := await drive(app.store, app.clock, run.id)) is not None:
        if rest:
            await app.adrain(120)
    return await report(app.store, app.clock, run.id)


async def items_of(app: Redrive, run: Run) -> list[Item]:
    """Every letter in it."""
    return await app.store.redrives.items(run.id, limit=100_000)


async def test_a_cause_that_is_fixed_runs_through(app: Redrive) -> None:
    """In stages; every letter is closed, and the report adds up."""
    relay = with_mail(app)
    await die(app, 60)
    relay.broken.clear()
    run = await to_its_end(app, reason="the relay is back")
    assert (run.state, run.total_items, run.successful) == ("finished", 60, 60)
    assert (run.failed, run.skipped, run.left) == (0, 0, 0)
    assert [stage.released for stage in run.stages] == [1, 5, 25, 29]
    assert await app.letters.acount() == 0
    assert await app.letters.acount("state = closed") == 60
    assert run.error_patterns == ()
    assert (run.redrive.actor, run.redrive.reason) == ("alice", "the relay is back")


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_cause_that_is_not_fixed_touches_its_first_stages_only(app: Redrive) -> None:
    """Of 12,000 letters at most 31 are released; the others stay dead, in their epoch."""
    with_mail(app)
    await die(app, 12_000)
    run = await to_its_end(app)
    released = [item for item in await items_of(app, run) if item.state != "pending"]
    assert (run.state, run.total_items) == ("finished", 12_000)
    assert 1 <= len(released) <= 31
    assert {item.state for item in released} == {"recurred"}
    assert (run.failed, run.left, len(run.stopped)) == (len(released), 12_000 - len(released), 1)
    assert await app.letters.acount("epochs = 1") == run.left
    assert await app.letters.acount("epochs = 2") == len(released)
    [pattern] = run.error_patterns
    assert (pattern.state, pattern.n) == ("recurred", len(released))
    assert "ConnectionError" in pattern.title


async def test_a_filter_that_cannot_be_answered_pauses_it(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason, and nothing released; once it can be answered it goes on."""
    with_mail(app)
    await die(app, 3)
    with monkeypatch.context() as patch:
        patch.setattr(paths, "LONGEST", -1)
        patch.setattr(paths, "LOOK", 1)
        run = await to_its_end(app, "$.kind = plain")
    assert (run.state, run.total_items) == ("paused", 0)
    assert "name its places more closely" in run.redrive.why
    assert await app.store.redrives.change(run.id, run.redrive.version, "running", "alice")
    await drive(app.store, app.clock, run.id)
    assert (await report(app.store, app.clock, run.id)).total_items == 3


async def test_a_broken_group_is_stopped_alone(app: Redrive) -> None:
    """Those that are fixed go on to their end."""
    relay = with_mail(app)
    relay.broken.add("grey")
    await die(app, 60, "plain")
    await die(app, 20, "gold")
    await die(app, 120, "grey")
    relay.broken = {"gold"}
    run = await to_its_end(app)
    assert (run.state, run.successful) == ("finished", 180)
    [stopped] = run.stopped
    assert "ValueError" in stopped.title
    assert stopped.left > 0
    assert (stopped.succeeded, stopped.left + stopped.recurred) == (0, 20)
    letters = [letter async for letter in app.letters.afind()]
    assert Counter(letter.epochs for letter in letters) == {1: stopped.left, 2: stopped.recurred}


async def test_a_verdict_takes_no_backoff(app: Redrive) -> None:
    """The first attempts that fail as before stop it, while their retries wait; it ends when they have ended."""
    with_mail(app, attempts=3)
    await die(app, 40)
    run = await to_its_end(app)
    assert run.failed == run.stopped[0].released
    assert run.failed <= 6
    assert run.running == 0


async def test_few_letters_go_at_once(app: Redrive) -> None:
    """Up to twenty there are no stages, unless they are asked for."""
    with_mail(app)
    await die(app, 20)
    run = await to_its_end(app)
    assert ([stage.released for stage in run.stages], run.failed) == ([20], 20)
    again = await to_its_end(app, ramp=[2, 3], stop_at="20%")
    assert again.left >= 15


async def test_everything_at_once_when_asked(app: Redrive) -> None:
    """Without stages and without a stop."""
    with_mail(app)
    await die(app, 50)
    run = await to_its_end(app, ramp=False, stop_at=False)
    assert ([stage.released for stage in run.stages], run.failed, run.left) == ([50], 50, 0)


async def test_a_redrive_of_nothing_ends_at_once(app: Redrive) -> None:
    """And says that there was nothing."""
    run = await app.aredrive("reason = network")
    assert (run.state, run.total_items) == ("finished", 0)


async def test_workers_drive_what_was_left_to_them(make_app: MakeApp) -> None:
    """Nobody has to wait for it."""
    app = make_app()
    relay = with_mail(app)
    await die(app, 8)
    relay.broken.clear()
    run = await app.aredrive(all=True, wait=False)

    async def over() -> bool:
        return (await report(app.store, app.clock, run.id)).state == "finished"

    async with app.worker():
        await auntil(over)
    assert (await report(app.store, app.clock, run.id)).successful == 8


async def test_several_may_drive_the_same(make_app: MakeApp) -> None:
    """Beside a worker that does too; each letter gets one new epoch."""
    app = make_app()
    relay = with_mail(app)
    await die(app, 200)
    relay.broken.clear()
    run = await app.aredrive(all=True, wait=False, ramp=[1, 5, 25])

    async def drives() -> None:
        while (rest := await drive(app.store, app.clock, run.id)) is not None:  # noqa: ASYNC110 - others change it
            await asyncio.sleep(rest / 10_000_000)  # sleep: its own rest, shortened

    async with app.worker():
        await asyncio.gather(*(drives() for _ in range(3)))
    ended = await report(app.store, app.clock, run.id)
    assert (ended.successful, [stage.released for stage in ended.stages]) == (200, [1, 5, 25, 125, 44])
    closed = [letter async for letter in app.letters.afind("state = closed")]
    assert {letter.state for letter in closed} == {LetterState.CLOSED}
    assert len(closed) == 200


async def test_a_stage_without_a_verdict_pauses(app: Redrive, clock: ManualClock) -> None:
    """When nobody runs the jobs it says so and waits for a person."""
    with_mail(app)
    await die(app, 30)
    run = await app.aredrive(all=True, wait=False)
    while await drive(app.store, app.clock, run.id) == 0:
        pass
    clock.advance("10m")
    assert await drive(app.store, app.clock, run.id) is None
    paused = await report(app.store, app.clock, run.id)
    assert paused.state == "paused"
    assert "stage 1 has had no verdict for 10 min" in paused.redrive.why


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "--all"),
        ({"ramp": []}, "no stages"),
        ({"ramp": [0]}, "no stages"),
        ({"stop_at": "lots"}, "no share"),
        ({"stop_at": "100%"}, "no share"),
        ({"rate": "fast"}, "no rate"),
        ({"rate": 0}, "no rate"),
        ({"limit": 0}, "too small"),
        ({"judge": "me"}, "judge"),
        ({"stage_timeout": "soon"}, "stage_timeout"),
        ({"stage_timeout": 0}, "leaves no time for a verdict"),
    ],
)
def test_a_wrong_wish_is_refused(options: Options, said: str) -> None:
    """In one sentence, before anything is opened."""
    with pytest.raises(UsageError, match=said):
        plan_from("reason = network" if options else "", options)


def test_wishes_are_understood() -> None:
    """A rate by second, minute or hour; a share as number or percentage."""
    plan = plan_from("", {"all": True, "rate": "30/m", "stop_at": "25%", "ramp": [1, 2], "stage_timeout": "5m"})
    assert (plan.rate, plan.stop_at, plan.stages, plan.stage_timeout) == (0.5, 0.25, (1, 2), 300_000_000)
    assert plan_from("x", {"stop_at": False, "ramp": False}).stop_at == "never"

"""Automatic rules at work: each letter is dealt with once for each of its deaths, and nothing goes on for ever."""

from typing import Any

import pytest

from redrive import Redrive
from redrive.clock import SECOND, ManualClock
from redrive.config import Config
from redrive.config.settings import WorkerSettings
from redrive.duties.ruler import REST, Ruler
from redrive.errors import ConfigError, UsageError
from redrive.events import Recorder
from redrive.letter import LetterState
from redrive.query.tree import Tree, looks_inside
from redrive.redrives import drive
from redrive.rules import automatic_rules
from redrive.store import OPEN_REDRIVES, Entry, Page
from tests.flow.conftest import QUICK, MakeApp
from tests.flow.test_redrives import die, with_mail
from tests.waiting import auntil

pytestmark = pytest.mark.anyio
RETRY = {"name": "calm", "when": "reason = network", "after": "10m", "action": "retry"}


def ruler(app: Redrive, *rows: dict[str, Any]) -> Ruler:
    """The duty with these rules, as a process that has just begun would do it."""
    return Ruler(app.store, app.clock, automatic_rules(Config(rules=rows)), app.events.emit)


async def work(app: Redrive) -> None:
    """Drive what is open to its end, and run the jobs."""
    for redrive in await app.store.redrives.find(OPEN_REDRIVES):
        while (rest := await drive(app.store, app.clock, redrive.id)) is not None:
            if rest:
                await app.adrain(120)


async def rounds(app: Redrive, clock: ManualClock, duty: Ruler, n: int) -> None:
    """So many times: time goes by, the rules are applied, jobs run."""
    for _ in range(n):
        clock.advance("11m")
        await duty.poll()
        await work(app)


async def told(app: Redrive, event: str) -> list[Entry]:
    """What the journal has of an event."""
    return [each for each in await app.store.journal.latest(1_000) if each.event == event]


async def test_letters_are_brought_back_once_their_time_has_come(app: Redrive, clock: ManualClock) -> None:
    """In one redrive, by name of the rule; those of other causes and those that are too young stay."""
    relay, duty = with_mail(app), ruler(app, RETRY | {"reason": "the relay comes back by itself", "rate": "100/s"})
    await die(app, 5)
    await die(app, 2, "gold")
    await duty.poll()
    assert await app.store.redrives.find() == []
    clock.advance("10m")
    await die(app, 1)
    relay.broken.clear()
    await duty.poll()
    await duty.poll()
    [redrive] = await app.store.redrives.find()
    assert (redrive.actor, redrive.reason, redrive.plan.rate) == ("rule:calm", "the relay comes back by itself", 100.0)
    while (rest := await drive(app.store, app.clock, redrive.id)) is not None:
        clock.advance(1)
        await app.adrain(120) if rest else None
    assert (await app.letters.acount("state = closed"), await app.letters.acount("reason = network")) == (5, 1)
    assert await app.letters.acount("error = ValueError") == 2


async def test_what_comes_back_again_and_again_needs_a_person(app: Redrive, clock: ManualClock) -> None:
    """After `max_epochs` returns with the same cause; however long the rule goes on, nothing more happens to it."""
    with_mail(app)
    duty = ruler(app, RETRY | {"max_epochs": 2})
    await die(app, 3)
    await rounds(app, clock, duty, 9)
    letters = [letter async for letter in app.letters.afind()]
    assert {(each.epochs, each.returns, each.review) for each in letters} == {
        (3, 2, "rule calm: it came back 2 times in a row with the same cause")
    }
    assert len(await app.store.redrives.find()) == 2


async def test_a_person_who_has_looked_lets_the_rule_go_on(app: Redrive, clock: ManualClock) -> None:
    """The returns count anew."""
    relay, duty = with_mail(app), ruler(app, RETRY | {"max_epochs": 1})
    await die(app, 1)
    await rounds(app, clock, duty, 4)
    assert await app.letters.acount("review is not null") == 1
    await app.letters.areview(filter="", all=True)
    relay.broken.clear()
    await rounds(app, clock, duty, 2)
    assert await app.letters.acount() == 0


async def test_an_outage_costs_a_few_letters_each_time(app: Redrive, clock: ManualClock) -> None:
    """The redrive stops itself, the rule waits as long as letters do, and the rest is brought back when it is over."""
    relay, duty = with_mail(app), ruler(app, RETRY)
    await die(app, 300)
    await rounds(app, clock, duty, 1)
    assert await app.letters.acount("epochs = 1") > 260
    opened = len(await app.store.redrives.find())
    await duty.poll()
    assert len(await app.store.redrives.find()) == opened
    relay.broken.clear()
    await rounds(app, clock, duty, 3)
    assert await app.letters.acount("state = closed") == 300


async def test_a_rule_has_one_open_redrive(app: Redrive, clock: ManualClock) -> None:
    """Also when two processes believe that the duty is theirs, and while a person has paused it."""
    with_mail(app)
    await die(app, 3)
    clock.advance("11m")
    for duty in (ruler(app, RETRY), ruler(app, RETRY)):
        await duty.poll()
    [redrive] = await app.store.redrives.find()
    assert await app.store.redrives.change(redrive.id, redrive.version, "paused", "alice") is not None
    clock.advance("1h")
    await ruler(app, RETRY).poll()
    assert len(await app.store.redrives.find()) == 1


async def test_what_needs_review_is_left_alone(app: Redrive, clock: ManualClock) -> None:
    """By rules that bring back, end or hold; to tell of it is no harm."""
    with_mail(app)
    await die(app, 1)
    await app.letters.areview(filter="reason = network", reason="ask Anna")
    clock.advance("1h")
    for action in ("retry", "discard", "review"):
        await ruler(app, {"when": "reason = network", "action": action, "name": action}).poll()
    [letter] = [letter async for letter in app.letters.afind()]
    assert (letter.review, letter.rule, await app.store.redrives.find()) == ("ask Anna", None, [])
    await ruler(app, {"when": "reason = network", "action": "notify", "name": "loud"}).poll()
    assert len(await told(app, "rule.notified")) == 1


@pytest.mark.parametrize("action", ["discard", "review", "notify"])
async def test_a_rule_deals_once_with_each_death(app: Redrive, clock: ManualClock, action: str) -> None:
    """What a person has undone stays undone, also for a process that begins anew; the next death is another one."""
    with_mail(app)
    rule = {"name": "one", "when": "reason = network", "after": "1m", "action": action, "reason": "as we agreed"}
    await die(app, 3)
    await ruler(app, rule).poll()
    assert await app.letters.acount("rule is null") == 3
    clock.advance("2m")
    for _ in range(3):
        await ruler(app, rule).poll()
        await _undone(app)
    assert await app.letters.acount("rule = one and review is null") == 3
    events = {"discard": "job.discarded", "review": "letter.review", "notify": "rule.notified"}
    entries = await told(app, events[action])
    assert len(entries) == (1 if action == "notify" else 3)
    assert {entry.actor for entry in entries} == {"rule:one"}
    await app.aredrive(all=True, wait=False)
    await work(app)
    clock.advance("2m")
    await ruler(app, rule).poll()
    assert len(await told(app, events[action])) == 2 * len(entries)


async def _undone(app: Redrive) -> None:
    """A person takes back what a rule has done."""
    await app.letters.arestore(all=True)
    await app.letters.areview(all=True)


async def test_the_first_rule_has_the_letter(app: Redrive, clock: ManualClock) -> None:
    """Also while it waits: a later one does not take it away."""
    with_mail(app)
    await die(app, 2)
    await die(app, 2, "gold")
    duty = ruler(app, RETRY | {"after": "1d"}, {"name": "all", "when": "task = mail", "action": "discard"})
    clock.advance("1h")
    await duty.poll()
    letters = [letter async for letter in app.letters.afind("state = open or state = discarded")]
    found = {(each.reason == "network", each.state) for each in letters}
    assert found == {(True, LetterState.OPEN), (False, LetterState.DISCARDED)}


async def test_many_letters_are_dealt_with_in_shares(
    app: Redrive, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each whole; also where the payload has to be looked at, a poll goes on where the one before had to stop."""
    monkeypatch.setattr("redrive.duties.ruler.CHUNK", 7)
    with_mail(app)
    await die(app, 40)
    clock.advance("1h")
    duty = ruler(app, {"name": "big", "when": "payload.kind = plain", "action": "review", "reason": "look"})
    assert await duty.poll() == REST
    assert await app.letters.acount("review = look and rule = big") == 40


async def test_a_worker_applies_the_rules(make_app: MakeApp) -> None:
    """Of its configuration, without anybody's doing."""
    config = Config(worker=WorkerSettings(**QUICK), rules=(RETRY | {"after": 0},))
    app = make_app(config=config)
    relay = with_mail(app)
    await app.aenqueue("mail", {"kind": "plain"})
    async with app.worker():
        await auntil(lambda: _count(app, "reason = network"), 20)
        relay.broken.clear()
        await auntil(lambda: _count(app, "state = closed"), 20)
    [redrive] = await app.store.redrives.find()
    assert (redrive.actor, redrive.reason) == ("rule:calm", "rule calm")


async def _count(app: Redrive, filter: str) -> int:
    return await app.letters.acount(filter)


async def test_a_worker_with_a_bad_rule_does_not_start(make_app: MakeApp) -> None:
    """Before it claims anything."""
    config = Config(worker=WorkerSettings(**QUICK), rules=({"when": "reasn = x", "action": "retry"},))
    with pytest.raises(ConfigError, match=r"\[\[rules\]\] number 1: when: unknown field 'reasn'.*column 1"):
        await make_app(config=config).worker(burst=True).run()


async def test_a_rule_that_cannot_be_answered_stops_no_other(app: Redrive, clock: ManualClock) -> None:
    """What is wrong is said once, in the journal."""
    with_mail(app)
    await die(app, 1)
    find = app.store.letters.find

    async def asked(query: Tree, *rest: Any) -> Page:
        if looks_inside(query):
            raise UsageError("the path leads too far")
        return await find(query, *rest)

    app.store.letters.find = asked  # type: ignore[method-assign,assignment]  # a payload that cannot be answered for
    deep = automatic_rules(Config(rules=({"name": "deep", "when": "payload.x = 1", "action": "discard"},)))
    loud = automatic_rules(Config(rules=({"name": "loud", "when": "task = mail", "action": "notify"},)))
    seen = Recorder()
    app.events.subscribe(seen)
    duty = Ruler(app.store, app.clock, [*deep, *loud], app.events.emit)
    await duty.poll()
    await duty.poll()
    assert [(event.name, event.fields["rule"]) for event in seen.events] == [
        ("rule.failed", "deep"),
        ("rule.applied", "loud"),
    ]
    assert [entry.text for entry in await told(app, "rule.failed")] == ["rule deep: the path leads too far"]
    assert len(await told(app, "rule.notified")) == 1


async def test_after_a_look_that_took_long_it_rests_longer(app: Redrive, clock: ManualClock) -> None:
    """A store with very many letters has other things to do."""
    with_mail(app)
    await die(app, 1)
    find = app.store.letters.find

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        clock.advance(2)
        return await find(*args, **kwargs)

    app.store.letters.find = slowly  # type: ignore[method-assign]  # a store that takes its time
    assert await ruler(app, {"when": "payload.x = 1", "action": "discard"}).poll() >= 40 * SECOND


async def test_who_reads_the_log_of_a_worker_learns_what_rules_did(app: Redrive, clock: ManualClock) -> None:
    """Once for each act, and nothing where nothing was done."""
    with_mail(app)
    await die(app, 3)
    seen = Recorder()
    app.events.subscribe(seen)
    duty = ruler(app, RETRY | {"max_epochs": 1})
    await rounds(app, clock, duty, 3)
    (redrive,) = await app.store.redrives.find()
    assert [(event.name, event.fields) for event in seen.events if event.name.startswith("rule.")] == [
        ("rule.begun", {"rule": "calm", "redrive": redrive.id}),
        ("rule.applied", {"rule": "calm", "action": "review", "n": 3}),
    ]

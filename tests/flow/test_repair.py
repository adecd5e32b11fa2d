"""Many letters changed at once from code, and rules about causes, as a worker and `app.letters` apply them."""

from collections.abc import Mapping
from typing import Any

import pytest

from redrive import Redrive, Retry
from redrive.config import Config
from redrive.errors import ConfigError, NotFound, UsageError
from redrive.job import decode
from redrive.letter import Letter
from redrive.stores.memory import MemoryStore
from tests.flow.conftest import MakeApp

pytestmark = pytest.mark.anyio

QUOTA = {"when": 'message ~ "quota"', "group": "quota exceeded"}


async def some_dead(app: Redrive, n: int = 4) -> list[str]:
    """Jobs that died: every other one of a quota that each task words differently."""

    @app.task(name="mail", retry=Retry(1))
    async def mail(to: str, tier: str = "plain") -> None:
        if tier == "gold":
            raise TimeoutError("quota of the relay is used up")
        raise ValueError("no quota left")

    jobs = [await mail.aenqueue(f"{number}@x", "gold" if number % 2 else "plain") for number in range(n)]
    await app.adrain()
    return [job.id for job in jobs]


async def letters(app: Redrive) -> list[Letter]:
    return sorted([letter async for letter in app.letters.afind("state is not null")], key=lambda letter: letter.id)


async def payloads(app: Redrive) -> list[Any]:
    return [decode(letter.payload or b"") for letter in await letters(app)]


async def test_many_letters_are_edited_and_it_is_taken_back(app: Redrive) -> None:
    """By a filter; what does not fit its task is left, unless it is forced."""
    await some_dead(app)
    before = await payloads(app)
    edit = await app.letters.aedit_all("payload.tier = gold", set={"payload.tier": "silver"}, reason="too dear")
    assert (edit.done, edit.left, edit.state) == (2, {}, "finished")
    assert [payload["tier"] for payload in await payloads(app)] == ["plain", "silver"] * 2
    unfit = await app.letters.aedit_all(all=True, patch=[{"op": "remove", "path": "/to"}])
    assert (unfit.done, sum(unfit.left.values())) == (0, 4)
    forced = await app.letters.aedit_all("payload.tier = plain", patch=[{"op": "remove", "path": "/to"}], force=True)
    assert forced.done == 2
    for operation in (forced, edit):
        assert (await app.letters.aundo(operation.id)).done == 2
    assert await payloads(app) == before


async def test_what_cannot_be_meant_is_refused(app: Redrive) -> None:
    """Before anything is looked at."""
    with pytest.raises(UsageError, match="nothing says which letters to edit"):
        await app.letters.aedit_all(set={"payload.n": 1})
    with pytest.raises(UsageError, match="values at places, or a JSON Patch"):
        await app.letters.aedit_all(all=True)
    with pytest.raises(NotFound):
        await app.letters.aundo("0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2")


async def test_without_rules_regroup_moves_nothing(app: Redrive) -> None:
    """The same code gives the same fingerprints, also to letters that have died again."""
    ids = await some_dead(app)
    await app.store.letters.revive(ids[:2], "alice", "")
    await app.adrain()
    before = await letters(app)
    assert (await app.letters.aregroup(all=True)).done == 0
    assert await letters(app) == before


def ruled(make_app: MakeApp, app: Redrive, *rules: Mapping[str, Any]) -> Redrive:
    """Another process on the same store, with these rules."""
    return make_app(store=app.store, config=Config(fingerprints=tuple(dict(rule) for rule in rules)))


async def test_a_new_failure_is_grouped_by_the_rules(make_app: MakeApp) -> None:
    """As the worker records it."""
    app = make_app(config=Config(fingerprints=(QUOTA,)))
    await some_dead(app)
    [group] = await app.letters.agroups()
    assert (group.title, group.count) == ("quota exceeded", 4)


async def test_regroup_applies_the_rules_to_what_is_there(make_app: MakeApp, app: Redrive) -> None:
    """A second time it moves nothing; without the rule everything goes back where it was."""
    await some_dead(app)
    before = {group.fingerprint: (group.title, group.count) for group in await app.letters.agroups()}
    other = ruled(make_app, app, QUOTA)
    moved = await other.letters.aregroup(all=True)
    assert moved.done == 4
    [group] = await other.letters.agroups()
    assert (group.title, group.count) == ("quota exceeded", 4)
    assert (await other.letters.aregroup(all=True)).done == 0
    assert (await app.letters.aregroup(all=True)).done == 4
    assert {group.fingerprint: (group.title, group.count) for group in await app.letters.agroups()} == before


async def test_a_letter_regrouped_is_where_a_new_one_goes(make_app: MakeApp, app: Redrive) -> None:
    """The rules ask a letter what they ask a failure."""
    rules = (
        {"when": "payload.tier = gold and queue = default", "group": "{default} for gold"},
        {"replace": ["quo*"], "group": "{type} at {frame}: {message} {reason}"},
    )
    await some_dead(app)
    other = ruled(make_app, app, *rules)
    assert (await other.letters.aregroup(all=True)).done == 4
    moved = {letter.group for letter in await letters(other)}
    await some_dead(other)
    assert {letter.group for letter in await letters(other)} == moved
    assert len(moved) == 2


async def test_closed_letters_stay_in_their_groups(make_app: MakeApp, app: Redrive) -> None:
    """They are history, and their payloads are gone; a filter that asks for them gets them."""
    fails = [True]

    @app.task(name="once", retry=Retry(1))
    async def once() -> None:
        if fails:
            raise ValueError("no quota left")

    job = await once.aenqueue()
    await app.adrain()
    fails.clear()
    await app.store.letters.revive([job.id], "alice", "")
    await app.adrain()
    other = ruled(make_app, app, QUOTA)
    assert (await other.letters.aregroup(all=True)).done == 0
    assert (await other.letters.aregroup("state = closed")).done == 1


async def test_a_rule_that_is_wrong_is_said_before_anything_runs(make_app: MakeApp) -> None:
    """A worker does not start with it, and nothing is regrouped."""
    app = make_app(store=MemoryStore(), config=Config(fingerprints=({"groop": "x"},)))
    with pytest.raises(ConfigError, match="number 1: unknown key 'groop'"):
        await app.letters.aregroup(all=True)
    with pytest.raises(ConfigError, match="number 1: unknown key 'groop'"):
        async with app.worker():
            pass

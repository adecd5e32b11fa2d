"""`app.letters`: dead letters found, counted and grouped by filters, from code."""

import asyncio

import pytest

from redrive import Redrive, Retry
from redrive.errors import WrongLoop
from redrive.letter import LetterState
from redrive.query.words import BadFilter

pytestmark = pytest.mark.anyio


async def some_dead(app: Redrive, n: int = 5) -> list[str]:
    """Jobs that died, of two causes."""

    @app.task(name="mail", retry=Retry(1))
    async def mail(to: str, tier: str) -> None:
        if tier == "gold":
            raise TimeoutError("the relay timed out")
        raise ValueError(f"{to!r} is no address")

    jobs = [await mail.aenqueue(f"{number}@x", "gold" if number % 2 else "plain") for number in range(n)]
    await app.adrain()
    return [job.id for job in jobs]


async def test_letters_are_found_whole(app: Redrive) -> None:
    """With their payload and every failure, as a stream."""
    ids = await some_dead(app)
    found = [letter async for letter in app.letters.afind("payload.tier = gold and reason = timeout")]
    assert {letter.id for letter in found} == set(ids[1::2])
    assert {letter.payload for letter in found} == {b'{"to":"1@x","tier":"gold"}', b'{"to":"3@x","tier":"gold"}'}
    assert [letter.failures[0].message for letter in found] == ["the relay timed out"] * 2
    assert len([letter async for letter in app.letters.afind(limit=3)]) == 3


async def test_letters_are_counted_and_grouped(app: Redrive) -> None:
    """By the same filters."""
    ids = await some_dead(app)
    assert await app.letters.acount() == 5
    assert await app.letters.acount("timed") == 2
    assert [(group.count, group.reason) for group in await app.letters.agroups()] == [(3, "unknown"), (2, "timeout")]
    letter = await app.letters.aget(ids[0])
    assert letter is not None
    assert (letter.id, letter.type) == (ids[0], "ValueError")
    assert await app.letters.aget("0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2") is None


async def test_a_filter_means_open_letters_unless_it_says_otherwise(app: Redrive) -> None:
    """What has been brought back is history for who looks for what is broken."""
    ids = await some_dead(app)
    await app.store.letters.revive(ids[:2], "alice", "fixed")
    assert await app.letters.acount() == 3
    assert await app.letters.acount("state = redriven") == 2
    assert await app.letters.acount("state in (open, redriven) and not payload is null") == 5
    redriven = [letter async for letter in app.letters.afind("state != open")]
    assert {letter.state for letter in redriven} == {LetterState.REDRIVEN}


async def test_plain_names_are_for_code_without_a_loop(app: Redrive) -> None:
    """They give the same answers there, and refuse where they would block a loop."""
    ids = await some_dead(app)
    with pytest.raises(WrongLoop, match=r"write .*afind"):
        app.letters.find()

    def look() -> None:
        assert [letter.id for letter in app.letters.find("timed", limit=1)] == [ids[3]]
        assert (app.letters.count("timed"), len(app.letters.groups())) == (2, 2)
        letter = app.letters.get(ids[0])
        assert letter is not None

    await asyncio.to_thread(look)


async def test_a_wrong_filter_is_refused_before_anything_is_read(app: Redrive) -> None:
    """With its column."""
    with pytest.raises(BadFilter, match=r"did you mean 'reason'\? \(column 1\)"):
        await app.letters.acount("reasn = timeout")

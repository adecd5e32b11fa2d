"""`app.letters`: dead letters found, counted and grouped by filters, from code."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from redrive import Redrive, Retry
from redrive.errors import BadArguments, NotFound, Outdated, UsageError, WrongLoop
from redrive.letter import Group, Letter, LetterState
from redrive.query.words import BadFilter
from redrive.store import Disposed, Edit
from redrive.triage import AT_ONCE

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


async def test_groups_and_letters_are_marked_from_code(app: Redrive) -> None:
    """By the beginning of a group's name, or the id of a letter."""
    ids = await some_dead(app)
    [most, _] = await app.letters.agroups()
    name = f"group:{most.fingerprint[:8]}"
    assert await app.letters.aassign([name, ids[1]], "alice") == 2
    assert await app.letters.anote(name, " the relay was down ") == 1
    assert await app.letters.acount("owner = alice") == 4
    assert await app.letters.acount("note = 'the relay was down'") == 3
    assert await app.letters.amute(name, "2h", "known") == 1
    assert [group.state async for group in _groups(app)] == ["muted", "open"]
    assert await app.letters.aclose(name, "2.4.1") == 1
    assert [(group.state, group.closed_in) async for group in _groups(app)] == [("closed", "2.4.1"), ("open", None)]
    assert await app.letters.areopen(name) == 1

    def plain() -> None:
        assert app.letters.assign(name, None) == app.letters.note(name, "x") == app.letters.mute(name) == 1
        assert app.letters.close(name) == app.letters.reopen(name) == 1

    await asyncio.to_thread(plain)


async def test_letters_are_discarded_restored_and_purged_from_code(app: Redrive) -> None:
    """By filter, by id, or all of them on purpose; who did it stands in the journal."""
    ids = await some_dead(app)
    assert await app.letters.adiscard("reason = timeout", reason="old orders") == 2
    assert await app.letters.acount() == 3
    assert [each.text for each in await app.store.journal.events(job=ids[1])][-1] == "old orders"
    assert await app.letters.arestore(all=True) == 2
    assert await app.letters.adiscard(ids=[*ids[:3], ids[0]]) == 3
    assert await app.letters.arestore(ids=ids[0]) == 1
    assert await app.letters.apurge("state = discarded") == 2
    with pytest.raises(UsageError, match="nothing says which letters to purge"):
        await app.letters.apurge()
    with pytest.raises(UsageError, match="by their ids, by a filter or with all=True"):
        await app.letters.adiscard("timed", ids=ids)

    def plain() -> None:
        assert app.letters.discard(ids=ids) == 3
        assert app.letters.restore("state = discarded") == 3
        assert app.letters.purge(all=True) == 3

    await asyncio.to_thread(plain)
    assert await app.letters.acount("state is not null") == 0


async def test_a_payload_is_edited_from_code(app: Redrive) -> None:
    """Checked against the signature, refused when somebody was quicker, and seen by the next run."""
    ids = await some_dead(app, 1)
    letter = await app.letters.aedit(ids[0], {"to": "b@x", "tier": "plain"}, reason="a typo")
    assert (letter.payload, letter.payload_version, letter.version) == (b'{"to":"b@x","tier":"plain"}', 2, 2)
    assert letter.replaced[0].payload == b'{"to":"0@x","tier":"plain"}'
    with pytest.raises(Outdated, match="it has changed since it was read"):
        await app.letters.aedit(ids[0], {"to": "c@x", "tier": "plain"}, version=1)
    with pytest.raises(BadArguments, match="missing a required argument: 'tier'"):
        await app.letters.aedit(ids[0], {"to": "c@x", "tire": "plain"})
    with pytest.raises(NotFound, match="there is no letter"):
        await app.letters.aedit("0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2", {})
    edited = await asyncio.to_thread(app.letters.edit, ids[0], {"to": "d@x", "tier": "plain"})
    assert edited.payload_version == 3
    await app.store.letters.revive(ids, "alice", "fixed")
    await app.adrain()
    again = await app.letters.aget(ids[0])
    assert again is not None
    assert again.failures[-1].message == "'d@x' is no address"


async def test_an_edit_is_answered_though_the_letter_is_purged_right_after(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was done; that somebody else has removed the letter since is no fault of who edited it."""
    [id] = await some_dead(app, 1)
    letters = app.store.letters
    edit = letters.edit

    async def edited_and_purged(edits: Sequence[Edit], actor: str, reason: str) -> Disposed:
        answer = await edit(edits, actor, reason)
        await letters.purge([id], "bob", "")
        return answer

    monkeypatch.setattr(letters, "edit", edited_and_purged)
    letter = await app.letters.aedit(id, {"to": "b@x", "tier": "plain"})
    assert (letter.payload, letter.version, letter.payload_version) == (b'{"to":"b@x","tier":"plain"}', 2, 2)
    assert await app.letters.aget(id) is None


async def _groups(app: Redrive) -> AsyncIterator[Group]:
    for group in await app.letters.agroups():
        yield group


async def test_what_is_no_longer_meant_when_it_is_read_is_left_out(app: Redrive) -> None:
    """Whoever looks through many letters is not given one that was brought back in the meantime."""
    ids = await some_dead(app, AT_ONCE + 5)
    found = list[Letter]()
    async for letter in app.letters.afind():
        if not found:
            await app.store.letters.revive(ids, "alice", "fixed")
        found.append(letter)
    assert len(found) == AT_ONCE
    assert {letter.state for letter in found} == {LetterState.OPEN}


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

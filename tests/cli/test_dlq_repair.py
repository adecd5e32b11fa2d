"""`redrive dlq edit` of many letters: shown by shapes, checked, done as an operation, undone, remembered by groups."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from redrive import operations
from redrive.cli.operating import progress
from redrive.duties.operator import Operator
from redrive.errors import StoreUnavailable
from redrive.job import decode
from redrive.operations import workshop_of
from redrive.query.tree import EVERYTHING
from redrive.repair import Workshop
from redrive.store import Buried, Change, Done, Operation
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_failure, buried, claimed, live, settled
from tests.cli.conftest import Cli, Shop

IDS = [f"01950000-0000-7000-8000-0000000000{n:02x}" for n in range(0xA0, 0xA6)]
NEW = "01950000-0000-7000-8000-0000000000b0"
GOLD = ["dlq", "edit", "--filter", "queue = default", "--set", "payload.tier=gold", "--yes"]


async def six_dead(shop: Shop) -> None:
    """Four with a tier, one without, one whose payload is a number; two causes."""
    payloads = [b'{"tier":"a","token":"s3cr3t"}', b'{"tier":"b"}', b'{"tier":"gold"}', b'{"tier":1}', b'{"n":1}', b"5"]
    for number, (id, payload) in enumerate(zip(IDS, payloads, strict=True)):
        failure = a_failure(at=shop.clock.now(), fingerprint=("cafe", "f00d")[number % 2] + "0" * 12)
        await buried(shop.store, task="old.send", id=id, failure=failure, payload=payload)
        shop.clock.advance(60)


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with six letters."""
    shop.do(six_dead(shop))
    return shop


def payloads(shop: Shop) -> list[Any]:
    return [decode(shop.do(live(shop.store, id)).payload) for id in IDS]


def last_operation(shop: Shop) -> Operation:
    return shop.do(shop.store.operations.find())[0]


def test_the_difference_is_shown_once_for_each_kind(dead: Shop) -> None:
    """With how many letters that is, and why others are left."""
    answer = dead.cli(*GOLD)
    lines = answer.out.splitlines()
    heads = [line for line in lines if "such as" in line]
    assert heads == [
        "2 letters, such as 000000a1: tier: another text",
        "1 letter, such as 000000a3: tier: number to text",
        "1 letter, such as 000000a4: tier: text added",
    ]
    assert '-  "tier": "b"' in lines
    assert '+  "tier": "gold"' in lines
    short = last_operation(dead).id[-8:]
    assert answer.code == 3
    assert "1 letter to leave: the change makes no difference to it\n" in answer.err
    assert answer.err.endswith(
        "redrive: edited 4 letters\n"
        "redrive: left 1 letter: --set 'payload.tier': there is nothing at 'tier' in this payload; set what is around "
        "it first\n"
        "redrive: left 1 letter: the change makes no difference to it\n"
        f"redrive: `redrive dlq edit --undo {short}` takes it back from letters that nothing happened to\n"
    )
    assert [each.get("tier") if isinstance(each, dict) else each for each in payloads(dead)] == [*["gold"] * 5, 5]


def test_secrets_are_masked(dead: Shop) -> None:
    """In the difference, in the operation, and in what the group remembers."""
    words = ["dlq", "edit", "--filter", "payload.token is not null", "--yes", "--set", "payload.token=hunter2"]
    answer = dead.cli(*words)
    assert answer.code == 0
    pages = [answer.out, answer.err, dead.cli("operations", "show", last_operation(dead).id).out]
    pages.append(dead.cli("dlq", "show", "group:cafe").out)
    pages.append(dead.cli("dlq", "show", "group:cafe", "--json").out)
    assert payloads(dead)[0]["token"] == "hunter2"
    assert all(pages)
    assert not any("hunter2" in page or "s3cr3t" in page for page in pages)


def test_a_dry_run_tells_the_kinds_as_json(dead: Shop) -> None:
    """And changes nothing."""
    [told] = dead.cli(*GOLD, "--dry-run", "--json").json
    assert (told["letters"], len(told["groups"]), told["edits"], told["same"]) == (6, 2, 4, 1)
    assert [(each["letters"], each["places"]) for each in told["shapes"]] == [
        (2, ["tier: another text"]),
        (1, ["tier: number to text"]),
        (1, ["tier: text added"]),
    ]
    assert payloads(dead)[0]["tier"] == "a"
    assert dead.do(dead.store.operations.find()) == []


def test_it_asks_first(dead: Shop) -> None:
    """Without a terminal only --yes is an answer."""
    answer = dead.cli(*GOLD[:-1])
    assert answer.code == 2
    assert "and 4 edits to make; nothing was changed: add --yes" in answer.err
    assert dead.do(dead.store.operations.find()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--set payload.n=1", "nothing says which letters to edit; name some, give a filter, or say all=True (--all)"),
        (
            "--all --filter x --set payload.n=1",
            "there are two answers to which letters to edit: some, and all; leave one out",
        ),
        ("a0 a1", "many letters are changed with --set, --patch or --recipe; your editor is for a single one"),
        (
            "--undo a0 --all",
            "--undo takes a whole edit back; leave out everything that chooses letters or changes them",
        ),
        ("--all --recipe a0 --set payload.n=1", "--recipe names a change already; leave out --set and --patch"),
        ("--all --set nothing=1", "--set 'nothing=1' names no place in the payload; write payload.user.email=a@b.c"),
    ],
)
def test_what_cannot_be_meant_is_refused(dead: Shop, words: str, sentence: str) -> None:
    """Before anything is looked at."""
    answer = dead.cli("dlq", "edit", *words.split(), "--yes")
    assert (answer.code, answer.err) == (2, f"redrive: {sentence}\n")


def test_an_operation_that_is_not_there_is_said(dead: Shop) -> None:
    """As one that is no edit."""
    assert dead.cli("dlq", "edit", "--undo", "abcd", "--yes").code == 5
    dead.cli("dlq", "discard", "group:cafe", "--yes")
    short = last_operation(dead).id[-8:]
    refused = dead.cli("dlq", "edit", "--undo", short, "--yes")
    said = f"redrive: operation {short} is no edit (discard); only an edit can be taken back like this\n"
    assert (refused.code, refused.err) == (2, said)
    recipe = dead.cli("dlq", "edit", "--all", "--recipe", short, "--yes")
    assert recipe.err == f"redrive: operation {short} is no edit, and so no recipe; name another\n"


def test_an_edit_is_taken_back(dead: Shop) -> None:
    """Where nothing has happened since; the others are left, and why is told."""
    before = payloads(dead)
    dead.cli(*GOLD)
    edit = last_operation(dead)
    dead.cli("dlq", "edit", "a1", "--set", "payload.tier=silver")
    answer = dead.cli("dlq", "edit", "--undo", edit.id[-8:], "--yes")
    assert answer.code == 3
    assert answer.err == "redrive: undone 3 letters\nredrive: left 1 letter: it has been edited again since\n"
    assert payloads(dead) == [before[0], {"tier": "silver"}, *before[2:]]
    shown = dead.cli("dlq", "show", "a0", "--json").json[0]
    assert (shown.get("payload_version", 1), shown.get("replaced")) == (1, None)
    assert dead.cli("dlq", "edit", "--undo", edit.id[-8:], "--yes").err.startswith("redrive: undone 0 letters\n")


def test_a_group_remembers_what_was_done_to_its_payloads(dead: Shop) -> None:
    """How it went, and how to do it again."""
    dead.cli("dlq", "edit", "group:f00d", "--set", "payload.tier=gold", "--yes")
    edit = last_operation(dead)

    async def brought_back() -> None:
        await dead.store.letters.revive([IDS[1], IDS[3]], "alice", "")
        jobs = await claimed(dead.store, 2)
        await settled(dead.store, Done(job=jobs[0]))
        failure = a_failure(epoch=2, fingerprint="f00d" + "0" * 12)
        await settled(dead.store, Buried(job=jobs[1], failure=failure))

    dead.do(brought_back())
    page = dead.cli("dlq", "show", "group:f00d").out
    assert f"recipe    {edit.id[-8:]} by " in page
    assert '--set payload.tier="gold"' in page
    assert "2 letters: 1 succeeded, 1 failed again" in page
    assert f"redrive dlq edit group:f00d0000 --recipe {edit.id[-8:]}" in page
    assert f"  {edit.id[-8:]}  old.send" in dead.cli("dlq", "groups").out
    recipes = {group["group"][:4]: group.get("recipe") for group in dead.cli("dlq", "groups", "--json").json}
    assert recipes["f00d"] == edit.id
    [recipe] = dead.cli("dlq", "show", "group:f00d", "--json").json[0]["recipes"]
    assert (recipe["edited"], recipe["succeeded"], recipe["again"]) == (2, 1, 1)
    again = dead.cli("dlq", "edit", "group:cafe", "--recipe", edit.id[-8:], "--yes")
    assert (again.code, "redrive: edited 2 letters\n" in again.err) == (0, True)
    assert decode(dead.do(live(dead.store, IDS[0])).payload)["tier"] == "gold"


def test_a_patch_that_does_not_fit_the_task_leaves_its_letters(shop: Shop, folder: Path) -> None:
    """Each is checked against the signature of its task; --force takes it nevertheless."""

    @shop.app.task(name="send")
    def send(to: str) -> None:
        """Takes one argument."""

    shop.do(buried(shop.store, task="send", id=IDS[0], payload=b'{"to":"a"}'))
    (folder / "fix.json").write_text('[{"op": "move", "from": "/to", "path": "/address"}]')
    words = ["dlq", "edit", "--all", "--patch", "fix.json", "--yes"]
    refused = shop.cli(*words)
    assert "1 letter to leave: " in refused.err
    assert "task send" in refused.err
    assert refused.err.endswith("and 0 edits to make; nothing was changed\n")
    assert refused.code == 1
    assert shop.do(live(shop.store, IDS[0])).payload == b'{"to":"a"}'
    assert shop.cli(*words, "--force").code == 0
    assert shop.do(live(shop.store, IDS[0])).payload == b'{"address":"a"}'


def test_what_was_to_be_checked_is_carried_on_by_who_can(dead: Shop) -> None:
    """A worker or a command that does not know the task leaves the operation alone."""
    dead.do(buried(dead.store, task="email.send", id=NEW, payload=b'{"to":"a"}'))
    words = ["dlq", "edit", "--filter", "payload.to = a", "--set", "payload.to=b", "--yes", "--detach"]
    assert dead.cli(*words).code == 0
    operation = last_operation(dead)
    assert operation.change.checked == ("email.send",)
    dead.clock.advance(10)
    dead.do(Operator(dead.store, dead.clock, Workshop()).poll())
    assert last_operation(dead).state == "running"
    dead.do(Operator(dead.store, dead.clock, workshop_of(dead.app)).poll())
    assert (last_operation(dead).state, last_operation(dead).done) == ("finished", 1)


def test_a_command_that_cannot_check_refuses(cli: Cli, folder: Path) -> None:
    """And says what is missing."""
    store = SqliteStore(folder / "redrive.db")

    async def begun() -> Operation:
        await store.open()
        change = Change(settings=("payload.to=b",), checked=("email.send",))
        operation = await store.operations.open("edit", EVERYTHING, "alice", "", change=change)
        await store.close()
        return operation

    operation = asyncio.run(begun())
    answer = cli("--url", store.url, "operations", "resume")
    sentence = "checks payloads against task email.send; name an app that knows it with --app"
    assert (answer.code, answer.err) == (2, f"redrive: operation {operation.id[-8:]} {sentence}\n")


def test_progress_is_told_in_one_line(dead: Shop) -> None:
    """How many of how many, and how many were left."""
    dead.cli(*GOLD)
    assert progress(last_operation(dead), 6) == "6 of 6 letters, 4 edited, 2 left"


def test_an_interrupted_edit_is_carried_on(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the change as it was asked for; each letter is edited once."""
    monkeypatch.setattr(operations, "WHOLE", 2)
    step, calls = dead.store.operations.step, list[int]()

    async def failing(*given: object) -> Operation | None:
        calls.append(1)
        if len(calls) == 3:
            raise StoreUnavailable("the store is gone")
        return await step(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(dead.store.operations, "step", failing)
        assert dead.cli(*GOLD).code == 4
    assert dead.cli("operations", "resume").code == 3
    ended = last_operation(dead)
    assert (ended.state, ended.done, sum(ended.left.values())) == ("finished", 4, 2)
    versions = [dead.do(live(dead.store, id)).payload_version for id in IDS]
    assert versions == [2, 2, 1, 2, 2, 1]


def test_a_letter_that_changes_meanwhile_is_left(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else was there between the look and the edit."""
    step = dead.store.operations.step

    async def slow(id: str, after: Any, share: Any) -> Operation | None:
        for edit in share.edits[:1]:
            await dead.store.letters.edit([edit], "bob", "")
        return await step(id, after, share)

    monkeypatch.setattr(dead.store.operations, "step", slow)
    answer = dead.cli(*GOLD)
    assert "redrive: edited 3 letters\n" in answer.err
    assert "left 1 letter: it has changed since it was read (version 1, now 2)" in answer.err

"""`redrive dlq discard`, `restore` and `purge`: what they touch, what they refuse, and what they say."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from redrive import operations
from redrive.duties.operator import Operator
from redrive.errors import StoreUnavailable
from redrive.repair import Workshop
from redrive.store import Existing, Operation
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_failure, a_job, added, buried
from tests.cli.conftest import Cli, Shop

IDS = [f"01950000-0000-7000-8000-0000000000{n:02x}" for n in range(0xA0, 0xA6)]
GROUPS = ("cafe000000000000", "f00d000000000000")


async def six_dead(shop: Shop) -> None:
    """One each minute, of two causes in turn."""
    for number, id in enumerate(IDS):
        failure = a_failure(
            at=shop.clock.now(), fingerprint=GROUPS[number % 2], reason=("network", "timeout")[number % 2]
        )
        await buried(shop.store, id=id, key=str(number), priority=2 if number == 4 else 5, failure=failure)
        shop.clock.advance(60)


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with six letters."""
    shop.do(six_dead(shop))
    return shop


def states(shop: Shop) -> dict[str, str]:
    """Each letter that is there, by the last two digits of its id."""
    rows = shop.cli("dlq", "list", "--filter", "state is not null", "--json").json
    return {row["id"][-2:]: row["state"] for row in sorted(rows, key=lambda row: row["id"])}


def test_several_filters_mean_what_all_of_them_mean(dead: Shop) -> None:
    dead.cli("dlq", "discard", "--filter", "reason = timeout", "--filter", "priority = 2", "--yes")
    assert set(states(dead).values()) == {"open"}
    dead.cli("dlq", "discard", "--filter", "reason = network", "--filter", "priority = 2", "--yes")
    assert [name for name, state in states(dead).items() if state == "discarded"] == ["a4"]


def test_letters_are_discarded_and_restored(dead: Shop) -> None:
    """Some by name, a group, those of a filter; the journal has who and why."""
    answer = dead.cli("dlq", "discard", "a0", "group:f00d", "--reason", "test orders", "--yes")
    assert (answer.code, answer.out, answer.err) == (0, "", "redrive: discarded 4 letters\n")
    assert states(dead) == {id[-2:]: "open" if id[-2:] in ("a2", "a4") else "discarded" for id in IDS}
    story = " ".join(dead.cli("dlq", "show", "a0").out.split())
    assert ": test orders" in story
    answer = dead.cli("dlq", "restore", "--filter", "reason = timeout", "--yes", "--json")
    [told] = answer.json
    assert (answer.code, told["restored"], told["left"], told["state"]) == (0, 3, {}, "finished")
    answer = dead.cli("dlq", "restore", "--all", "--yes")
    assert answer.err == "redrive: restored 1 letter\n"
    assert set(states(dead).values()) == {"open"}
    assert "restored by " in " ".join(dead.cli("dlq", "show", "a0").out.split())


def test_it_says_what_it_will_touch_and_asks(dead: Shop) -> None:
    """Without a terminal only --yes is an answer; a dry run never changes anything."""
    what = "6 letters in 2 groups, failed between 6m ago and 1m ago, of memory://shop to discard"
    answer = dead.cli("dlq", "discard", "--all")
    assert (answer.code, answer.out) == (2, "")
    groups, sentence = answer.err.splitlines()[:2], answer.err.splitlines()[2]
    assert [line[9:41] for line in groups] == ["      3  group cafe0000  Connect", "      3  group f00d0000  Connect"]
    assert sentence == f"redrive: {what}; nothing was changed: add --yes, because there is no terminal to ask on"
    dry = dead.cli("dlq", "discard", "--all", "--dry-run", "--yes")
    assert (dry.code, dry.err) == (0, f"redrive: {what}; nothing was changed\n")
    assert [line.split()[:2] for line in dry.out.splitlines()[1:]] == [["cafe0000", "3"], ["f00d0000", "3"]]
    [shape] = dead.cli("dlq", "purge", "--filter", "reason = network", "--dry-run", "--json").json
    assert [group.pop("letters") for group in shape["groups"]] == [3]
    assert shape | {"groups": 1} == {
        "letters": 3, "groups": 1, "oldest": "2026-01-01T00:00:00.000Z", "newest": "2026-01-01T00:04:00.000Z"
    }  # fmt: skip
    assert set(states(dead).values()) == {"open"}
    empty = dead.cli("dlq", "discard", "--filter", "queue = none", "--dry-run")
    assert empty.err == "redrive: 0 letters of memory://shop to discard; nothing was changed\n"


@pytest.mark.parametrize("verb", ["discard", "restore", "purge"])
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--yes", 2, "nothing says which letters to {}; name some, give a filter, or say all=True (--all)"),
        (
            "--all --filter refused",
            2,
            "there are two answers to which letters to {}: some, and all; leave one out",
        ),
        ("--all a0", 2, "there are two answers to which letters to {}: some, and all; leave one out"),
        ("--filter reasn=x", 2, "unknown field 'reasn'; did you mean 'reason'? (column 1)"),
    ],
)
def test_without_a_choice_it_refuses(dead: Shop, verb: str, words: str, code: int, sentence: str) -> None:
    """Nothing is done to everything by accident."""
    answer = dead.cli("dlq", verb, *words.split())
    assert (answer.code, answer.out, answer.err) == (code, "", f"redrive: {sentence.format(verb)}\n")
    assert set(states(dead).values()) == {"open"}


def test_purge_removes_for_good(dead: Shop) -> None:
    """The same job is not accepted again."""
    answer = dead.cli("dlq", "purge", "a0", "a1", "--yes")
    assert (answer.code, answer.err) == (0, "redrive: purged 2 letters\n")
    assert len(states(dead)) == 4
    assert dead.do(dead.store.jobs.add([a_job(id=IDS[0])])) == [Existing(IDS[0], "purged")]
    assert dead.cli("dlq", "show", IDS[0]).code == 5


def test_purge_takes_an_age_a_priority_and_states(dead: Shop) -> None:
    """Other than open letters only when they are asked for."""
    assert dead.cli("dlq", "discard", "a5", "--yes").code == 0
    assert dead.cli("dlq", "purge", "--older-than", "5m", "--yes").err == "redrive: purged 2 letters\n"
    assert dead.cli("dlq", "purge", "--priority", "low", "--yes").err == "redrive: purged 1 letter\n"
    assert states(dead) == {"a2": "open", "a3": "open", "a5": "discarded"}
    assert dead.cli("dlq", "purge", "--filter", "state = discarded", "--yes").err == "redrive: purged 1 letter\n"
    assert dead.cli("dlq", "purge", "--all", "--yes").err == "redrive: purged 2 letters\n"
    assert states(dead) == {}


def test_what_is_left_has_a_reason(dead: Shop) -> None:
    """And the command ends with code 3."""
    assert dead.cli("dlq", "discard", "a0", "a1", "--yes").code == 0
    dead.do(added(dead.store, key="0"))
    answer = dead.cli("dlq", "restore", "--all", "--yes")
    assert answer.code == 3
    assert answer.err == (
        "redrive: restored 1 letter\nredrive: left 1 letter: another job has taken its idempotency key\n"
    )


def test_an_interrupted_purge_is_carried_on(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk is whole, and what to type is told; nobody has to know what was asked for."""
    monkeypatch.setattr(operations, "CHUNK", 2)
    step, calls = dead.store.operations.step, list[int]()

    async def failing(*given: object) -> Operation | None:
        calls.append(1)
        if len(calls) == 3:
            raise StoreUnavailable("the store is gone")
        return await step(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(dead.store.operations, "step", failing)
        answer = dead.cli("dlq", "purge", "--all", "--yes", "--reason", "old")
    [operation] = dead.do(dead.store.operations.find())
    short = operation.id[-8:]
    assert answer.code == 4
    assert answer.err == (
        f"redrive: interrupted after 4 letters: operation {short} goes on with the next worker, or here with "
        f"`redrive operations resume {short}`; `cancel` ends it\nredrive: the store is gone\n"
    )
    assert states(dead) == {"a0": "open", "a1": "open"}
    assert dead.cli("operations", "resume", short).err.endswith("redrive: purged 6 letters\n")
    assert states(dead) == {}
    assert dead.cli("operations", "resume", short).code == 2


def test_what_is_detached_is_left_to_the_workers(dead: Shop) -> None:
    """Nothing has happened yet; a worker's duty does it."""
    answer = dead.cli("dlq", "discard", "--all", "--yes", "--detach")
    assert "is left to the workers" in answer.err
    assert set(states(dead).values()) == {"open"}
    duty = Operator(dead.store, dead.clock, Workshop())
    assert dead.do(duty.poll()) > 0
    assert set(states(dead).values()) == {"open"}
    dead.clock.advance(10)
    dead.do(duty.poll())
    assert set(states(dead).values()) == {"discarded"}


def test_operations_are_listed_shown_and_cancelled(dead: Shop) -> None:
    """Who did what to which letters, and how far it is."""
    dead.cli("dlq", "discard", "--filter", "reason = timeout", "--yes", "--reason", "tests")
    dead.cli("dlq", "restore", "group:f00d", "--yes", "--detach")
    newest, oldest = dead.cli("operations", "list", "--json").json
    assert (newest["verb"], newest["state"], newest["filter"]) == ("restore", "running", "group:f00d")
    assert (oldest["verb"], oldest["state"], oldest["discarded"]) == ("discard", "finished", 3)
    assert len(dead.cli("operations", "list").out.splitlines()) == 3
    page = dead.cli("operations", "show", oldest["operation"]).out
    assert "reason = timeout" in page
    assert "tests" in page
    short = newest["operation"][-8:]
    assert dead.cli("operations", "cancel", short).err == f"redrive: operation {short} is cancelled, after 0 letters\n"
    again = dead.cli("operations", "cancel", short)
    assert (again.code, again.err) == (2, f"redrive: operation {short} is cancelled; it cannot be cancelled\n")
    assert dead.cli("operations", "resume").err == "redrive: there is no operation that has not ended\n"
    assert dead.cli("operations", "show", "0000000000").code == 5


KILLED = """
import asyncio, sys
from redrive import operations
from redrive.cli import main
from redrive.stores.sqlite.operations import SqliteOperations

operations.CHUNK = 10
once, step = list(), SqliteOperations.step

async def told(*given):
    answer = await step(*given)
    once.append(answer)
    if len(once) == 2:
        print("HALF", flush=True)
        await asyncio.Event().wait()
    return answer

SqliteOperations.step = told
main()
"""


def test_a_killed_discard_is_carried_on_by_another_process(cli: Cli, folder: Path) -> None:
    """After kill -9 each chunk is there whole or not at all, and the sums are right."""
    url = f"sqlite:///{folder}/redrive.db"

    async def fill() -> None:
        store = SqliteStore(folder / "redrive.db")
        await store.open()
        for _ in range(35):
            await buried(store, failure=a_failure(at=1))
        await store.close()

    asyncio.run(fill())
    words = ["--url", url, "dlq", "discard", "--all", "--yes"]
    with subprocess.Popen([sys.executable, "-c", KILLED, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "HALF\n"
        finally:
            process.kill()
    assert (cli("--url", url, "dlq", "stats", "--json").json[0]["letters"], len(listed(cli, url, "open"))) == (15, 15)
    assert [row["letters"] for row in cli("--url", url, "dlq", "groups", "--json").json] == [15]
    assert cli("--url", url, "operations", "resume").err.endswith("redrive: discarded 35 letters\n")
    assert (len(listed(cli, url, "open")), len(listed(cli, url, "discarded"))) == (0, 35)


def listed(cli: Cli, url: str, state: str) -> list[str]:
    rows = cli("--url", url, "dlq", "list", "--filter", f"state = {state}", "--json").json
    return [row["id"] for row in rows]


def test_letters_that_die_meanwhile_are_left(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not shown before the question is not touched."""
    outline = dead.store.letters.outline

    async def and_one_dies(tree: object) -> object:
        found = await outline(tree)  # type: ignore[arg-type]
        dead.clock.advance(1)
        await buried(dead.store, failure=a_failure(at=dead.clock.now()))
        return found

    monkeypatch.setattr(dead.store.letters, "outline", and_one_dies)
    assert dead.cli("dlq", "discard", "--all", "--yes").err == "redrive: discarded 6 letters\n"
    assert list(states(dead).values()).count("open") == 1

"""`redrive dlq review`, and what the other verbs show and do with letters that need a person."""

import pytest

from redrive.redrives import drive
from redrive.store import Plan
from redrive.testing.factories import a_failure, a_worker, buried, live
from tests.cli.conftest import Cli, Shop
from tests.cli.test_redrives import letters, now, worked

LETTER = "01950000-0000-7000-8000-0000000000a0"
OTHER = "01950000-0000-7000-8000-0000000000a1"
GROUP = "cafe000000000000"


async def two(shop: Shop) -> None:
    """Two letters of one cause."""
    for id in (LETTER, OTHER):
        await buried(shop.store, id=id, failure=a_failure(at=shop.clock.now(), fingerprint=GROUP, attempt=1))


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with two letters."""
    shop.do(two(shop))
    return shop


def test_a_letter_is_held_and_let_go(dead: Shop) -> None:
    """With why, in its story, in the list, and for filters."""
    answer = dead.cli("dlq", "review", "a0", "--reason", "is this customer real?")
    assert (answer.code, answer.out, answer.err) == (0, "", "redrive: 1 letter needs review: is this customer real?\n")
    assert [row["id"] for row in dead.cli("dlq", "list", "--filter", "review ~ real", "--json").json] == [LETTER]
    story = dead.cli("dlq", "show", "a0").out
    assert "  review    needs review: is this customer real?\n" in story
    assert "held for review by " in story
    head, *rows = dead.cli("dlq", "list").out.splitlines()
    assert head.split()[-1] == "REVIEW"
    assert sum("is this" in row for row in rows) == 1
    [shape] = dead.cli("dlq", "review", "a0", "--done", "--json").json
    assert shape == {"letters": 1, "review": None, "left": {}}
    assert "reviewed, and may be brought back by " in dead.cli("dlq", "show", "a0").out
    assert "REVIEW" not in dead.cli("dlq", "list").out


def test_many_are_held_by_group_or_filter(dead: Shop) -> None:
    """A filter is asked about, or said yes to; --all with --done means those that are held."""
    assert "2 letters need review: why" in dead.cli("dlq", "review", "group:cafe", "--reason", "why").err
    refused = dead.cli("dlq", "review", "--done", "--all")
    assert refused.code == 2
    assert "add --yes" in refused.err
    assert dead.cli("dlq", "review", "--done", "--all", "--yes").err == "redrive: 2 letters need no review any more\n"
    held = dead.cli("dlq", "review", "--filter", "id = 000000a1", "--reason", "why", "--yes")
    assert held.err == "redrive: 1 letter needs review: why\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a0"], "say either --reason"),
        (["a0", "--reason", "x", "--done"], "say either --reason"),
        (["--reason", "x"], "nothing says which letters"),
        (["a0", "--reason", "  "], "what a person has to look at"),
    ],
)
def test_what_cannot_be_meant_is_refused(dead: Shop, words: list[str], said: str) -> None:
    answer = dead.cli("dlq", "review", *words)
    assert answer.code == 2
    assert said in answer.err


def test_stats_tell_what_is_eligible(dead: Shop) -> None:
    """Beside what needs review."""
    assert "  eligible        2\n" in dead.cli("dlq", "stats").out
    dead.cli("dlq", "review", "a0", "--reason", "why")
    assert "  eligible        1, 1 need review\n" in dead.cli("dlq", "stats").out
    [shape] = dead.cli("dlq", "stats", "--json").json
    assert (shape["letters"], shape["eligible"], shape["needs_review"]) == (2, 1, 1)


def test_a_mark_travels_in_an_export(dead: Shop, cli: Cli) -> None:
    """Where it is imported the letter needs a person too."""
    dead.cli("dlq", "review", "a0", "--reason", "why")
    dead.cli("dlq", "export", "letters.csv")
    assert cli("--url", "sqlite:///elsewhere.db", "dlq", "import", "letters.csv").code == 0
    found = cli("--url", "sqlite:///elsewhere.db", "dlq", "list", "--filter", 'review = "why"', "--json").json
    assert [row["id"] for row in found] == [LETTER]


def test_a_redrive_that_skips_everything_has_not_gone_well(dead: Shop) -> None:
    """Whoever goes on with `&&` would take it for done."""
    dead.cli("dlq", "review", "--all", "--reason", "ask Anna", "--yes")
    dead.cli("dlq", "retry", "--all", "--yes", "--detach")
    [redrive] = dead.do(dead.store.redrives.find())
    dead.do(worked(dead, redrive))
    assert dead.cli("redrives", "watch", redrive.id).code == 1
    header, row = dead.cli("redrives", "list").out.splitlines()
    assert (header.split()[3:7], row.split()[-6:-2]) == (["LETTERS", "DONE", "FAILED", "SKIPPED"], ["2", "0", "0", "2"])


def test_a_redrive_skips_what_needs_review(dead: Shop) -> None:
    """It is told before and in the report; --force takes it along, for a reason that is said."""
    dead.cli("dlq", "review", "a0", "--reason", "ask Anna")
    begun = dead.cli("dlq", "retry", "--all", "--yes", "--detach")
    assert "1 letter of these needs review and will be skipped" in begun.err
    [redrive] = dead.do(dead.store.redrives.find())
    dead.do(worked(dead, redrive))
    [shape] = dead.cli("redrives", "show", redrive.id, "--json").json
    assert (shape["skips"], shape["successful"]) == ({"needs review: ask Anna": 1}, 1)
    assert "1  needs review: ask Anna\n" in dead.cli("redrives", "show", redrive.id).out
    assert dead.cli("redrives", "watch", redrive.id).code == 3
    refused = dead.cli("dlq", "retry", "--all", "--yes", "--force")
    assert refused.code == 2
    assert "say why with reason= (--reason)" in refused.err
    forced = dead.cli("dlq", "retry", "--all", "--yes", "--detach", "--force", "--reason", "Anna says so")
    assert "review" not in forced.err
    dead.do(worked(dead, dead.do(dead.store.redrives.find(limit=1))[0]))
    assert dead.cli("dlq", "stats", "--json").json[0]["letters"] == 0


def test_a_redrive_waits_for_a_release(shop: Shop) -> None:
    """Wherever one looks it says what it waits for; it begins when such a worker serves its letters."""
    [job] = shop.do(letters(shop, 1))
    begun = shop.cli("dlq", "retry", "--all", "--yes", "--detach", "--when-release", ">= 2.4.1")
    said = "waits until a worker that serves its letters reports release >= 2.4.1"
    assert said in begun.err
    [redrive] = shop.do(shop.store.redrives.find())
    assert redrive.plan == Plan(when_release=">= 2.4.1")
    shop.do(shop.store.redrives.freeze(redrive.id, 10))
    assert "waiting" in shop.cli("redrives", "list").out
    assert said in shop.cli("redrives", "list", COLUMNS="200").out
    assert said in shop.cli("redrives", "resume", redrive.id, "--detach").err
    assert said in shop.cli("redrives", "show", redrive.id).out
    [shape] = shop.cli("redrives", "show", redrive.id, "--json").json
    assert (shape["state"], shape["when_release"]) == ("waiting", ">= 2.4.1")
    old = a_worker(id="old", release="2.4.0", tasks=("email.send",))
    new = a_worker(id="new", release="2.5", tasks=("email.send",))
    other = a_worker(id="other", release="2.5", tasks=("thumbnail.make",))
    shop.do(shop.store.workers.beat(old, 10**9), shop.store.workers.beat(other, 10**9))
    assert shop.do(drive(shop.store, shop.clock, redrive.id)) is not None
    assert shop.do(live(shop.store, job.id)).epoch == 1
    shop.do(shop.store.workers.beat(new, 10**9), worked(shop, redrive))
    assert shop.do(now(shop, redrive)).state == "finished"
    assert "worker new reports release 2.5" in shop.cli("events", "--limit", "100").out


def test_a_release_that_is_none_opens_nothing(shop: Shop) -> None:
    shop.do(letters(shop, 1))
    answer = shop.cli("dlq", "retry", "--all", "--yes", "--when-release", ">= soon")
    assert answer.code == 2
    assert "is no comparison of versions" in answer.err
    assert shop.do(shop.store.redrives.find()) == []

"""`redrive dlq regroup`: what would move where, and what it says when it does."""

from pathlib import Path

import pytest

from redrive.testing.factories import a_failure, buried
from tests.cli.conftest import Cli, Shop

RULE = """
[[fingerprints]]
when = 'message ~ "quota"'
group = "quota exceeded"
"""


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with letters of three causes, two of which a rule makes one."""

    async def fill() -> None:
        for number in range(3):
            failure = a_failure(fingerprint=("cafe", "f00d")[number % 2] * 4, message=f"quota {number}", title="before")
            await buried(shop.store, failure=failure)
        await buried(shop.store, failure=a_failure(fingerprint="beef" * 4, title="another"))

    shop.do(fill())
    return shop


def with_rule(folder: Path) -> None:
    """The project has it from now on."""
    (folder / "redrive.toml").write_text(RULE)


def test_it_says_what_would_move_where(dead: Shop, folder: Path) -> None:
    """A dry run moves nothing; as JSON it is all there."""
    assert dead.cli("dlq", "regroup", "--all", "--dry-run").err == "redrive: every letter is in its group already\n"
    with_rule(folder)
    answer = dead.cli("dlq", "regroup", "--all", "--dry-run")
    assert answer.err == "redrive: 3 letters would move; nothing was changed\n"
    assert [line.split()[:2] for line in answer.out.splitlines()[1:]] == [["2", "cafecafe"], ["1", "f00df00d"]]
    [told] = dead.cli("dlq", "regroup", "--all", "--dry-run", "--json").json
    assert (told["letters"], [(each["group"], each["letters"]) for each in told["moves"]]) == (
        3,
        [("cafe" * 4, 2), ("f00d" * 4, 1)],
    )
    assert len(dead.cli("dlq", "groups", "--json").json) == 3


def test_it_asks_and_moves(dead: Shop, folder: Path) -> None:
    """What moved where is kept with the operation; a second time there is nothing to do."""
    with_rule(folder)
    asked = dead.cli("dlq", "regroup", "--all")
    assert asked.code == 2
    assert "3 letters of memory://shop to move by 1 rule; nothing was changed: add --yes" in asked.err
    answer = dead.cli("dlq", "regroup", "--all", "--yes")
    assert (answer.code, answer.err) == (0, "redrive: regrouped 3 letters\n")
    groups = {row["title"]: row["letters"] for row in dead.cli("dlq", "groups", "--json").json}
    assert groups == {"quota exceeded": 3, "another": 1}
    [operation] = dead.cli("operations", "list", "--json").json
    [shown] = dead.cli("operations", "show", operation["operation"], "--json").json
    assert [(each["group"], each["letters"]) for each in shown["groups"]] == [("cafe" * 4, 2), ("f00d" * 4, 1)]
    assert dead.cli("dlq", "regroup", "--all", "--yes").err == "redrive: every letter is in its group already\n"
    assert dead.cli("dlq", "regroup", "--all", "--yes", "--json").json == [{"letters": 0, "moves": []}]


def test_it_does_not_act_on_everything_by_itself(dead: Shop) -> None:
    """Nor on some and all at once."""
    for words in ((), ("--filter", "group = cafe", "--all")):
        answer = dead.cli("dlq", "regroup", *words)
        assert (answer.code, answer.out) == (2, "")
        assert "which letters to regroup" in answer.err


def test_a_filter_leaves_the_others_where_they_are(dead: Shop, folder: Path) -> None:
    """Only those that it means are looked at."""
    with_rule(folder)
    assert dead.cli("dlq", "regroup", "--filter", "group = cafe", "--yes").err == "redrive: regrouped 2 letters\n"


def test_the_rules_are_those_of_the_project(cli: Cli, folder: Path) -> None:
    """And one that is wrong is said with its number, by the doctor too."""
    (folder / "redrive.toml").write_text('url = "memory://"\n' + RULE)
    assert "fingerprints" in cli("config").out
    assert cli("dlq", "regroup", "--all").err == "redrive: every letter is in its group already\n"
    (folder / "redrive.toml").write_text('url = "memory://"\n[[fingerprints]]\ngroop = "x"\n')
    sentence = "[[fingerprints]] number 1: unknown key 'groop'; use when, group, replace"
    assert cli("dlq", "regroup", "--all").err == f"redrive: {sentence}\n"
    assert sentence in " ".join(cli("doctor").out.split())

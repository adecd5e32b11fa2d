"""`redrive dlq rules`, and what `doctor` and `config` say of rules."""

from pathlib import Path

import pytest

from redrive.testing.factories import a_failure, buried
from tests.cli.conftest import Cli, Shop

RULES = """\
[[rules]]
name = "calm"
when = "reason = network"
after = "10m"
action = "retry"

[[rules]]
when = "queue = default"
action = "notify"
"""


@pytest.fixture
def ruled(shop: Shop, folder: Path) -> Shop:
    """Two rules and three letters."""
    (folder / "redrive.toml").write_text(RULES)
    for reason in ("network", "network", "timeout"):
        shop.do(buried(shop.store, failure=a_failure(at=shop.clock.now(), reason=reason)))
    return shop


def test_rules_are_listed_with_what_they_would_do_now(ruled: Shop) -> None:
    """Nothing is done by looking; a letter is counted for the first rule that it fits."""
    head, *rows = ruled.cli("dlq", "rules").out.splitlines()
    assert head.split() == ["RULE", "ACTION", "AFTER", "LETTERS", "DUE", "REDRIVE", "WHEN"]
    assert [row.split()[:6] for row in rows] == [
        ["calm", "retry", "10m", "2", "0", "-"],
        ["2", "notify", "at", "once", "1", "1"],
    ]
    ruled.clock.advance("10m")
    calm, loud = ruled.cli("dlq", "rules", "--json").json
    assert calm == {
        "rule": "calm",
        "action": "retry",
        "after": 600.0,
        "max_epochs": 3,
        "letters": 2,
        "due": 2,
        "redrive": None,
        "when": "reason = network",
    }
    assert (loud["letters"], loud["due"], loud["max_epochs"]) == (1, 1, None)
    assert [entry["event"] for entry in ruled.cli("events", "--json").json] == ["job.buried"] * 3
    assert ruled.cli("dlq", "list", "--filter", "rule is null", "--json").out.count("\n") == 3


def test_without_rules_it_says_how_to_make_one(shop: Shop) -> None:
    answer = shop.cli("dlq", "rules")
    assert (answer.code, answer.out) == (0, "")
    assert "[[rules]] in redrive.toml makes one" in answer.err


def test_the_doctor_knows_the_rules(ruled: Shop) -> None:
    """Each in a sentence."""
    out = ruled.cli("doctor").out
    assert "rule calm: letters of 'reason = network' are brought back 10m after they failed" in out.replace("\n  ", " ")
    assert "rules" in ruled.cli("config").out
    assert [row["from"] for row in ruled.cli("config", "--json").json if row["key"] == "rules"] != ["default"]


@pytest.mark.parametrize("command", [["dlq", "rules"], ["doctor"], ["worker", "--burst"]])
def test_a_rule_that_is_wrong_is_said_with_its_place(cli: Cli, module: Path, folder: Path, command: list[str]) -> None:
    """Wherever the rules are looked at, before anything is done."""
    (folder / "redrive.toml").write_text("[[rules]]\nname = 'calm'\nwhen = 'reasn = network'\naction = 'retry'\n")
    answer = cli("--app", "tasks:app", *command)
    assert answer.code != 0
    said = (answer.err + answer.out).replace("\n  ", " ")
    assert f"{folder}/redrive.toml: [[rules]] number 1 (calm): when: unknown field 'reasn'" in said
    assert "(column 1)" in said

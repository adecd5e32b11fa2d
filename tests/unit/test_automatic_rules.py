"""Rules as they are written in a project file: what they mean, and what is said of those that are wrong."""

import random
from pathlib import Path
from typing import Any

import pytest

from redrive.config import Config, load
from redrive.errors import ConfigError
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.rules import Rule, automatic_rules
from redrive.store import Plan
from tests.unit.query.subjects import NOW, subject

NETWORK = {"when": "reason in (network, rate_limited)", "action": "retry"}
FILE = "/srv/redrive.toml"


def rules(*rows: dict[str, Any], **settings: Any) -> tuple[Rule, ...]:
    """The rules of a file with these tables."""
    return automatic_rules(Config(rules=rows, sources={"rules": FILE}, **settings))


def test_rules_stand_in_the_project_file(tmp_path: Path) -> None:
    """In their order; one without a name goes by its number."""
    (tmp_path / "redrive.toml").write_text(
        "[[rules]]\nname = 'calm'\nwhen = 'reason = network'\nafter = '10m'\naction = 'retry'\nrate = '10/s'\n"
        "[[rules]]\nwhen = 'reason = validation'\naction = 'notify'\n"
    )
    first, second = automatic_rules(load(start=tmp_path, environ={}))
    assert (first.name, first.after, first.max_epochs, first.actor) == ("calm", 600_000_000, 3, "rule:calm")
    assert (second.name, second.action, second.before) == ("2", "notify", ("reason = network",))
    assert automatic_rules(Config()) == ()


def test_a_rule_to_retry_is_a_plan_like_any_other() -> None:
    """Every option has the name of its flag, or the one that it has in code."""
    [rule] = rules(
        NETWORK
        | {"after": 90, "max_epochs": 2, "rate": "10/s", "ramp": "1,5", "stop_at": "30%", "limit": 100, "parallel": 4}
        | {"max_retries": 2, "to_queue": "slow", "judge": "final", "keep_attempts": True, "when_release": ">= 2"}
    )
    assert rule.plan == Plan(
        filter="(reason in (network, rate_limited)) and age >= 90s and review is null and returns < 2",
        rate=10.0,
        stages=(1, 5),
        stop_at=0.3,
        limit=100,
        parallel=4,
        max_attempts=2,
        queue="slow",
        judge="final",
        keep_attempts=True,
        when_release=">= 2",
    )
    [rule] = rules(NETWORK | {"no_ramp": True, "no_stop": True, "reset_attempts": True})
    assert (rule.plan.stages, rule.plan.stop_at, rule.plan.keep_attempts) == ((), "never", False)


def test_the_first_rule_that_fits_has_the_letter() -> None:
    """Each letter is that of one rule at most, whatever the rules are about."""
    found = rules(
        NETWORK,
        {"when": "payload.a = 1 or attempts > 2", "action": "discard", "after": "30d"},
        {"when": "not (owner = alice)", "action": "notify"},
        {"when": "host is null or host is not null", "action": "review"},
    )
    fits = [matcher(parse(rule.mine, NOW)) for rule in found]
    firsts = [matcher(parse(rule.when, NOW)) for rule in found]
    chance = random.Random(5)
    for _ in range(300):
        letter: Subject = subject(chance)
        assert [n for n, fit in enumerate(fits) if fit(letter)] == [n for n, fit in enumerate(firsts) if fit(letter)][
            :1
        ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"action": "retry"}, "it has no `when`"),
        ({"when": 7, "action": "retry"}, "it has no `when`"),
        (
            {"when": "reasn = network", "action": "retry"},
            "when: unknown field 'reasn'; did you mean 'reason'? (column 1)",
        ),
        ({"when": "queue = a and (", "action": "retry"}, "(column 16)"),
        ({"when": "state = closed", "action": "discard"}, "when speaks of the state"),
        ({"when": "queue = a"}, "action = None is unknown"),
        ({"when": "queue = a", "action": "retri"}, "write one of retry, discard, review, notify"),
        (NETWORK | {"after": "soon"}, "after = 'soon' is no time"),
        (NETWORK | {"after": True}, "after = True is no time"),
        (NETWORK | {"max_epochs": 0}, "max_epochs = 0 is too small"),
        (NETWORK | {"max_epochs": 6}, "beyond the max_epochs = 5 of [redrive]"),
        (NETWORK | {"rat": "10/s"}, "unknown key 'rat'; did you mean rate?"),
        (NETWORK | {"rate": "fast"}, "rate='fast' is no rate"),
        (NETWORK | {"rate": [1]}, "rate = [1] is a value of the wrong kind"),
        (NETWORK | {"limit": "many"}, "limit = 'many' is no whole number"),
        (NETWORK | {"ramp": "1,few"}, "has no stages"),
        (NETWORK | {"no_ramp": False}, "write no_ramp = true, or leave it out"),
        (NETWORK | {"force": True}, "a rule has no force: what needs a person is left to one"),
        (NETWORK | {"filter": "queue = a"}, "a rule has no filter: write it as `when`"),
        (NETWORK | {"dry_run": True}, "`redrive dlq rules` shows what is due"),
        (NETWORK | {"limit": True}, "limit = True is no whole number"),
        (NETWORK | {"max_retries": "3"}, "max_retries = '3' is no whole number"),
        (NETWORK | {"keep_attempts": "no"}, "write keep_attempts = true, or leave it out"),
        (NETWORK | {"ramp": [1], "no_ramp": True}, "ramp and no_ramp exclude each other"),
        (NETWORK | {"queue": "a", "to_queue": "b"}, "queue and to_queue exclude each other"),
        (NETWORK | {"set": {"payload.n": 3}}, "is a table; write a list"),
        (NETWORK | {"patch": "none.json"}, "patch: /srv/none.json cannot be read"),
        (NETWORK | {"all": True}, "a rule has no all"),
        (NETWORK | {"when_release": ">= soon"}, "is no comparison of versions"),
        (NETWORK | {"name": "a\0b"}, "number 1 (a\0b): "),
        ({"when": "queue = a", "action": "discard", "rate": "1/s"}, "rate belongs to action = 'retry'"),
        ({"when": "queue = a", "action": "notify", "max_epochs": 2}, "max_epochs belongs to action = 'retry'"),
        ({"when": "queue = a", "action": "review", "reason": " "}, "what a person has to look at"),
    ],
)
def test_a_rule_that_is_wrong_is_refused_with_its_place(row: dict[str, Any], said: str) -> None:
    """One sentence that names the file, the rule, and the column of its filter."""
    with pytest.raises(ConfigError) as caught:
        rules(row)
    assert str(caught.value).startswith(f"{FILE}: [[rules]] number 1")
    assert said in str(caught.value)


def test_each_rule_has_its_own_name() -> None:
    """By which it is known in the history."""
    with pytest.raises(ConfigError, match=r"number 2 \(calm\): there are two rules named 'calm'"):
        rules(NETWORK | {"name": "calm"}, NETWORK | {"name": "calm"})


def test_without_the_loop_guard_a_rule_has_its_own() -> None:
    """`max_epochs = 0` in the settings is about people; a rule never goes on for ever."""
    [rule] = rules(NETWORK, max_epochs=0)
    assert rule.max_epochs == 3
    assert rules(NETWORK, max_epochs=2)[0].max_epochs == 2


def test_a_rule_says_lists_and_patches_as_a_file_can(tmp_path: Path) -> None:
    """Delays as a list, and a JSON Patch in a file beside the project file, which is read where the rules are."""
    (tmp_path / "smaller.json").write_text('[{"op": "replace", "path": "/n", "value": 3}]', encoding="utf-8")
    row = NETWORK | {"strategy": "delays", "base": [5, "30s"], "patch": "smaller.json"}
    (rule,) = automatic_rules(Config(rules=(row,), sources={"rules": str(tmp_path / "redrive.toml")}))
    assert rule.plan.patch == [{"op": "replace", "path": "/n", "value": 3}]
    assert rule.plan.limits is not None
    assert rule.plan.limits.max_attempts == 3
    (tmp_path / "smaller.json").write_text("none", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"smaller\.json holds no JSON"):
        automatic_rules(Config(rules=(row,), sources={"rules": str(tmp_path / "redrive.toml")}))

"""Rules about causes: which failures they bring together, which apart, and what they refuse."""

from typing import Any

import pytest

from redrive.errors import ConfigError
from redrive.fingerprint import fingerprint
from redrive.grouping import Grouping, grouping_from
from redrive.letter import Failure
from redrive.testing.factories import a_failure, a_job


def failed(message: str, rules: list[dict[str, Any]], task: str = "email.send", **changes: Any) -> Failure:
    """A new failure as it is recorded under these rules."""
    return _again(_plain(message, task, **changes), rules, task)


def _plain(message: str, task: str = "email.send", **changes: Any) -> Failure:
    type, frame = changes.get("type", "ValueError"), changes.get("frame", "app:send")
    name, title = fingerprint(task, type, frame, message)
    return a_failure(
        **{"type": type, "frame": frame, "message": message, "fingerprint": name, "title": title} | changes
    )


def _again(failure: Failure, rules: list[dict[str, Any]], task: str = "email.send") -> Failure:
    return grouping_from(rules).of(failure, a_job(task=task, payload=b'{"tier":"gold"}'))


def test_without_rules_a_failure_stays_as_it_is() -> None:
    """The very same."""
    failure = _plain("no quota left")
    assert Grouping().of(failure, a_job()) is failure


def test_a_rule_brings_failures_together() -> None:
    """Of any task and type, when it says so; the title is what it says, and the plain fingerprint is kept."""
    rules = [{"when": 'message ~ "quota"', "group": "quota exceeded"}]
    first, second = failed("no quota left", rules), failed("Quota of 5 is used up", rules, "mail", type="OSError")
    assert first.fingerprint == second.fingerprint
    assert (first.title, second.title) == ("quota exceeded", "quota exceeded")
    plain = _plain("no quota left")
    assert (first.plain, first.plain_title) == (plain.fingerprint, plain.title)
    other = failed("something else", rules)
    assert (other.fingerprint, other.plain) == (_plain("something else").fingerprint, "")


def test_a_group_is_made_of_parts() -> None:
    """Those that are named take part; `default` stands for the whole fingerprint."""
    by_type = [{"group": "{task}: any {type}"}]
    assert failed("a", by_type).fingerprint == failed("b b", by_type, frame="x:y").fingerprint
    assert failed("a", by_type).title == "email.send: any ValueError"
    assert failed("a", by_type).fingerprint != failed("a", by_type, type="OSError").fingerprint
    split = [{"group": "{default} on {host}"}]
    assert failed("a", split, host="h1").fingerprint != failed("a", split, host="h2").fingerprint
    assert failed("a", split, host="h1").fingerprint != failed("b", split, host="h1").fingerprint
    assert failed("a", split, host="h1").title == "ValueError: a on h1"
    whole = [{"group": "{default}"}]
    assert failed("a", whole).fingerprint == _plain("a").fingerprint


def test_words_are_replaced_before_the_message_is_looked_at() -> None:
    """Names that the built-in fingerprint takes for words; signs around them stay."""
    rules = [{"replace": ["tenant-*", "*.internal"]}]
    first, second = (
        failed("Tenant-alpha: db.internal is away", rules),
        failed("tenant-beta: mq.internal is away", rules),
    )
    assert first.fingerprint == second.fingerprint
    assert first.title == "ValueError: <any>: <any> is away"
    assert failed("alpha is away", rules).fingerprint == _plain("alpha is away").fingerprint
    assert _plain("tenant-alpha is away").fingerprint != _plain("tenant-beta is away").fingerprint


def test_replacing_goes_on_and_the_first_group_ends() -> None:
    """In the order in which the rules are written."""
    rules: list[dict[str, Any]] = [
        {"replace": ["eu-*"]},
        {"when": "task = email.send", "replace": ["us-*"], "group": "{default}!"},
        {"group": "never"},
    ]
    assert failed("eu-west or us-east", rules).title == "ValueError: <any> or <any>!"
    assert failed("eu-west or us-east", rules, "other").title == "never"


def test_a_rule_that_is_left_out_leaves_nothing_behind() -> None:
    """Whatever rules gave a failure before, the plain fingerprint is where it begins."""
    plain = _plain("no quota left")
    ruled = _again(plain, [{"group": "one"}])
    assert _again(ruled, [{"when": "task = nothing", "group": "x"}]) == plain
    assert _again(ruled, [{"group": "two"}]) == _again(plain, [{"group": "two"}])


def test_a_rule_asks_what_is_known_when_a_job_fails() -> None:
    """Task, queue, reason, payload, headers, host, release, traceback."""
    for when in ("payload.tier = gold", "queue = default and reason = network", "host = host-1", "traceback ~ recent"):
        assert failed("x", [{"when": when, "group": "this"}]).title == "this"
    assert failed("x", [{"when": "payload.tier = silver", "group": "this"}]).title != "this"


def test_a_rule_never_costs_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong, it is recorded as it was."""
    grouping, failure = grouping_from([{"group": "this"}]), _plain("x")
    monkeypatch.setattr("redrive.grouping._named", lambda *given: 1 / 0)
    assert grouping.of(failure, a_job()) is failure


def test_a_pattern_takes_no_longer_than_the_text() -> None:
    """Many stars on a long word, which a backtracking match would not live to see the end of."""
    rules = [{"replace": ["*a" * 40 + "*b"]}]
    assert failed("a" * 8_000, rules).plain == ""


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({}, "it changes nothing; give it a `group`, or words to `replace`"),
        ({"group": " "}, "it changes nothing"),
        ({"groop": "x"}, "unknown key 'groop'; use when, group, replace"),
        ({"group": 5}, "group = 5 is not a text"),
        ({"replace": "x"}, "replace = 'x' is not a list"),
        ({"replace": ["**"]}, "replace has '**'; write one word with * for what may stand there: tenant-*"),
        ({"replace": ["two words"]}, "replace has 'two words'; write one word"),
        ({"group": "{typ}"}, "group has {typ}; there are {default}, {task}, {type}"),
        ({"group": "{type"}, "group = '{type': expected '}' before end of string; write {{ and }} for braces"),
        ({"group": "x", "when": "reasn = y"}, "when = 'reasn = y': unknown field 'reasn'; did you mean 'reason'?"),
        ({"group": "x", "when": "owner = me"}, "when cannot ask for owner, which is not known when a job fails"),
        ({"group": "x", "when": "$.a[?@ > 1]"}, "when cannot ask with a JSONPath"),
        ({"group": "x", "when": 'not $.a == "b"'}, "when cannot ask with a JSONPath"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(row: dict[str, Any], sentence: str) -> None:
    """With its number and what to do."""
    with pytest.raises(ConfigError) as refused:
        grouping_from([{"group": "fine"}, row])
    assert str(refused.value).startswith(f"[[fingerprints]] number 2: {sentence}")

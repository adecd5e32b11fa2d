"""Automatic rules: what is done with letters without a person, as the tables `[[rules]]` of the project file say.

The first rule whose `when` a letter fits is its rule, also while that one still waits; all later ones leave it alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from redrive.clock import SECOND, micros, spoken
from redrive.config import Config
from redrive.errors import BadPayload, ConfigError, UsageError
from redrive.job import decode, name_of
from redrive.query.parsing import parse
from redrive.query.tree import Tree, fields_in
from redrive.redrives import Options, plan_from
from redrive.reviews import why_of
from redrive.store import Plan

Planner = Callable[[str, Options], Plan]
"""Makes a plan of a filter and of what was asked for."""

Action = Literal["retry", "discard", "review", "notify"]
ACTIONS: tuple[Action, ...] = ("retry", "discard", "review", "notify")
MAX_EPOCHS = 3
"""So often in a row a rule lets a letter come back with the same cause, unless it says otherwise."""

_OWN = ("name", "when", "after", "action", "max_epochs", "reason")
_FLAGS = {"max_retries": "max_attempts", "to_queue": "queue"}
"""Options of `dlq retry` that have another name in code."""

_NUMBERS = ("limit", "parallel", "max_attempts")
_SWITCHES: dict[str, tuple[str, Any]] = {
    "no_ramp": ("ramp", False),
    "no_stop": ("stop_at", False),
    "reset_attempts": ("keep_attempts", False),
}
_NOT_HERE = {
    "filter": "write it as `when`",
    "all": "a rule is about the letters of its `when`",
    "force": "what needs a person is left to one; `redrive dlq review --done` lets letters go",
    "actor": "a rule acts under its own name",
    "wait": "the workers drive what a rule has begun",
    "detach": "the workers drive what a rule has begun",
    "resume": "the workers drive what a rule has begun",
    "yes": "a rule asks nobody",
    "dry_run": "`redrive dlq rules` shows what is due and changes nothing",
}
"""What a rule says in another way, or may not say."""

_PERSONS: dict[Action, str] = {
    "retry": "brought back",
    "discard": "discarded",
    "review": "held for review",
    "notify": "told of in the journal",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One of them: which letters, after how long, and what is done."""

    name: str
    when: str
    action: Action = "retry"
    after: int = 0  # microseconds since the last failure
    max_epochs: int = MAX_EPOCHS
    reason: str = ""
    options: Options = field(default_factory=Options)
    before: tuple[str, ...] = ()  # what the rules before it take
    planner: Planner = plan_from

    @property
    def actor(self) -> str:
        """Who acts where this rule does."""
        return f"rule:{self.name}"

    @property
    def why(self) -> str:
        """The reason, for the journal and for the person who looks."""
        return self.reason or f"rule {self.name}"

    @property
    def too_often(self) -> str:
        """Why a person is needed for what this rule has brought back again and again."""
        return f"rule {self.name}: it came back {self.max_epochs:,} times in a row with the same cause"

    @property
    def mine(self) -> str:
        """Its letters, as a filter."""
        return " and ".join([f"({self.when})", *(f"not ({each})" for each in self.before)])

    @property
    def due(self) -> str:
        """Those of its letters that it acts on now, as a filter."""
        terms = [self.mine, f"age >= {_seconds(self.after)}"]
        if self.action != "notify":
            terms.append("review is null")
        terms.append(f"returns < {self.max_epochs}" if self.action == "retry" else "rule is null")
        return " and ".join(terms)

    @property
    def spent(self) -> str:
        """Those of its letters that came back too often, as a filter."""
        return f"{self.mine} and returns >= {self.max_epochs} and review is null"

    @property
    def plan(self) -> Plan:
        """How it brings letters back."""
        return self.planner(self.due, self.options)

    def said(self) -> str:
        """In one sentence."""
        after = f" {spoken(self.after)} after they failed" if self.after else ""
        most = f", until they came back {self.max_epochs} times" if self.action == "retry" else ""
        return f"letters of {self.when!r} are {_PERSONS[self.action]}{after}{most}"


def automatic_rules(config: Config) -> tuple[Rule, ...]:
    """The rules of a configuration in their order, or one sentence about the first that is wrong."""
    found: list[Rule] = []
    for number, row in enumerate(config.rules, 1):
        where = f"{config.sources.get('rules', 'the settings')}: [[rules]] number {number}"
        if isinstance(row.get("name"), str):
            where += f" ({row['name']})"
        try:
            rule = _rule(row, number, tuple(each.when for each in found), config)
            _check(rule, config.max_epochs, [each.name for each in found])
        except (UsageError, ConfigError, ValueError) as error:
            raise ConfigError(f"{where}: {error}") from None
        found.append(rule)
    return tuple(found)


def _rule(row: Mapping[str, Any], number: int, before: tuple[str, ...], config: Config) -> Rule:
    if not isinstance(row.get("when"), str) or not row["when"].strip():
        raise UsageError("it has no `when`; write a filter such as when = 'reason = network'")
    action = row.get("action")
    if action not in ACTIONS:
        raise UsageError(f"action = {action!r} is unknown; write one of {', '.join(ACTIONS)}")
    return Rule(
        name=name_of(str(row.get("name", number))),
        when=row["when"],
        action=action,
        after=_after(row.get("after", 0)),
        max_epochs=_times(row.get("max_epochs", min(MAX_EPOCHS, config.max_epochs or MAX_EPOCHS))),
        reason=why_of(row["reason"]) if "reason" in row else "",
        options=_options(row, action, config),
        before=before,
        planner=partial(plan_from, policies=config.retry.named),
    )


def _after(value: Any) -> int:
    try:
        return micros(value)
    except (ValueError, TypeError):
        raise UsageError(f"after = {value!r} is no time; write seconds (30) or a text such as '10m'") from None


def _times(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"max_epochs = {value!r} is too small or no whole number; 1 is the least")
    return value


def _options(row: Mapping[str, Any], action: Action, config: Config) -> Options:
    """Every option of `dlq retry`, by the name of its flag or by that in code."""
    given = {key: value for key, value in row.items() if key not in _OWN}
    if action != "retry":
        if given or "max_epochs" in row:
            name = next(iter(given), "max_epochs")
            raise UsageError(f"{name} belongs to action = 'retry', and this rule has action = {action!r}")
        return {}
    found: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in given.items():
        name = _named(key)
        if name in found:
            raise UsageError(f"{keys[name]} and {key} exclude each other; write one of them")
        keys[name], found[name] = key, _value(key, name, value, config)
    return cast("Options", found)


def _named(key: str) -> str:
    """The option of a key."""
    if key in _NOT_HERE:
        raise UsageError(f"a rule has no {key}: {_NOT_HERE[key]}")
    if key in _SWITCHES:
        return _SWITCHES[key][0]
    name = _FLAGS.get(key, key)
    if name not in Options.__annotations__:
        known = [*_OWN, *_FLAGS, *_SWITCHES, *(each for each in Options.__annotations__ if each not in _NOT_HERE)]
        near = get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(dict.fromkeys(known))}"
        raise UsageError(f"unknown key {key!r}; {hint}")
    return name


def _value(key: str, name: str, value: Any, config: Config) -> Any:
    """As it is in code; a file can hold anything where a number belongs."""
    if key in _SWITCHES or key == "keep_attempts":
        if value is not True:
            raise UsageError(f"{key} = {value!r}: write {key} = true, or leave it out")
        return _SWITCHES[key][1] if key in _SWITCHES else True
    if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{key} = {value!r} is no whole number; write one such as {key} = 5")
    match name, value:
        case "ramp", str():
            return [int(piece) if piece.strip().isdecimal() else 0 for piece in value.split(",")]
        case "base", list():
            return ",".join(str(each) for each in value)
        case "set", dict():
            raise UsageError(f"{key} = {value!r} is a table; write a list such as set = ['payload.limit=5']")
        case "patch", str():
            return _patch(Path(config.sources.get("rules", "")).parent / value)
    return value


def _patch(file: Path) -> Any:
    """From a file that is named as seen from the project file."""
    try:
        return decode(file.read_bytes())
    except OSError as error:
        raise UsageError(f"patch: {file} cannot be read: {error.strerror}; name another file") from None
    except BadPayload:
        raise UsageError(f"patch: {file} holds no JSON; write a JSON Patch into it") from None


def _check(rule: Rule, most: int, names: Sequence[str]) -> None:
    """What can only be seen of the whole rule."""
    if rule.name in names:
        raise UsageError(f"there are two rules named {rule.name!r}; give each its own `name`")
    if "state" in fields_in(_parsed(rule.when)):
        raise UsageError("when speaks of the state, but rules are about open letters; leave it out")
    if most and rule.action == "retry" and rule.max_epochs > most:
        raise UsageError(
            f"max_epochs = {rule.max_epochs} is beyond the max_epochs = {most} of [redrive], after which every letter "
            f"needs a person; raise that one, or lower this"
        )
    for text in (rule.due, rule.spent):
        _parsed(text)
    if rule.action == "retry":
        _check_kinds(rule)
        _ = rule.plan


def _check_kinds(rule: Rule) -> None:
    """A file can hold a list where a number belongs; which of the options it was is found one by one."""
    for key, value in rule.options.items():
        try:
            rule.planner(rule.due, cast("Options", {key: value}))
        except (TypeError, AttributeError):
            raise UsageError(
                f"{key} = {value!r} is a value of the wrong kind; see the options of `dlq retry`"
            ) from None
        except UsageError:
            continue  # it may belong to another one; all of them together say so


def _parsed(text: str) -> Tree:
    try:
        return parse(text, 0)
    except UsageError as error:
        raise UsageError(f"when: {error}") from None


def _seconds(length: int) -> str:
    return f"{length / SECOND:f}".rstrip("0").rstrip(".") + "s"

"""A project's own rules about which failures have one cause; without any, the fingerprint says so.

Nothing here takes longer than the text is long: texts are looked for, and patterns know no other sign than `*`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from string import Formatter
from typing import Any

import msgspec

from redrive.errors import ConfigError, UsageError
from redrive.fingerprint import TITLE_LIMIT, fingerprint, normalised
from redrive.job import Job
from redrive.letter import Failure, Letter
from redrive.query.matching import Predicate, Subject, matcher
from redrive.query.parsing import parse
from redrive.query.tree import (
    EVERYTHING,
    AmongJson,
    Both,
    CompareJson,
    Either,
    MissingJson,
    Not,
    Path,
    Selects,
    Tree,
    fields_in,
)

ANY = "<any>"
"""What stands for a word that a rule replaces."""

_PLAIN = "default"
_PARTS: dict[str, Callable[[Failure, Subject], str]] = {
    _PLAIN: lambda failure, subject: "",
    "task": lambda failure, subject: subject.task,
    "type": lambda failure, subject: failure.type,
    "reason": lambda failure, subject: failure.reason,
    "frame": lambda failure, subject: failure.frame,
    "message": lambda failure, subject: normalised(failure.message),
    "queue": lambda failure, subject: subject.queue,
    "host": lambda failure, subject: failure.host,
    "release": lambda failure, subject: failure.release or "",
}
_LATER = frozenset({"state", "group", "note", "owner", "attempts", "failed_at", "first_failed_at"})
"""Fields that a letter has only later, or that change."""

_ROW = {"when": str, "group": str, "replace": list}
_WORDS = re.compile(r"(\s+)")
_AROUND = "()[]{}<>\"'`.,;:!?"


@dataclass(frozen=True, slots=True)
class _Rule:
    fits: Predicate
    replace: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """The rules in their order: each that fits replaces words, the first that fits and names a group is the last."""

    rules: tuple[_Rule, ...] = ()

    def of(self, failure: Failure, job: Job) -> Failure:
        """A new failure in the group that the rules give it. Never raises: at worst it stays where it is."""
        if not self.rules:
            return failure
        try:
            return self.applied(failure, _subject(failure, job))
        except Exception:  # noqa: BLE001  the failure path cannot fail
            return failure

    def again(self, letter: Letter) -> Failure:
        """The last failure of a letter in the group that the rules give it now."""
        return self.applied(letter.failures[-1], Subject.of(letter))

    def applied(self, failure: Failure, subject: Subject) -> Failure:
        """The failure in the group that the rules give it, whatever group rules gave it before."""
        plain = name = failure.plain or failure.fingerprint
        plain_title = title = failure.plain_title if failure.plain else failure.title
        message = failure.message
        for rule in self.rules:
            if not rule.fits(subject):
                continue
            if rule.replace and (general := _replaced(message, rule.replace)) != message:
                message = general
                name, title = fingerprint(subject.task, failure.type, failure.frame, message)
            if rule.group is not None:
                name, title = _named(rule.group, failure, subject, name, title)
                break
        if name == plain:
            return msgspec.structs.replace(failure, fingerprint=name, title=plain_title, plain="", plain_title="")
        return msgspec.structs.replace(failure, fingerprint=name, title=title, plain=plain, plain_title=plain_title)


def grouping_from(rows: Iterable[Mapping[str, Any]], where: str = "[[fingerprints]]") -> Grouping:
    """The rules of a project file, or one sentence about the first that is wrong."""
    return Grouping(tuple(_rule_from(row, f"{where} number {number}") for number, row in enumerate(rows, 1)))


def _rule_from(row: Mapping[str, Any], where: str) -> _Rule:
    for key, value in row.items():
        if key not in _ROW:
            raise ConfigError(f"{where}: unknown key {key!r}; use {', '.join(_ROW)}")
        if type(value) is not _ROW[key]:
            raise ConfigError(f"{where}: {key} = {value!r} is not {'a list' if key == 'replace' else 'a text'}")
    if not row.get("group", "").strip() and not row.get("replace"):
        raise ConfigError(f"{where}: it changes nothing; give it a `group`, or words to `replace`")
    group = row["group"].strip() if "group" in row else None
    return _Rule(
        fits=matcher(_when(row.get("when", ""), where)),
        replace=tuple(_pattern(each, where) for each in row.get("replace", ())),
        group=None if group is None else _template(group, where),
    )


def _when(text: str, where: str) -> Tree:
    if not text.strip():
        return EVERYTHING
    try:
        tree = parse(text, 0)
    except UsageError as error:
        raise ConfigError(f"{where}: when = {text!r}: {error}") from None
    if unknown := sorted(fields_in(tree) & _LATER):
        raise ConfigError(f"{where}: when cannot ask for {unknown[0]}, which is not known when a job fails")
    if _has_path(tree):
        raise ConfigError(f"{where}: when cannot ask with a JSONPath, which may take long; write payload.name = value")
    return tree


def _has_path(tree: Tree) -> bool:
    match tree:
        case Both(terms) | Either(terms):
            return any(map(_has_path, terms))
        case Not(term):
            return _has_path(term)
        case CompareJson(where=Path()) | AmongJson(where=Path()) | MissingJson(where=Path()) | Selects():
            return True
    return False


def _pattern(pattern: object, where: str) -> str:
    if not isinstance(pattern, str) or not pattern.strip("*") or _WORDS.search(pattern):
        raise ConfigError(f"{where}: replace has {pattern!r}; write one word with * for what may stand there: tenant-*")
    return pattern.lower()


def _template(group: str, where: str) -> str:
    try:
        pieces = list(Formatter().parse(group))
    except ValueError as error:
        raise ConfigError(f"{where}: group = {group!r}: {error}; write {{{{ and }}}} for braces") from None
    for _, name, form, conversion in pieces:
        if name is not None and (name not in _PARTS or form or conversion):
            known = ", ".join(f"{{{part}}}" for part in _PARTS)
            raise ConfigError(f"{where}: group has {{{name}}}; there are {known}")
    return group


def _named(group: str, failure: Failure, subject: Subject, name: str, title: str) -> tuple[str, str]:
    """The name and the title that a rule gives."""
    parts = {part: read(failure, subject) for part, read in _PARTS.items() if f"{{{part}}}" in group}
    identity = group.format_map(parts | {_PLAIN: name})
    if group == f"{{{_PLAIN}}}":
        return name, title
    spoken = group.format_map(parts | {_PLAIN: title})
    if len(spoken) > TITLE_LIMIT:
        spoken = f"{spoken[: TITLE_LIMIT - 1]}…"
    return blake2b(f"\0rule\0{identity}".encode("utf-8", "replace"), digest_size=8).hexdigest(), spoken


def _replaced(message: str, patterns: Sequence[str]) -> str:
    return "".join(_general(word, patterns) for word in _WORDS.split(message))


def _general(word: str, patterns: Sequence[str]) -> str:
    """The word, or what stands for it; signs around it stay."""
    bare = word.strip(_AROUND)
    lowered = bare.lower()
    return word.replace(bare, ANY, 1) if bare and any(_fits(lowered, each) for each in patterns) else word


def _fits(word: str, pattern: str) -> bool:
    """Whether a word is like a pattern; each piece is looked for once, from left to right."""
    first, *rest = pattern.split("*")
    if not rest:
        return word == first
    *middle, last = rest
    if len(word) < len(first) + len(last) or not word.startswith(first) or not word.endswith(last):
        return False
    at, end = len(first), len(word) - len(last)
    for piece in middle:
        found = word.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _subject(failure: Failure, job: Job) -> Subject:
    """A failure as the letter will show it that its job may leave."""
    return Subject(
        id=job.id,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        state="open",
        reason=failure.reason,
        error=failure.type,
        message=failure.message,
        group=failure.fingerprint,
        attempts=failure.attempt,
        epochs=failure.epoch,
        failed_at=failure.at,
        first_failed_at=failure.at,
        host=failure.host,
        worker=failure.worker,
        release=failure.release,
        workflow=job.batch,
        traceback=failure.traceback,
        payload=job.payload,
        headers=job.headers,
    )

"""The meaning of a filter: a predicate in Python, which every engine's own answer must agree with."""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Self

import msgspec

from redrive.letter import Letter
from redrive.query.tree import (
    Among,
    AmongJson,
    Both,
    Compare,
    CompareJson,
    Either,
    Missing,
    MissingJson,
    Not,
    Order,
    Path,
    Place,
    Said,
    Scalar,
    Selects,
    Step,
    Tree,
)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A letter as filters see it."""

    id: str
    task: str
    queue: str
    priority: int
    state: str
    reason: str
    error: str
    message: str
    group: str
    attempts: int
    epochs: int
    failed_at: int
    first_failed_at: int
    host: str = ""
    worker: str = ""
    release: str | None = None
    workflow: str | None = None
    owner: str | None = None
    review: str | None = None
    returns: int = 0
    rule: str | None = None
    note: str | None = None
    traceback: str | None = None
    payload: bytes | None = None
    headers: bytes | None = None

    @classmethod
    def of(cls, letter: Letter) -> Self:
        """A letter that is whole."""
        return cls(
            id=letter.id,
            task=letter.task,
            queue=letter.queue,
            priority=letter.priority,
            state=letter.state,
            reason=letter.reason,
            error=letter.type,
            message=letter.message,
            group=letter.group,
            attempts=letter.attempts,
            epochs=letter.epochs,
            failed_at=letter.failed_at,
            first_failed_at=letter.first_failed_at,
            host=letter.host,
            worker=letter.worker,
            release=letter.release,
            workflow=letter.workflow,
            owner=letter.owner,
            review=letter.review,
            returns=letter.returns,
            rule=letter.rule,
            note="\n".join(note.text for note in letter.notes) if letter.notes else None,
            traceback=letter.failures[-1].traceback if letter.failures else None,
            payload=letter.payload,
            headers=letter.headers,
        )


Predicate = Callable[[Subject], bool]

ORDERS: dict[Order, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_CONSTANTS: dict[str, list[Any]] = {"true": [True], "false": [False], "null": [None]}


def matcher(tree: Tree) -> Predicate:
    """Whether a letter is meant, as a function of it."""
    match tree:
        case Both(terms):
            return _all(list(map(matcher, terms)))
        case Either(terms):
            return _any(list(map(matcher, terms)))
        case Not(term):
            inner = matcher(term)
            return lambda subject: not inner(subject)
        case Compare(field, order, value):
            return _compare(field, order, value)
        case Among(field, values):
            return _any([_compare(field, "=", value) for value in values])
        case Missing(field):
            return lambda subject: getattr(subject, field) in (None, "")
        case Said(text):
            folded = text.casefold()
            return lambda subject: any(folded in part.casefold() for part in said(subject))
        case _:
            return _of_json(tree)


def said(subject: Subject) -> tuple[str, ...]:
    """Where a lone word is searched for."""
    return subject.message, subject.error, subject.task


def _all(terms: list[Predicate]) -> Predicate:
    return lambda subject: all(term(subject) for term in terms)


def _any(terms: list[Predicate]) -> Predicate:
    return lambda subject: any(term(subject) for term in terms)


def _compare(field: str, order: Order, value: str | int) -> Predicate:
    if order == "~":
        folded = str(value).casefold()
        return lambda subject: folded in (getattr(subject, field) or "").casefold()
    if field in ("id", "group", "error"):
        return _named(field, str(value))
    compare = ORDERS[order]

    def compared(subject: Subject) -> bool:
        found = getattr(subject, field)
        return found is not None and compare(found, value)

    return compared


def _named(field: str, value: str) -> Predicate:
    """Names of which a part is enough: the end of an id or of a dotted type, the beginning of a group's name."""
    if field == "id":
        return lambda subject: subject.id.replace("-", "").endswith(value)
    if field == "group":
        return lambda subject: subject.group.startswith(value)
    return lambda subject: subject.error == value or subject.error.endswith(f".{value}")


# what is in payloads and headers --------------------------------------------------------------------------------------


def _of_json(tree: CompareJson | AmongJson | MissingJson | Selects) -> Predicate:
    match tree:
        case Selects(path):
            find = _finder(path)
            return lambda subject: any(True for _ in find(subject))
        case MissingJson(where):
            find = _finder(where)
            return lambda subject: all(found is None for found in find(subject))
        case CompareJson(where, order, value):
            find, fits = _finder(where), _fitting(order, value)
            return lambda subject: any(map(fits, find(subject)))
        case AmongJson(where, values):
            find, fitting = _finder(where), [_fitting("=", value) for value in values]
            return lambda subject: any(fits(found) for found in find(subject) for fits in fitting)


def _finder(where: Place | Path) -> Callable[[Subject], Iterable[Any]]:
    """The values that are selected in a letter, none if there is nothing there."""
    if isinstance(where, Place):
        of, steps = where.of, where.steps
        return lambda subject: _at(decoded(getattr(subject, of)), steps)
    from redrive.query.paths import selected  # lazy: as in parsing.py

    text = where.text

    def follow(subject: Subject) -> Iterable[Any]:
        root = decoded(subject.payload)
        return selected(text, root[0]) if root else []

    return follow


def decoded(raw: bytes | None) -> list[Any]:
    """The one value in these bytes, or none where they hold no JSON."""
    if raw is None:
        return []
    try:
        return [msgspec.json.decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _at(found: list[Any], steps: Iterable[Step]) -> list[Any]:
    for step in steps:
        found = [inner for value in found for inner in _step(value, step)]
    return found


def _step(value: Any, step: Step) -> list[Any]:
    """What one step leads to: a name in an object, a place in a list, counted from its end if negative."""
    if isinstance(value, dict):
        return [value[str(step)]] if str(step) in value else []
    if not isinstance(value, list):
        return []
    try:
        index = int(step)
        return [value[index]] if -len(value) <= index < len(value) else []
    except ValueError:
        return []


def _fitting(order: Order, value: Scalar) -> Callable[[Any], bool]:
    """How a value of JSON compares with what was typed."""
    if order == "~":
        folded = value.text.casefold()
        return lambda found: found is not None and folded in _shown(found).casefold()
    number = None if value.quoted else _number(value.text)
    if order == "=":
        alike = [value.text] if value.quoted else [value.text, *_meant(value.text, number)]
        return lambda found: any(_same(found, one) for one in alike)
    compare = ORDERS[order]
    if number is not None:
        return lambda found: _is_number(found) and compare(found, number)
    return lambda found: isinstance(found, str) and compare(found, value.text)


def _meant(text: str, number: int | float | None) -> list[Any]:
    """What else a bare word may be: a number, true, false or null."""
    if number is not None:
        return [number]
    return _CONSTANTS.get(text.lower(), [])


def _same(found: Any, meant: Any) -> bool:
    """Equal, and of one kind: true is not 1, and a number no text."""
    if _is_number(meant):
        return _is_number(found) and bool(found == meant)
    return type(found) is type(meant) and bool(found == meant)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> int | float | None:
    """A number as JSON writes it."""
    try:
        value = msgspec.json.decode(text.removeprefix("+").encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if _is_number(value) else None


def _shown(found: Any) -> str:
    """A value as text: as it is, or as compact JSON."""
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()

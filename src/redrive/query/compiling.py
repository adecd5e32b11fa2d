"""A filter as a condition of SQL, with parameters and never with what somebody typed in its text.

What an engine cannot answer exactly is left out where that only lets more letters through: such a condition is not
`exact`, and the predicate in Python has the last word on each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from redrive.query.fields import FIELDS
from redrive.query.tree import Among, Both, Compare, Either, Missing, Not, Said, Tree

NEVER_MISSING = ("id", "priority", "number", "time")
SEARCHED = ("message", "error", "task")
BESIDE = 50
"""So many tests stand side by side at the most."""
PARTS = ("id", "group", "error")
"""Names of which a part is enough."""

_OPPOSITE = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Dialect(Protocol):
    """What differs from engine to engine."""

    def column(self, field: str) -> str | None:
        """Where the field stands; None when this engine has no column for it."""
        ...

    def contains(self, column: str) -> str:
        """Whether a text contains the next parameter, which is in small letters."""
        ...

    def id_ends(self, digits: str) -> tuple[str, Any]:
        """Whether the id ends with these hex digits, and the parameter of that."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that every letter meant fulfils; nothing for all of them."""

    sql: str = ""
    values: tuple[Any, ...] = ()
    exact: bool = True


_ALL = Condition()
_SOME = Condition(exact=False)
_NONE = Condition("1 = 0")


def compiled(tree: Tree, dialect: Dialect) -> Condition:
    """The condition of a filter on one engine."""
    return _Compiler(dialect).condition(tree, negated=False)


class _Compiler:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def condition(self, tree: Tree, *, negated: bool) -> Condition:
        """A `not` is carried down to the terms, where NULL is what has to be thought of."""
        match tree:
            case Not(term):
                return self.condition(term, negated=not negated)
            case Both(terms) | Either(terms):
                parts = [self.condition(term, negated=negated) for term in terms]
                return _both(parts) if isinstance(tree, Both) != negated else _either(parts)
            case Compare(field, "~", value):
                return self._contains((field,), str(value), negated)
            case Said(text):
                return self._contains(SEARCHED, text, negated)
            case Compare(field, order, value):
                return self._compare(field, order, value, negated)
            case Among(field, values):
                return self._among(field, values, negated)
            case Missing(field):
                return self._missing(field, negated)
            case _:
                return _SOME

    def _contains(self, fields: Sequence[str], text: str, negated: bool) -> Condition:
        columns = [self._dialect.column(field) for field in fields]
        if None in columns:
            return _SOME
        tests = [self._dialect.contains(f"coalesce({column}, '')") for column in columns]
        sql = f"({' OR '.join(tests)})"
        return Condition(f"NOT {sql}" if negated else sql, (text.casefold(),) * len(tests))

    def _compare(self, field: str, order: str, value: str | int, negated: bool) -> Condition:
        if field in PARTS:
            return self._named(field, str(value), negated)
        column = self._dialect.column(field)
        if column is None:
            return _SOME
        test = f"{column} {_OPPOSITE[order] if negated else order} ?"
        absent = negated and FIELDS[field].nullable
        return Condition(f"({column} IS NULL OR {test})" if absent else test, (value,))

    def _named(self, field: str, value: str, negated: bool) -> Condition:
        sql, values = self._name(field, value)
        return Condition(f"NOT {sql}" if negated else sql, values) if sql else _SOME

    def _name(self, field: str, value: str) -> tuple[str, tuple[Any, ...]]:
        if field == "id":
            test, parameter = self._dialect.id_ends(value)
            return f"({test})", (parameter,)
        column = self._dialect.column(field)
        if column is None:
            return "", ()
        if field == "group":  # all that begins with these digits lies between them and what follows `f`
            return f"({column} >= ? AND {column} < ?)", (value, f"{value}g")
        ending = f"substr({column}, length({column}) - {len(value)})"
        return f"({column} = ? OR {ending} = ?)", (value, f".{value}")

    def _among(self, field: str, values: Sequence[str | int], negated: bool) -> Condition:
        column = self._dialect.column(field)
        if field in PARTS or column is None:
            parts = [self._compare(field, "=", value, negated) for value in values]
            return _both(parts) if negated else _either(parts)
        test = f"{column} {'NOT IN' if negated else 'IN'} ({', '.join('?' * len(values))})"
        absent = negated and FIELDS[field].nullable
        return Condition(f"({column} IS NULL OR {test})" if absent else test, tuple(values))

    def _missing(self, field: str, negated: bool) -> Condition:
        column = self._dialect.column(field)
        if column is None:
            return _SOME
        if FIELDS[field].kind in NEVER_MISSING:
            return _ALL if negated else _NONE
        return Condition(f"coalesce({column}, '') {'<>' if negated else '='} ''")


def _both(parts: Sequence[Condition]) -> Condition:
    sql = _joined([part.sql for part in parts if part.sql], " AND ")
    return Condition(sql, _values(parts), all(part.exact for part in parts))


def _either(parts: Sequence[Condition]) -> Condition:
    """One part that lets everything through makes the others worthless."""
    if not parts:
        return _NONE
    if any(not part.sql for part in parts):
        return _ALL if any(part == _ALL for part in parts) else _SOME
    return Condition(_joined([part.sql for part in parts], " OR "), _values(parts), all(part.exact for part in parts))


def _joined(tests: Sequence[str], word: str) -> str:
    """In brackets and by halves: SQLite takes a thousand tests side by side for a thousand levels, and refuses them."""
    if len(tests) < 2:
        return "".join(tests)
    if len(tests) <= BESIDE:
        return f"({word.join(tests)})"
    half = len(tests) // 2
    return f"({_joined(tests[:half], word)}{word}{_joined(tests[half:], word)})"


def _values(parts: Sequence[Condition]) -> tuple[Any, ...]:
    return tuple(value for part in parts if part.sql for value in part.values)

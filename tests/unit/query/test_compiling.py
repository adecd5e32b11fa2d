"""SQL lets through every letter that is meant, and only those where it says that it is exact."""

import random
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from redrive.query.compiling import Condition, compiled
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.query.tree import Tree
from redrive.query.words import BadFilter
from redrive.testing.filters import valid
from tests.unit.query.subjects import NOW, subject

COLUMNS = [name for name in Subject.__struct_fields__ if name not in ("payload", "headers")]


class Plain:
    """A dialect for a table that has a column for each field."""

    def column(self, field: str) -> str | None:
        return f't."{field}"' if field in COLUMNS else None

    def contains(self, column: str) -> str:
        return f"has({column}, ?)"

    def id_ends(self, digits: str) -> tuple[str, Any]:
        return f"substr(t.id, -{len(digits)}) = ?", digits


def has(*arguments: Any) -> bool:
    text, part = arguments
    return part in text.casefold()


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    chance = random.Random(3)
    return [subject(chance) for _ in range(300)]


@pytest.fixture(scope="module")
def db(subjects: list[Subject]) -> Iterator[apsw.Connection]:
    db = apsw.Connection(":memory:")
    db.create_scalar_function("has", has, 2, deterministic=True)
    named = ", ".join(map('"{}"'.format, COLUMNS))
    db.execute(f"CREATE TABLE t (place INTEGER PRIMARY KEY, {named})")
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    rows = ((place, *(getattr(one, name) for name in COLUMNS)) for place, one in enumerate(subjects))
    db.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    yield db
    db.close()


def let_through(db: apsw.Connection, condition: Condition) -> set[int]:
    where = f"WHERE {condition.sql}" if condition.sql else ""
    return {row[0] for row in db.execute(f"SELECT place FROM t {where}", condition.values)}


def trees(n: int) -> Iterator[tuple[str, Tree]]:
    chance = random.Random(11)
    while n:
        text = valid(chance)
        try:
            tree = parse(text, NOW)
        except BadFilter:
            continue
        n -= 1
        yield text, tree


def test_sql_and_the_predicate_agree(db: apsw.Connection, subjects: list[Subject]) -> None:
    """On 2,000 filters and 300 letters; an inexact condition lets more through, never less."""
    exact = 0
    for text, tree in trees(2_000):
        condition, fits = compiled(tree, Plain()), matcher(tree)
        found = let_through(db, condition)
        meant = {place for place, one in enumerate(subjects) if fits(one)}
        assert found >= meant, text
        assert found == meant or not condition.exact, text
        exact += condition.exact
    assert exact > 500


@pytest.mark.parametrize(
    ("text", "sql", "exact"),
    [
        ("", "", True),
        ("queue = a", 't."queue" = ?', True),
        ("release != a", '(t."release" IS NULL OR t."release" <> ?)', True),
        ("queue = a and payload.x = 1", 't."queue" = ?', False),
        ("queue = a or payload.x = 1", "", False),
        ("not (queue = a or payload.x = 1)", 't."queue" <> ?', False),
        ("not (queue = a and attempts > 1)", '(t."queue" <> ? OR t."attempts" <= ?)', True),
        ("queue is null or attempts is not null", "", True),
        ("attempts is null", "1 = 0", True),
        ("payload.x = 1 or attempts is not null", "", True),
    ],
)
def test_what_sql_cannot_answer_is_left_to_the_predicate(text: str, sql: str, exact: bool) -> None:
    """Where leaving it out lets more through; a `not` is carried down to the terms."""
    condition = compiled(parse(text, NOW), Plain())
    assert (condition.sql, condition.exact) == (sql, exact)


def test_nothing_that_was_typed_stands_in_the_sql() -> None:
    """Values are parameters, whatever is in them."""
    condition = compiled(parse("queue = \"x'; DROP TABLE letter; --\" and message ~ '%'", NOW), Plain())
    assert "DROP" not in condition.sql
    assert "%" not in condition.sql
    assert condition.values == ("x'; DROP TABLE letter; --", "%")

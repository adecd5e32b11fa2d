"""Letters found by a filter: what SQL can answer it answers, the rest is judged row by row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from redrive.letter import Group, GroupState, Letter, LetterState
from redrive.query.compiling import Condition, compiled
from redrive.query.matching import Subject, matcher
from redrive.query.tree import Tree, fields_in
from redrive.store import Mark, Page, Total, Totals
from redrive.stores.sqlite.statements import statements
from redrive.stores.sqlite.transaction import Snapshot
from redrive.stores.sqlite.values import Row, failure_of, ids_of, packed, spelled

CONTAINS = "redrive_contains"
LAST: Mark = (2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff")
JUDGED = 1_000
"""So many letters are judged for one page at the most."""

_COLUMNS = {
    **{name: f"l.{name}" for name in ("task", "queue", "reason", "message", "priority", "attempts", "epochs", "state")},
    **{name: f"l.{name}" for name in ("host", "release", "worker", "failed_at", "first_failed_at")},
    "error": "l.type",
    "group": "l.fingerprint",
}


class _Sqlite:
    """How this engine spells a filter."""

    def column(self, field: str) -> str | None:
        return _COLUMNS.get(field)

    def contains(self, column: str) -> str:
        return f"{CONTAINS}({column}, ?)"

    def id_ends(self, digits: str) -> tuple[str, Any]:
        if len(digits) == 32:
            return "l.id = ?", bytes.fromhex(digits)
        return f"substr(hex(l.id), -{len(digits)}) = ?", digits.upper()


def contains(*arguments: Any) -> bool:
    """The function behind `~` and lone words, in any case of any language."""
    text, part = arguments
    return part in text.casefold()


def with_functions(db: apsw.Connection) -> apsw.Connection:
    """A connection that can answer filters."""
    db.create_scalar_function(CONTAINS, contains, 2, deterministic=True)
    return db


def find(snapshot: Snapshot, query: Tree, after: Mark | None, limit: int) -> Page:
    """A page of the letters that a filter means, the last failure first."""
    condition, mark = compiled(query, _Sqlite()), after or LAST
    if condition.exact:
        rows = _page(snapshot, "find_letters", condition, mark, limit)
        return Page([_light(row) for row in rows], _mark(rows[-1]) if len(rows) == limit else None)
    fits = matcher(query)
    rows = _to_judge(snapshot, query, condition, mark)
    found = [row for row in rows if fits(_subject(row))][:limit]
    if len(found) == limit:
        return Page([_light(row) for row in found], _mark(found[-1]))
    return Page([_light(row) for row in found], _mark(rows[-1]) if len(rows) == JUDGED else None)


def count(snapshot: Snapshot, query: Tree) -> int:
    """How many letters a filter means."""
    condition = compiled(query, _Sqlite())
    if condition.exact:
        return int(_asked(snapshot, "count_letters", condition, ())[0][0])
    return sum(1 for _ in _judged(snapshot, query, condition))


def totals(snapshot: Snapshot) -> Totals:
    """How many open letters there are of each kind, without looking at them."""
    kinds = [
        Total(queue=row[0], task=row[1], priority=row[2], reason=row[3], n=row[4])
        for row in snapshot.all("letter_totals")
    ]
    [(oldest, newest)] = snapshot.all("letter_span")
    return Totals(kinds=kinds, oldest=oldest, newest=newest)


def groups(snapshot: Snapshot, query: Tree | None, limit: int) -> list[Group]:
    """Groups, most letters first; with a filter, of the letters it means, counted among them."""
    if query is None:
        return [_group(row) for row in snapshot.all("groups", limit)]
    counts = _counts(snapshot, query)
    most = sorted(counts, key=lambda fingerprint: (-counts[fingerprint], fingerprint))[:limit]
    named = {row[0]: row for row in snapshot.all("groups_named", apsw.carray(tuple(most)))} if most else {}
    return [_group(named[each], counts[each]) for each in most if each in named]


def _counts(snapshot: Snapshot, query: Tree) -> Counter[str]:
    condition = compiled(query, _Sqlite())
    if condition.exact:
        return Counter(dict(_asked(snapshot, "count_by_group", condition, ())))
    return Counter(row[8] for row in _judged(snapshot, query, condition))


def _judged(snapshot: Snapshot, query: Tree, condition: Condition) -> Iterator[Row]:
    """Every letter that is meant, a page at a time."""
    fits, mark = matcher(query), LAST
    while rows := _to_judge(snapshot, query, condition, mark):
        yield from (row for row in rows if fits(_subject(row)))
        mark = _mark(rows[-1])


def _to_judge(snapshot: Snapshot, query: Tree, condition: Condition, after: Mark) -> list[Row]:
    before = ("traceback" in fields_in(query), after[0], packed(after[1]))
    return _asked(snapshot, "judge_letters", condition, before, JUDGED)


def _page(snapshot: Snapshot, name: str, condition: Condition, after: Mark, limit: int) -> list[Row]:
    return _asked(snapshot, name, condition, (after[0], packed(after[1])), limit)


def _asked(snapshot: Snapshot, name: str, condition: Condition, before: Sequence[Any], *behind: Any) -> list[Row]:
    """A statement with the condition in its place; its values stand where they are met."""
    sql = statements()[name].replace("/* condition */ 1", condition.sql or "1")
    return snapshot.db.execute(sql, (*before, *condition.values, *behind)).fetchall()


def whole(snapshot: Snapshot, ids: Sequence[str]) -> list[Letter]:
    """These letters with payload and failures, in order; those that are gone are left out."""
    found = {spelled(row[0]): row for row in snapshot.all("letters", ids_of(ids))}
    return [_whole(snapshot, found[id]) for id in ids if id in found]


def _whole(snapshot: Snapshot, row: Row) -> Letter:
    failures = tuple(failure_of(each) for each in snapshot.all("failures_of", row[0]))
    return _letter(row, workflow=row[17], payload=row[18], headers=row[19], failures=failures)


def _light(row: Row) -> Letter:
    return _letter(row)


def _letter(row: Row, **more: Any) -> Letter:
    return Letter(
        id=spelled(row[0]),
        task=row[1],
        queue=row[2],
        priority=row[3],
        state=LetterState(row[4]),
        reason=row[5],
        type=row[6],
        message=row[7],
        group=row[8],
        attempts=row[9],
        epochs=row[10],
        first_failed_at=row[11],
        failed_at=row[12],
        host=row[13],
        worker=row[14],
        release=row[15],
        version=row[16],
        **more,
    )


def _subject(row: Row) -> Subject:
    return Subject(
        id=spelled(row[0]),
        task=row[1],
        queue=row[2],
        priority=row[3],
        state=row[4],
        reason=row[5],
        error=row[6],
        message=row[7],
        group=row[8],
        attempts=row[9],
        epochs=row[10],
        first_failed_at=row[11],
        failed_at=row[12],
        host=row[13],
        worker=row[14],
        release=row[15],
        workflow=row[17],
        payload=row[18],
        headers=row[19],
        traceback=row[20],
    )


def _mark(row: Row) -> Mark:
    return row[12], spelled(row[0])


def _group(row: Row, count: int | None = None) -> Group:
    return Group(
        fingerprint=row[0],
        title=row[1],
        task=row[2],
        reason=row[3],
        type=row[4],
        count=row[5] if count is None else count,
        first_seen=row[6],
        last_seen=row[7],
        sample=spelled(row[8]),
        state=GroupState(row[9]),
    )

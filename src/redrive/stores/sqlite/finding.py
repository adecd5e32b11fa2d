"""Letters found by a filter: what SQL can answer it answers, the rest is judged row by row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import apsw
import msgspec

from redrive.letter import Group, GroupState, Letter, LetterState, Note, Replaced
from redrive.query.compiling import Condition, compiled
from redrive.query.matching import Subject, matcher
from redrive.query.tree import OPEN, Tree, demands, fields_in
from redrive.store import Mark, Outline, Page, Total, Totals
from redrive.stores.sqlite.statements import statements
from redrive.stores.sqlite.transaction import Snapshot
from redrive.stores.sqlite.values import Row, failure_of, ids_of, packed, spelled, texts_of

CONTAINS = "redrive_contains"
LAST: Mark = (2**63 - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff")
FIRST: Mark = (-1, "00000000-0000-0000-0000-000000000000")
JUDGED = 1_000
"""So many letters are judged for one page at the most."""

_COLUMNS = {
    **{name: f"l.{name}" for name in ("task", "queue", "reason", "message", "priority", "attempts", "epochs", "state")},
    **{name: f"l.{name}" for name in ("host", "release", "worker", "failed_at", "first_failed_at")},
    **{name: f"l.{name}" for name in ("review", "returns", "rule")},
    "error": "l.type",
    "group": "l.fingerprint",
    "owner": "coalesce(l.owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = l.fingerprint))",
    "note": "(SELECT group_concat(n.text, char(10) ORDER BY n.seq) FROM note AS n"
    " WHERE n.about IN (l.id, l.fingerprint))",
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


def condition_of(query: Tree) -> Condition:
    """The filter in SQL; that it means open letters is said in so many words, for the indexes that have no others."""
    found = compiled(query, _Sqlite())
    return replace(found, sql=f"l.state = 'open' AND {found.sql}") if demands(query, OPEN) else found


def find(snapshot: Snapshot, query: Tree, after: Mark | None, limit: int, *, oldest: bool = False) -> Page:
    """A page of the letters that a filter means, the last failure first, or the first one."""
    condition, mark = condition_of(query), after or (FIRST if oldest else LAST)
    if condition.exact:
        before = (mark[0], packed(mark[1]))
        rows = list(_asked(snapshot, "find_letters", condition, before, limit, oldest=oldest))
        return Page([_light(row) for row in rows], _mark(rows[-1]) if len(rows) == limit else None)
    return _judged_page(snapshot, query, condition, mark, limit, oldest=oldest)


def _judged_page(
    snapshot: Snapshot, query: Tree, condition: Condition, mark: Mark, limit: int, *, oldest: bool
) -> Page:
    """Row by row, so that one payload at a time is in memory."""
    fits, found, seen = matcher(query), list[Letter](), 0
    before = (*_asks(query), mark[0], packed(mark[1]))
    for row in _asked(snapshot, "judge_letters", condition, before, JUDGED, oldest=oldest):
        snapshot.heed()
        seen, mark = seen + 1, _mark(row)
        if fits(_subject(row)):
            found.append(_light(row))
            if len(found) == limit:
                return Page(found, mark, seen - limit)
    return Page(found, mark if seen == JUDGED else None, seen - len(found))


def count(snapshot: Snapshot, query: Tree) -> int:
    """How many letters a filter means."""
    condition = condition_of(query)
    if condition.exact:
        return int(next(_asked(snapshot, "count_letters", condition, ()))[0])
    return sum(1 for _ in _judged(snapshot, query, condition))


def outline(snapshot: Snapshot, query: Tree) -> Outline:
    """How many letters a filter means, in how many groups, and between which times they failed last."""
    condition = condition_of(query)
    if condition.exact:
        [(n, groups, oldest, newest)] = _asked(snapshot, "outline_letters", condition, ())
        return Outline(n=n, groups=groups, oldest=oldest, newest=newest)
    found = [(row[12], row[8]) for row in _judged(snapshot, query, condition)]
    times, names = [at for at, _ in found], {name for _, name in found}
    return Outline(n=len(found), groups=len(names), oldest=min(times, default=None), newest=max(times, default=None))


def totals(snapshot: Snapshot) -> Totals:
    """How many open letters there are of each kind, without looking at them."""
    kinds = [
        Total(queue=row[0], task=row[1], priority=row[2], reason=row[3], n=row[4], review=row[5])
        for row in snapshot.all("letter_totals")
    ]
    [(oldest, newest)] = snapshot.all("letter_span")
    return Totals(kinds=kinds, oldest=oldest, newest=newest)


def groups(snapshot: Snapshot, query: Tree | None, limit: int) -> list[Group]:
    """Groups, most letters first; with a filter, of the letters it means, counted among them."""
    if query is None:
        return [group_of(row, snapshot.now) for row in snapshot.all("groups", limit)]
    counts = _counts(snapshot, query)
    most = sorted(counts, key=lambda fingerprint: (-counts[fingerprint], fingerprint))[:limit]
    named = {row[0]: row for row in snapshot.all("groups_named", texts_of(most))}
    return [group_of(named[each], snapshot.now, counts[each]) for each in most if each in named]


def _counts(snapshot: Snapshot, query: Tree) -> Counter[str]:
    condition = condition_of(query)
    if condition.exact:
        return Counter(dict(_asked(snapshot, "count_by_group", condition, ())))
    return Counter(row[8] for row in _judged(snapshot, query, condition))


def _judged(snapshot: Snapshot, query: Tree, condition: Condition) -> Iterator[Row]:
    """Every letter that is meant."""
    fits = matcher(query)
    for row in _asked(snapshot, "judge_all_letters", condition, _asks(query)):
        snapshot.heed()
        if fits(_subject(row)):
            yield row


def _asks(query: Tree) -> tuple[bool, bool]:
    """Whether notes and the traceback have to be read to judge a letter."""
    fields = fields_in(query)
    return "note" in fields, "traceback" in fields


def _asked(
    snapshot: Snapshot, name: str, condition: Condition, before: Sequence[Any], *behind: Any, oldest: bool = False
) -> Iterator[Row]:
    """A statement with the condition in its place, read backwards if asked; its values stand where they are met."""
    sql = statements()[name]
    if oldest:
        sql = sql.replace("l.id) < (?", "l.id) > (?").replace("l.failed_at DESC, l.id DESC", "l.failed_at, l.id")
    sql = sql.replace("/* condition */ 1", condition.sql or "1")
    return snapshot.db.execute(sql, (*before, *condition.values, *behind))


def whole(snapshot: Snapshot, ids: Sequence[str]) -> list[Letter]:
    """These letters with payload and failures, in order; those that are gone are left out."""
    found = {spelled(row[0]): row for row in snapshot.all("letters", ids_of(ids))}
    return [_whole(snapshot, found[id]) for id in ids if id in found]


def _whole(snapshot: Snapshot, row: Row) -> Letter:
    failures = tuple(failure_of(each) for each in snapshot.all("failures_of", row[0]))
    notes = tuple(
        Note(at=at, actor=actor, text=text, group=bool(group))
        for at, actor, text, group in snapshot.all("notes_of_letter", row[0], row[8])
    )
    replaced = tuple(
        Replaced(version=version, payload=payload, at=at, actor=actor)
        for version, payload, at, actor in snapshot.all("payloads_of", row[0])
    )
    return _letter(
        row,
        workflow=row[21],
        payload=row[22],
        headers=row[23],
        payload_version=row[24],
        replaced=replaced,
        failures=failures,
        notes=notes,
    )


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
        owner=row[17],
        review=row[18],
        returns=row[19],
        rule=row[20],
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
        owner=row[17],
        review=row[18],
        returns=row[19],
        rule=row[20],
        workflow=row[21],
        payload=row[22],
        headers=row[23],
        note=row[24],
        traceback=row[25],
    )


def _mark(row: Row) -> Mark:
    return row[12], spelled(row[0])


def named(snapshot: Snapshot, prefix: str, limit: int) -> list[Group]:
    """The groups whose names begin so, with their notes."""
    rows = snapshot.all("groups_like", prefix, f"{prefix}\U0010ffff", limit)
    return [_with_notes(snapshot, group_of(row, snapshot.now)) for row in rows]


def _with_notes(snapshot: Snapshot, group: Group) -> Group:
    rows = snapshot.all("notes_of_group", group.fingerprint)
    notes = tuple(Note(at=at, actor=actor, text=text, group=True) for at, actor, text in rows)
    return msgspec.structs.replace(group, notes=notes)


def group_of(row: Row, now: int, count: int | None = None) -> Group:
    """A group as it is now: one whose time to be muted is over is open."""
    state, until = GroupState(row[9]), row[11]
    if state is GroupState.MUTED and until is not None and until <= now:
        state, until = GroupState.OPEN, None
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
        state=state,
        owner=row[10],
        muted_until=until,
        closed_in=row[12],
    )

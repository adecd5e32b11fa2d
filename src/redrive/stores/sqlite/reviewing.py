"""Letters that need a person, and those that a rule has told of."""

from collections import Counter
from collections.abc import Sequence

from redrive.disposal import GONE
from redrive.eligibility import NEEDS_NO_REVIEW, told_of, why_held
from redrive.letter import LetterState
from redrive.store import Disposed
from redrive.stores.sqlite.transaction import Snapshot, Transaction, unique
from redrive.stores.sqlite.values import Row, blobs_of, ids_of, spelled, texts_of, writable, writable_or_none


def review(tx: Transaction, ids: Sequence[str], why: str | None, actor: str, rule: str | None) -> Disposed:
    """Say why open letters need a person, or with None that they need none any more, and count returns anew."""
    found = {spelled(row[0]): row for row in tx.all("letters_to_review", ids_of(unique(ids)))}
    left = {id: fault for id in unique(ids) if (fault := _why_not(found.get(id), why)) is not None}
    done = [row for id, row in found.items() if id not in left]
    tx.run("review_letters", blobs_of([row[0] for row in done]), writable_or_none(why), writable_or_none(rule))
    for id, _, _, task, queue, epochs, attempts in done:
        event = "letter.review" if why else "letter.reviewed"
        tx.journal(event, (id, task, queue, epochs, attempts), actor=actor, text=why)
    return Disposed([id for id in unique(ids) if id not in left], left)


def _why_not(row: Row | None, why: str | None) -> str | None:
    if row is None:
        return GONE
    if row[1] != LetterState.OPEN:
        return f"it is {row[1]}, not open"
    return NEEDS_NO_REVIEW if why is None and row[2] is None else None


def notify(tx: Transaction, ids: Sequence[str], rule: str, actor: str) -> list[str]:
    """Write a line for each group of open letters that no rule has told of since they died; answers which."""
    found = tx.all("untold_letters", ids_of(unique(ids)))
    tx.run("rule_letters", blobs_of([row[0] for row in found]), writable(rule))
    counts = Counter(row[1] for row in found)
    for group in sorted(tx.all("groups_named", texts_of(counts)), key=lambda row: str(row[0])):
        cause, title, task, reason = group[:4]
        text = told_of(rule, counts[cause], str(cause), str(title))
        tx.journal("rule.notified", (None, task, None, None, None), reason=reason, actor=actor, text=text)
    return [spelled(row[0]) for row in found]


def held(snapshot: Snapshot, ids: Sequence[bytes]) -> dict[bytes, str]:
    """Why each of these letters is left alone by a redrive that is not forced."""
    rows = snapshot.all("held_letters", blobs_of(ids), snapshot.now)
    return {id: why for id, text, expires in rows if (why := why_held(text, expires, snapshot.now))}

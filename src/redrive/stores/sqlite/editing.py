"""Other payloads for dead jobs; what they were given before is kept."""

from collections import Counter
from collections.abc import Sequence

from redrive.disposal import GONE, why_not_edited
from redrive.leftovers import why_not_undone
from redrive.letter import LetterState
from redrive.store import Disposed, Edit
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import Row, blobs_of, ids_of, packed, spelled, writable


def edit(tx: Transaction, edits: Sequence[Edit], actor: str, reason: str, operation: bytes | None = None) -> Disposed:
    """Give dead jobs other payloads; a letter that has changed since it was read is left as it is."""
    found = {spelled(row[0]): row for row in tx.all("letters_to_edit", ids_of(edit.id for edit in edits))}
    done, left = dict[str, Edit](), dict[str, str]()
    for edit in edits:
        row = found.get(edit.id)
        version = 0 if row is None else row[2] + (edit.id in done)
        why = GONE if row is None else why_not_edited(LetterState(row[1]), version, edit.version)
        if why is None:
            done[edit.id] = edit
        else:
            left[edit.id] = why
    rows = [(found[id], edit.payload) for id, edit in done.items()]
    if operation is not None:
        parts = Counter(row[11] for row, _ in rows)
        tx.many("add_to_part", [(operation, group, "", n) for group, n in sorted(parts.items())])
    replace(tx, rows, actor, reason, operation)
    return Disposed(list(done), left)


def replace(
    tx: Transaction, rows: Sequence[tuple[Row, bytes]], actor: str, reason: str, operation: bytes | None = None
) -> None:
    """Put other payloads in the place of what these rows of `letters_to_edit` have."""
    if not rows:
        return
    tx.many("keep_payload", [(row[0], row[9], tx.now, writable(actor), row[10], operation, row[6]) for row, _ in rows])
    tx.many("edit_job", [(row[8], payload) for row, payload in rows])
    tx.run("edit_letters", blobs_of([row[0] for row, _ in rows]))
    for (id, _, _, task, queue, priority, epochs, attempts, _, number, *_), _ in rows:
        tx.count(queue, task, priority, None, "edited")
        text = f"payload version {number + 1}" + (f": {reason}" if reason else "")
        tx.journal("job.edited", (id, task, queue, epochs, attempts), actor=actor, text=text)


def undo(tx: Transaction, ids: Sequence[str], operation: bytes, actor: str, reason: str) -> Disposed:
    """Give letters back what this edit has replaced, where nothing has happened to them since."""
    found = {spelled(row[0]): row for row in tx.all("letters_to_undo", ids_of(ids), operation)}
    done, left = list[str](), dict[str, str]()
    for id in dict.fromkeys(ids):
        row = found.get(id)
        why = GONE if row is None else _why_not_undone(row)
        if row is None or why is not None:
            left[id] = why or GONE
            continue
        blob, _, epochs, task, queue, priority, attempts, seq, _, version, _, payload = row
        tx.run("undo_job", seq, payload, version)
        tx.run("undo_payload", blob, version)
        tx.count(queue, task, priority, None, "edits_undone")
        text = f"payload version {version} again" + (f": {reason}" if reason else "")
        tx.journal("job.edited", (blob, task, queue, epochs, attempts), actor=actor, text=text)
        done.append(id)
    tx.run("edit_letters", blobs_of([packed(id) for id in done]))
    return Disposed(done, left)


def _why_not_undone(row: Row) -> str | None:
    _, state, epochs, *_, version, replaced, epoch, _ = row
    return why_not_undone(
        is_open=state == LetterState.OPEN,
        brought_back=replaced is not None and epochs != epoch,
        version=version,
        replaced=replaced,
    )

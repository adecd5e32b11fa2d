"""What people say of groups and letters: who looks after them, what was found out, and what is muted or fixed."""

from collections.abc import Mapping, Sequence

from redrive.job import Job
from redrive.letter import GroupState
from redrive.stores.sqlite.transaction import About, Transaction, unique
from redrive.stores.sqlite.values import Row, blobs_of, ids_of, packed, texts_of, writable, writable_or_none

_EVENTS = {GroupState.MUTED: "group.muted", GroupState.CLOSED: "group.closed"}


def reopen_groups(tx: Transaction, joining: Mapping[str, Job]) -> None:
    """Say in the journal which closed groups these jobs open again; `join_group` does it."""
    for fingerprint, release in tx.all("closed_among", texts_of(joining)):
        job = joining[fingerprint]
        where = f" in release {release}" if release else ""
        about = (packed(job.id), job.task, job.queue, job.epoch, job.attempts)
        tx.journal("group.reopened", about, text=f"group {fingerprint}, which was closed{where}, has a new letter")


def reopen(tx: Transaction, cause: str, what: str, actor: str) -> None:
    """Open a closed group without a new letter, and say in the journal what has happened to it."""
    for _, release in tx.all("closed_among", texts_of([cause])):
        [(_, task)] = tx.all("groups_there", texts_of([cause]))
        tx.run("reopen_group", cause)
        where = f" in release {release}" if release else ""
        tx.journal(
            "group.reopened", _as_group(task), actor=actor, text=f"group {cause}, which was closed{where}, {what}"
        )


def set_groups(
    tx: Transaction,
    groups: Sequence[str],
    state: GroupState,
    actor: str,
    reason: str,
    until: int | None,
    release: str | None,
) -> list[str]:
    """Mute, close or open these groups; answers which there are."""
    found = tx.all("groups_there", texts_of(unique(groups)))
    names = texts_of(row[0] for row in found)
    tx.run("mark_groups", names, state.value, until, writable_or_none(release))
    for fingerprint, task in found:
        where = f" in release {release}" if release else ""
        _tell(tx, _EVENTS.get(state, "group.opened"), _as_group(task), actor, f"{fingerprint}{where}", reason)
    return [row[0] for row in found]


def assign(tx: Transaction, owner: str | None, actor: str, groups: Sequence[str], ids: Sequence[str]) -> int:
    """Say who looks after these groups and letters, None for nobody; answers how many there are."""
    found, letters = _there(tx, groups, ids)
    tx.run("assign_groups", texts_of(row[0] for row in found), writable_or_none(owner))
    tx.run("assign_letters", blobs_of([row[0] for row in letters]), writable_or_none(owner))
    for fingerprint, task in found:
        _tell(tx, "group.assigned", _as_group(task), actor, f"{fingerprint} to {owner or 'nobody'}")
    for about in letters:
        _tell(tx, "letter.assigned", _as_job(about), actor, f"to {owner or 'nobody'}")
    return len(found) + len(letters)


def note(tx: Transaction, text: str, actor: str, groups: Sequence[str], ids: Sequence[str]) -> int:
    """Write something about these groups and letters; answers how many there are."""
    found, letters = _there(tx, groups, ids)
    written = (tx.now, writable(actor), writable(text))
    tx.many("add_note", [(row[0], *written) for row in (*found, *letters)])
    for fingerprint, task in found:
        _tell(tx, "group.noted", _as_group(task), actor, fingerprint, text)
    for about in letters:
        _tell(tx, "letter.noted", _as_job(about), actor, text)
    return len(found) + len(letters)


def _there(tx: Transaction, groups: Sequence[str], ids: Sequence[str]) -> tuple[list[Row], list[Row]]:
    return tx.all("groups_there", texts_of(unique(groups))), tx.all("letters_there", ids_of(unique(ids)))


def _as_job(row: Row) -> About:
    id, task, queue, epoch, attempt = row
    return id, task, queue, epoch, attempt


def _as_group(task: str) -> About:
    return None, task, None, None, None


def _tell(tx: Transaction, event: str, about: About, actor: str, text: str, why: str = "") -> None:
    tx.journal(event, about, actor=actor, text=f"{text}: {why}" if why else text)

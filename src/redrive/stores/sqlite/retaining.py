"""What is forgotten when its time is over, queue by queue; and what is announced before it goes."""

from collections.abc import Sequence

from redrive.retention import FOR_EVER, Notice, Removal
from redrive.stores.sqlite.transaction import Snapshot, Transaction
from redrive.stores.sqlite.values import listed, names_in, numbers_of

REDRIVES = 10
"""So many redrives begin to go at once; their letters follow in shares."""


def forget_letters(tx: Transaction, limit: int) -> list[bytes]:
    """Letters that were closed or discarded long ago; answers their ids."""
    if not tx.settings.of_queues:
        return [row[0] for row in tx.all("forget_letters", tx.now - tx.settings.closed_retention, limit)]
    gone: list[bytes] = []
    for (queue,) in tx.all("queues_of_ended_letters"):
        before = tx.now - tx.settings.keeps_closed(queue)
        gone += [row[0] for row in tx.all("forget_letters_of_queue", queue, before, limit - len(gone))]
    return gone


def forget_redrives(tx: Transaction, limit: int) -> int:
    """Redrives that ended long ago: what they were at once, then their letters in shares; answers how many of those."""
    for (id,) in tx.all("redrives_over", tx.now - tx.settings.redrive_retention, REDRIVES):
        for name in ("forget_redrive", "forget_redrive_causes", "forget_redrive_stages", "leave_items"):
            tx.run(name, id)
    gone = 0
    for (id,) in tx.all("forgotten_redrives"):
        gone += len(tx.all("forget_items", id, limit - gone))
        if gone < limit:
            tx.run("items_forgotten", id)
    return gone


def forget_entries(tx: Transaction, limit: int) -> int:
    """Entries that are older than the journal is to be, each act with all under its seal; answers how many."""
    keep = tx.settings.journal_retention
    if keep == FOR_EVER or limit <= 0:
        return 0
    [(reach,)] = tx.all("reach_of_entries", limit)
    while (seal := tx.first("seal_to_forget")) is not None:
        number, at, first = seal
        if at > tx.now - keep or first > reach:
            break
        tx.run("forget_seal", number, tx.now)
    over = [seq for seq, at, may_go in tx.all("first_entries", limit) if may_go and at <= tx.now - keep]
    tx.run("forget_entries", numbers_of(over))
    return len(over)


def notices(snapshot: Snapshot) -> list[Notice]:
    """The removals of open letters that were announced."""
    return [
        Notice(
            removal=Removal(queue=queue or None, after=after, but=names_in(but)),
            announced_at=announced_at,
            acts_at=acts_at,
            letters=letters,
        )
        for queue, after, but, announced_at, acts_at, letters in snapshot.all("notices")
    ]


def announce(tx: Transaction, wanted: Sequence[Notice], actor: str) -> None:
    """Let these be all that is announced."""
    before = notices(tx)
    tx.run("withdraw_notices")
    for notice in wanted:
        removal = notice.removal
        times = (notice.announced_at, notice.acts_at, notice.letters)
        tx.run("add_notice", removal.queue or "", removal.after, listed(removal.but), *times)
    changes = [("withdrawn", notice) for notice in before if notice not in wanted]
    changes += [("announced", notice) for notice in wanted if notice not in before]
    for event, notice in changes:
        tx.journal(f"retention.{event}", queue=notice.removal.queue, actor=actor, text=notice.said)

"""What the jobs of redrives come to, told to the redrive in the transaction in which they come to it."""

from collections import Counter
from collections.abc import Sequence

from redrive.ramp import Ending, judged
from redrive.stores.sqlite.transaction import Transaction
from redrive.stores.sqlite.values import blobs_of

_OUTCOMES = ("succeeded", "recurred", "otherwise", "discarded")
_VERDICTS = ("passed", "relapsed", "strayed", "dropped")

Told = tuple[bytes, int, Ending, str, str]
"""A job, its epoch, how an attempt ended, the group of its failure (or why it was discarded), that without rules.

The cause of an item is the group that its letter was in when the redrive was frozen. It has recurred when the new
failure is in that group, or would be without rules, or is where the letter was moved meanwhile.
"""


def tell_redrives(tx: Transaction, told: Sequence[Told]) -> None:
    """Keep the items and tallies of redrives; jobs that none waits for are passed by."""
    if not told:
        return
    under_way = {row[1]: row for row in tx.all("items_under_way", blobs_of([each[0] for each in told]))}
    by_cause: Counter[tuple[bytes, str, str]] = Counter()
    by_stage: Counter[tuple[bytes, int, str]] = Counter()
    items = []
    for id, epoch, ending, why, plain in told:
        row = under_way.get(id)
        if row is None or row[3] != epoch:
            continue
        redrive, _, cause, _, before, stage, judge, group = row
        outcome, verdict = judged(ending, same=cause in (why, plain) or why == group, judge=judge)
        verdict = verdict if before is None else None
        if outcome or verdict:
            items.append((redrive, id, outcome, verdict, "" if ending == "succeeded" else why, tx.now))
        for name in (outcome, verdict):
            by_cause[redrive, cause, name or ""] += 1
        by_stage[redrive, stage, verdict or ""] += 1
    tx.many("tell_item", items)
    causes = {(redrive, cause) for redrive, cause, _ in by_cause}
    tx.many("tell_cause", [(*c, *(by_cause[(*c, name)] for name in (*_OUTCOMES, *_VERDICTS))) for c in sorted(causes)])
    stages = {(redrive, stage) for redrive, stage, _ in by_stage}
    tx.many("tell_stage", [(*s, *(by_stage[(*s, name)] for name in _VERDICTS)) for s in sorted(stages)])

"""How many letters an operation has left, by why; kept short, because a reason may name what stands in one payload."""

from collections.abc import Iterable, Mapping

KINDS = 40
"""So many different reasons are told apart."""

LONGEST = 300
OTHERS = "for other reasons"
SINCE = "it has failed again since"


def with_more(left: Mapping[str, int], whys: Iterable[str]) -> dict[str, int]:
    """The counts with these reasons among them."""
    counts = dict(left)
    for why in whys:
        text = why if len(why) <= LONGEST else f"{why[: LONGEST - 1]}…"
        known = text if text in counts or len(counts) < KINDS else OTHERS
        counts[known] = counts.get(known, 0) + 1
    return counts


def why_not_undone(*, is_open: bool, brought_back: bool, version: int | None, replaced: int | None) -> str | None:
    """An edit is taken back where nothing has happened since: no other edit, no redrive."""
    if replaced is None:
        return "it was not edited by this, or that was taken back"
    if brought_back or not is_open:
        return "it has been brought back or ended since"
    return "it has been edited again since" if version != replaced + 1 else None

"""Which letters may be brought back without a person: why the others may not, as a phrase."""

from redrive.clock import iso
from redrive.disposal import NEVER

NEEDS_NO_REVIEW = "it needs no review"


def most_returns(max_epochs: int) -> int:
    """How often in a row a letter comes back with the same cause until the loop guard holds it; 0 means never."""
    return max_epochs or NEVER


def guarded(times: int) -> str:
    """What the loop guard says of a letter that it holds."""
    return f"loop guard: it came back {times:,} times in a row with the same cause"


def why_held(review: str | None, expires: int | None, now: int) -> str | None:
    """Why a redrive leaves a letter alone unless it is forced."""
    if review is not None:
        return f"needs review: {review}"
    if expires is not None and expires <= now:
        return f"not eligible: its job expired at {iso(expires)[:19]}Z"
    return None


def told_of(rule: str, n: int, cause: str, title: str) -> str:
    """What a rule that notifies writes of a group."""
    return f"rule {rule}: {n:,} {'letter' if n == 1 else 'letters'} of group {cause[:8]}: {title}"

"""What may be discarded, restored, purged and edited: why not, as a phrase, or None when it may."""

from redrive.letter import LetterState

NEVER = 2**63 - 1
"""A cut-off that is none."""

GONE = "there is no such letter"
KEY_TAKEN = "another job has taken its idempotency key"


def why_not_discarded(state: LetterState, failed_at: int, upto: int) -> str | None:
    """Only an open letter is discarded, and none that has failed again since the cut-off."""
    if state is not LetterState.OPEN:
        return f"it is {state}, not open"
    return _too_new(failed_at, upto)


def why_not_restored(state: LetterState, died_at: int | None, ended_at: int, upto: int) -> str | None:
    """Only what was discarded as a letter has a death to go back to; not what was discarded since the cut-off."""
    if state is not LetterState.DISCARDED:
        return f"it is {state}, not discarded"
    if ended_at > upto:
        return "it was discarded since"
    return "its job was discarded after it had been brought back" if died_at is None else None


def why_not_purged(state: LetterState, failed_at: int, upto: int) -> str | None:
    """Everything but what has been brought back and has not ended."""
    if state is LetterState.REDRIVEN:
        return "its job has been brought back and has not ended"
    return _too_new(failed_at, upto)


def why_not_edited(state: LetterState, version: int, read: int) -> str | None:
    """Only an open letter is edited, by whoever has read it as it is."""
    if state is not LetterState.OPEN:
        return f"it is {state}, not open"
    return f"it has changed since it was read (version {read}, now {version})" if version != read else None


def _too_new(failed_at: int, upto: int) -> str | None:
    return "it has failed again since" if failed_at > upto else None

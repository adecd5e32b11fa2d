"""The page of one letter: what its job was given, everything that happened to it in order, and the last traceback."""

from collections.abc import Iterator, Sequence

from redrive.cli.finding import CHOICES, digits_of
from redrive.cli.output import clean, counted, folded, paint, show, width
from redrive.cli.page import as_it_was, field, headers_of, last_name, value
from redrive.cli.shapes import json_in
from redrive.cli.times import at_and_beside, span
from redrive.clock import iso
from redrive.errors import NotFound, UsageError
from redrive.letter import Failure, Letter, LetterState
from redrive.query.tree import Compare
from redrive.redact import printable, redact_text
from redrive.store import Entry, Store

_COLOURS = {LetterState.OPEN: "red", LetterState.CLOSED: "green", LetterState.REDRIVEN: "cyan"}
_TOLD_ELSEWHERE = ("job.retried", "job.buried", "letter.noted")
"""What stands in the failures and notes of the letter itself."""

_PHRASES = {
    "job.redriven": "brought back",
    "job.imported": "imported",
    "job.released": "given back without an attempt spent",
    "job.snoozed": "snoozed",
    "job.discarded": "discarded",
    "job.edited": "edited",
    "job.restored": "restored",
    "letter.assigned": "assigned",
    "letter.review": "held for review",
    "letter.reviewed": "reviewed, and may be brought back",
    "group.reopened": "its group was opened again",
    "job.orphaned": "its worker was gone",
}
LINES = 6
"""So many lines of one failure are shown; --json has the whole."""


async def find_letter(store: Store, typed: str) -> Letter:
    """The one letter whose id ends like this, whole."""
    page = await store.letters.find(Compare("id", "=", digits_of(typed)), limit=CHOICES)
    if not page.letters:
        raise NotFound(f"no letter ends with {typed}; `redrive dlq list` shows the last ones")
    if len(page.letters) > 1:
        ids = ", ".join(sorted(letter.id for letter in page.letters))
        raise UsageError(f"several letters end with {typed}: {ids}; type more of the id")
    whole = await store.letters.get(page.letters[0].id)
    if whole is None:
        raise NotFound(f"letter {typed} was forgotten while it was looked for; its time was over")
    return whole


def show_story(letter: Letter, entries: Sequence[Entry], now: int) -> None:
    """Everything about a letter, for a person."""
    state = paint(letter.state, colour=_COLOURS.get(letter.state))
    show(f"letter {paint(letter.id[-8:], bold=True)} {clean(letter.task)}  {state}")
    for name, text in _fields(letter, now):
        field(name, text)
    if letter.payload is not None:
        value("payload", json_in(letter.payload))
    for one in letter.replaced:
        value("original" if one.version == 1 else f"version {one.version}", json_in(one.payload))
    show()
    show("  what happened", bold=True)
    for at, text, colour in sorted(_told(letter, entries), key=lambda line: line[0]):
        _line(at, text, colour)
    if letter.failures:
        _last_words(letter.failures[-1])
        as_it_was(letter.failures[-1].traceback or "")


def _fields(letter: Letter, now: int) -> Iterator[tuple[str, str]]:
    yield "id", letter.id
    yield "group", f"{letter.group} (redrive dlq list --filter 'group = {letter.group[:8]}')"
    if letter.owner:
        yield "owner", letter.owner
    if letter.review:
        yield "review", f"needs review: {letter.review}"
    yield "queue", f"{letter.queue}, priority {letter.priority}"
    if letter.workflow:
        yield "workflow", letter.workflow
    epochs = f" in {letter.epochs} epochs" if letter.epochs > 1 else ""
    yield "reason", f"{letter.reason}, {counted(len(letter.failures), 'failure')}{epochs}"
    if letter.returns:
        yield "returned", f"{counted(letter.returns, 'time')} in a row with the same cause"
    yield "failed", at_and_beside(letter.failed_at, now)
    if letter.first_failed_at != letter.failed_at:
        yield "", f"first {at_and_beside(letter.first_failed_at, now)}"
    release = f", release {letter.release}" if letter.release else ""
    yield "where", f"{letter.host or '?'}, worker {letter.worker or '?'}{release}"
    yield from headers_of(letter.headers)


def _told(letter: Letter, entries: Sequence[Entry]) -> Iterator[tuple[int, str, str | None]]:
    """Every failure and note, and what the journal has beside them."""
    for failure in letter.failures:
        yield failure.at, _failed(failure), "red"
    for note in letter.notes:
        yield note.at, f"note{' on its group' if note.group else ''} by {note.actor}: {note.text}", None
    for entry in entries:
        if entry.event not in _TOLD_ELSEWHERE:
            yield entry.at, _noted(entry), None


def _failed(failure: Failure) -> str:
    epoch = f" of epoch {failure.epoch}" if failure.epoch > 1 else ""
    said = f"{last_name(failure.type)}: {failure.message}" if failure.message else last_name(failure.type)
    step = f"in step {failure.step} " if failure.step else ""
    where = f"{step}after {span(failure.duration)} on {failure.host or '?'}"
    return f"attempt {failure.attempt}{epoch} failed {where}, {failure.reason}: {said}"


def _noted(entry: Entry) -> str:
    phrase = _PHRASES.get(entry.event, entry.event)
    by = f" by {entry.actor}" if entry.actor else ""
    why = f": {entry.text}" if entry.text else f": {entry.reason}" if entry.reason else ""
    return f"{phrase}{by}{why}"


def _last_words(failure: Failure) -> None:
    """How its process ended, and the last lines that it wrote."""
    if failure.cause:
        show()
        show("  how its process died", bold=True)
        for line in printable(redact_text(failure.cause), keep_lines=True).splitlines():
            show(f"    {line}")


def _line(at: int, text: str, colour: str | None) -> None:
    """A moment and what happened then, folded beside it."""
    stamp = iso(at)[:19].replace("T", " ")
    first, *rest = folded(clean(text), max(20, width() - len(stamp) - 6))[:LINES]
    show(f"    {stamp}  {paint(first, colour=colour)}")
    for line in rest:
        show(f"    {'':<{len(stamp)}}  {line}")

"""The page of one group, and its line in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from redrive.cli.output import Column, clean, counted, paint, say, show, table
from redrive.cli.page import field
from redrive.cli.times import at_and_beside, roughly, roughly_beside
from redrive.clock import iso
from redrive.letter import Group, GroupState, Note

SHORT = 8
"""So many digits of a group's name are shown; any beginning is understood."""


SHOWN = 10
"""So many groups are shown before it asks; --dry-run has all."""

_CAUSES = (Column("GROUP"), Column("LETTERS", right=True), Column("TASK", shrink=True), Column("CAUSE", shrink=True))


def show_groups(groups: Sequence[Group], edits: Mapping[str, str], now: int) -> None:
    """A line for each; the owners, and the last edits of many letters, only where there are any."""
    owned, edited = any(group.owner for group in groups), any(group.fingerprint in edits for group in groups)
    columns = [
        Column("GROUP"),
        Column("LETTERS", right=True),
        Column("LAST"),
        Column("FIRST"),
        Column("STATE"),
        *([Column("OWNER", shrink=True)] if owned else []),
        *([Column("RECIPE")] if edited else []),
        Column("TASK", shrink=True),
        Column("CAUSE", shrink=True),
    ]
    rows = []
    for group in groups:
        cells = [*([group.owner or ""] if owned else []), *([edits.get(group.fingerprint, "")[-8:]] if edited else [])]
        rows.append([*_times(group, now), *cells, group.task, group.title])
    table(columns, rows)


def tell_causes(groups: Sequence[Group]) -> None:
    """The biggest groups of what would be touched, on stderr: they are no data."""
    for group in groups[:SHOWN]:
        say(f"{group.count:>7,}  group {group.fingerprint[:SHORT]}  {group.title}")
    if len(groups) > SHOWN:
        say(f"and {counted(len(groups) - SHOWN, 'more group')}; --dry-run shows them all")


def show_causes(groups: Sequence[Group]) -> None:
    """All groups of what would be touched."""
    if groups:
        table(_CAUSES, [[g.fingerprint[:SHORT], f"{g.count:,}", g.task, g.title] for g in groups])


def of_causes(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [{"group": g.fingerprint, "letters": g.count, "title": g.title} for g in groups]


def _times(group: Group, now: int) -> list[str]:
    last, first = roughly_beside(group.last_seen, now), roughly_beside(group.first_seen, now)
    return [group.fingerprint[:SHORT], f"{group.count:,}", last, first, _state(group, now)]


def _state(group: Group, now: int) -> str:
    if group.state is GroupState.MUTED and group.muted_until is not None:
        return f"muted {roughly(group.muted_until - now)}"
    return group.state


def show_group(group: Group, now: int) -> None:
    """Everything about a group, for a person."""
    show(f"group {paint(group.fingerprint, bold=True)} {clean(group.task)}  {group.state}")
    field("cause", group.title)
    field("reason", f"{group.reason}, {group.type}")
    field(
        "letters",
        f"{counted(group.count, 'open letter')} (redrive dlq list --filter 'group = {group.fingerprint[:SHORT]}')",
    )
    field("seen", at_and_beside(group.last_seen, now))
    field("", f"first {at_and_beside(group.first_seen, now)}")
    field("sample", group.sample)
    if group.owner:
        field("owner", group.owner)
    if group.muted_until:
        field("muted", f"until {at_and_beside(group.muted_until, now)}")
    if group.closed_in:
        field("closed", f"in release {group.closed_in}")
    for note in group.notes:
        field("note", spoken_note(note))


def spoken_note(note: Note) -> str:
    """A note with who wrote it and when."""
    return f"{iso(note.at)[:16].replace('T', ' ')} {note.actor}: {note.text}"

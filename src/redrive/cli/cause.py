"""The page of one group, and its line in a table."""

from collections.abc import Sequence

from redrive.cli.output import Column, clean, counted, paint, show, table
from redrive.cli.page import field
from redrive.cli.times import at_and_beside, roughly, roughly_beside
from redrive.clock import iso
from redrive.letter import Group, GroupState, Note

SHORT = 8
"""So many digits of a group's name are shown; any beginning is understood."""


def show_groups(groups: Sequence[Group], now: int) -> None:
    """A line for each; the owners only where there are any."""
    owned = any(group.owner for group in groups)
    columns = [
        Column("GROUP"),
        Column("LETTERS", right=True),
        Column("LAST"),
        Column("FIRST"),
        Column("STATE"),
        *([Column("OWNER", shrink=True)] if owned else []),
        Column("TASK", shrink=True),
        Column("CAUSE", shrink=True),
    ]
    table(columns, [_row(group, now, owned) for group in groups])


def _row(group: Group, now: int, owned: bool) -> list[str]:
    last, first = roughly_beside(group.last_seen, now), roughly_beside(group.first_seen, now)
    owner = [group.owner or ""] if owned else []
    return [
        group.fingerprint[:SHORT], f"{group.count:,}", last, first, _state(group, now), *owner, group.task, group.title
    ]  # fmt: skip


def _state(group: Group, now: int) -> str:
    if group.state is GroupState.MUTED and group.muted_until is not None:
        return f"muted {roughly(group.muted_until - now)}"
    return group.state


def show_group(group: Group, now: int) -> None:
    """Everything about a group, for a person."""
    show(f"group {paint(group.fingerprint, bold=True)} {clean(group.task)}  {group.state}")
    field("cause", group.title)
    field("reason", f"{group.reason}, {group.type}")
    field("letters", f"{counted(group.count, 'open letter')} (redrive dlq list --filter 'group = {group.fingerprint}')")
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

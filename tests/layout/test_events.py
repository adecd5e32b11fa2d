"""Every event is told with the fields that the reference lists for it, and no others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.announce import NAMES, announce
from redrive.events import EVENTS, Events, Recorder
from redrive.store import AnySettlement
from redrive.testing.factories import a_job, every_ending

SOURCE = Path(__file__).parents[2] / "src" / "redrive"
ENDINGS = every_ending(a_job(), 0)


def told(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each event that a file names where it tells of it, with the fields it gives."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="emit" | "tell"), args=[ast.Constant(value=str(name)), *_]):
                yield name, tuple(keyword.arg or "**" for keyword in node.keywords)


def strange(source: str) -> list[str]:
    """Events that are not in the table, or have other fields there."""
    return [
        f"{name}: {sorted(fields)}"
        for name, fields in told(source)
        if "." in name and (name not in EVENTS or set(fields) != set(EVENTS[name].fields))
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_an_event_has_the_fields_of_the_table(path: Path) -> None:
    """A hook may rely on the reference."""
    assert strange(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("settlement", ENDINGS, ids=lambda settlement: type(settlement).__name__)
def test_a_settlement_is_told_with_the_fields_of_the_table(settlement: AnySettlement) -> None:
    """Also where the name of the event is not written beside its fields."""
    events, recorder = Events(), Recorder()
    events.subscribe(recorder)
    announce(events, settlement, 0)
    (event,) = recorder.events
    assert event.name == NAMES[type(settlement)]
    assert set(event.fields) == set(EVENTS[event.name].fields)


def test_every_event_is_told_somewhere() -> None:
    """What no line tells of is not an event."""
    names = {name for path in SOURCE.rglob("*.py") for name, _ in told(path.read_text(encoding="utf-8"))}
    assert set(EVENTS) - names - set(NAMES.values()) == set()


def test_a_strange_event_is_found() -> None:
    """The control: a wrong name, a wrong field, a right one, and something else that is told."""
    source = "a.emit('job.strated', job)\na.emit('job.late', job, why=1)\na.emit('job.late', job)\nb.tell('drain')\n"
    assert strange(source) == ["job.strated: []", "job.late: ['why']"]

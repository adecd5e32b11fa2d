"""The reference is what the code says."""

import re
from pathlib import Path

import pytest

from redrive.config import SETTINGS
from redrive.events import EVENTS
from tests.docs.pages import ROOT
from tests.layout.test_words import FAILPOINTS
from tools.entries import ENTRIES
from tools.reference import FOLDER, PAGES, pages

SOURCE = ROOT / "src" / "redrive"
ENTRY = re.compile(r"[\"']((?:job|letter|group|redrive|operation|rule|retention|gate|queue|worker)\.[a-z]+)[\"']")
CHANGED = ("paused", "resumed", "cancelled", "finished")
"""How a redrive goes on is written by its state."""


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(name: str, written: dict[str, str]) -> None:
    """`make docs` has been run since the code was changed."""
    assert (FOLDER / name).read_text(encoding="utf-8") == written[name]


def test_no_page_is_left_over() -> None:
    """What is not written any more is gone."""
    assert {path.name for path in FOLDER.glob("*.md")} == set(PAGES)


def test_the_journal_says_nothing_that_the_reference_does_not_know() -> None:
    """Whatever a store may write is in the table, and nothing else is."""
    stores = {name for text in texts(SOURCE / "stores") for name in ENTRY.findall(text)}
    elsewhere = {name for text in texts(SOURCE) for name in ENTRY.findall(text)}
    assert stores - set(FAILPOINTS) - {"redrive.db"} - set(ENTRIES) == set()
    assert set(ENTRIES) - elsewhere - {f"redrive.{state}" for state in CHANGED} == set()


def texts(folder: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))]


def test_the_reference_names_everything(written: dict[str, str]) -> None:
    """Commands, settings and events are there by name."""
    assert [one.key for one in SETTINGS if f"`{one.key}`" not in written["settings.md"]] == []
    assert [name for name in EVENTS if f"`{name}`" not in written["events.md"]] == []
    assert "## `redrive jobs show`" in written["commands.md"]

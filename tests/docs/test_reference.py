"""The reference is what the code says."""

import pytest

from redrive.config import SETTINGS
from redrive.events import EVENTS
from tools.reference import FOLDER, PAGES, pages


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


def test_the_reference_names_everything(written: dict[str, str]) -> None:
    """Commands, settings and events are there by name."""
    assert [one.key for one in SETTINGS if f"`{one.key}`" not in written["settings.md"]] == []
    assert [name for name in EVENTS if f"`{name}`" not in written["events.md"]] == []
    assert "## `redrive jobs show`" in written["commands.md"]

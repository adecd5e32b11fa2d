"""The public names are few, listed, sorted and documented."""

import types
from pathlib import Path
from types import ModuleType

import redrive

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter sorts `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def unlisted(module: ModuleType) -> set[str]:
    """Names that a user sees in the module although it does not offer them, or the other way round."""
    seen = {name for name in dir(module) if not name.startswith("_") and offered(name, getattr(module, name, None))}
    promised = set(module.__all__)
    return (seen ^ promised) | {name for name in promised if not hasattr(module, name)}


def offered(name: str, value: object) -> bool:
    """Whether a name is the package's own: no module, nothing borrowed from the standard library."""
    home = getattr(value, "__module__", None) or "redrive"
    return not isinstance(value, ModuleType) and name != "TYPE_CHECKING" and home.partition(".")[0] == "redrive"


def undocumented(names: list[str], folder: Path) -> list[str]:
    """Names that no page of this folder mentions in code type."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(folder.rglob("*.md")))
    return [name for name in names if not any(f"`{name}{end}" in text for end in ("`", "(", "."))]


def test_the_list_is_sorted_and_short() -> None:
    """About 25 names, each once."""
    names = list(redrive.__all__)
    assert names == sorted(set(names), key=order)
    assert 15 <= len(names) <= 32


def test_the_list_is_what_a_user_sees() -> None:
    """No name slips into the package by an import, and none is promised that is not there."""
    assert unlisted(redrive) == set()


def test_every_name_is_documented() -> None:
    """docs/reference names each of them."""
    assert undocumented(list(redrive.__all__), REFERENCE) == []


def test_what_is_not_listed_or_not_documented_is_found(tmp_path: Path) -> None:
    """The control, on a module and a page made for it."""
    module = types.ModuleType("planted")
    vars(module).update(__all__=["gone"], stray=1)
    (tmp_path / "page.md").write_text("Use `Retry(3)`, not Bury.", encoding="utf-8")
    assert unlisted(module) == {"gone", "stray"}
    assert undocumented(["Retry", "Bury"], tmp_path) == ["Bury"]

"""The SQL of this engine: every statement has a name in a file under `sql/` and is asked for by it."""

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Every statement by name."""
    found: dict[str, str] = {}
    for file in sorted((_FOLDER / "sql").glob("*.sql")):
        _, *pieces = _HEADING.split(file.read_text(encoding="utf-8"))
        for name, text in zip(pieces[::2], pieces[1::2], strict=True):
            if name in found:
                raise ValueError(f"the statement {name} of {file.name} has the name of another one")
            found[name] = _without_remarks(text)
    return found


def migrations() -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    files = sorted((_FOLDER / "migrations").glob("[0-9]*.sql"))
    return [(int(file.stem[:4]), file.stem, file.read_text(encoding="utf-8")) for file in files]


def _without_remarks(text: str) -> str:
    return "\n".join(line for line in text.strip().splitlines() if not line.startswith("--"))

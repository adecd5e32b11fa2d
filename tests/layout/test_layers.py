"""Imports point down; import-linter reads the contracts in pyproject.toml."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the package below this folder."""
    return subprocess.run(
        COMMAND,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_import_points_down() -> None:
    """The contracts of pyproject.toml hold."""
    verdict = lint(ROOT)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("job", "import redrive.store", "Imports point down, from the faces to the values BROKEN"),
        ("stray", "x = 1", "Imports point down, from the faces to the values BROKEN"),
        ("store", "import click", "Only the command line knows click and rich BROKEN"),
        ("events", "import apsw", "Only a store knows its driver BROKEN"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, module: str, planted: str, contract: str) -> None:
    """The control: an import that points up, a module without a place, a driver outside its store."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src" / "redrive" / f"{module}.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{planted}\n")
    verdict = lint(tmp_path)
    assert verdict.returncode == 1
    assert contract in verdict.stdout

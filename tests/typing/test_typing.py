"""`enqueue` has the signature of the function, for the type checker of the person who calls it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = Path(__file__).with_name("api.py")


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    """mypy's verdict on one file, with the settings of this repository."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", "--no-color-output", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_right_calls_pass_and_wrong_calls_are_errors() -> None:
    """mypy agrees with every claim of api.py."""
    verdict = checked(API)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_a_false_claim_is_found(tmp_path: Path) -> None:
    """The control: a wrong call without its mark, and a mark on a right call."""
    planted = tmp_path / "planted.py"
    planted.write_text(
        API.read_text(encoding="utf-8")
        + "\n\ndef planted() -> None:\n    send.enqueue(3)\n    send.enqueue('a')  # type: ignore[arg-type]\n",
        encoding="utf-8",
    )
    verdict = checked(planted)
    assert verdict.returncode == 1
    assert "[arg-type]" in verdict.stdout
    assert "[unused-ignore]" in verdict.stdout
    assert "Found 2 errors" in verdict.stdout

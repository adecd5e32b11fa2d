"""The lock has what pyproject.toml asks for, with hashes, and names no index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {"run": ["build"], "dev": ["build", "dev"]}
PIN = re.compile(
    r"^([a-z0-9-]+)==(\S+)(?: ; [^\\]+)? \\$((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+)$", re.MULTILINE
)


def pins(text: str) -> dict[str, str]:
    """The locked versions; a pin without a hash is none."""
    return {name: version for name, version, _ in PIN.findall(text)}


def stray(text: str) -> list[str]:
    """Lines that are neither a pin, a hash nor a comment: an index, an address, a pin without hashes."""
    return [line for line in PIN.sub("", text).splitlines() if line.strip() and not line.lstrip().startswith("#")]


def asked(groups: list[str]) -> dict[str, str]:
    """Name and least version of everything that pyproject.toml asks for directly."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *(one for group in groups for one in project["dependency-groups"][group]),
    ]
    return dict(one.split(">=") for one in wanted)


def number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize(("lock", "groups"), LOCKS.items())
def test_the_lock_has_what_is_asked_for(lock: str, groups: list[str]) -> None:
    """Run `make lock` when this fails."""
    locked = pins((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8"))
    missing = {n: v for n, v in asked(groups).items() if n not in locked or number(locked[n]) < number(v)}
    assert missing == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_is_hashes_and_nothing_else(lock: str) -> None:
    """No index, no address, no pin that any file would satisfy."""
    assert stray((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")) == []


def test_both_locks_agree() -> None:
    """What users run is what tests run."""
    run, dev = (pins((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")) for lock in LOCKS)
    assert run.items() <= dev.items()


def test_a_loose_line_is_found() -> None:
    """The control: an index and a pin without hashes are strays, and the pin does not count."""
    good = "rich==15.0.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via redrive\n"
    assert stray(good) == []
    assert stray(f"--index-url https://example.org\n{good}") == ["--index-url https://example.org"]
    assert stray(f"{good}click==8.5.1\n") == ["click==8.5.1"]
    assert pins(f"{good}click==8.5.1\n") == {"rich": "15.0.0"}

"""Forks, and the trap of two SQLite libraries: why no connection is inherited, and none is opened beside ours."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "programs" / "forking.py"


def run(verb: str, path: Path) -> dict[str, Any]:
    """What a process of its own found out; a fork of the test's own process would be a second pytest."""
    ran = subprocess.run([sys.executable, PROGRAM, verb, path], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_parent_and_child_both_go_on(path: Path) -> None:
    """Each has its own connections, and what both have added is there."""
    found = run("both", path)
    assert found == {"child": "store is not open, then opened", "ready": 2 * 20 + 1, "integrity": "ok"}


def test_a_child_inherits_no_descriptor_of_the_store(path: Path) -> None:
    """Neither the file, its log and its shared memory, nor the lock, nor the pipes."""
    found = run("descriptors", path)
    assert found["parent"] > 0
    assert found["child"] == []


def test_a_child_that_opens_the_store_takes_locks_of_its_own(path: Path) -> None:
    """And when it has ended, those of its parent are as they were."""
    found = run("locks", path)
    if not Path("/proc/locks").exists():
        assert found["before"] == found["child"] == found["after"] == []
        return
    assert found["before"]
    assert found["child"] == found["before"]
    assert found["after"] == found["before"]


def test_a_fork_during_reads_and_writes_harms_neither(path: Path) -> None:
    """SQLite stands still for the moment of the fork, whatever its threads were doing."""
    found = run("busy", path)
    assert found["children"] == [0] * found["forks"]
    assert found["ready"] == found["added"] + found["forks"]
    assert found["integrity"] == "ok"


def test_a_fork_while_a_store_is_opened_and_closed_harms_neither(path: Path) -> None:
    """The fork waits for either: neither stands still, and no child inherits what is half closed."""
    assert run("closing", path) == {"inherited": [], "lost": 0}


def test_a_naive_child_has_no_lock_at_all(path: Path) -> None:
    """The trap itself: beside an inherited connection SQLite believes that the lock is held, and takes none."""
    found = run("naive", path)
    if Path("/proc/locks").exists():
        assert found["parent"]
        assert found["child"] == []


def test_another_sqlite_that_closes_the_file_drops_our_locks(path: Path) -> None:
    """The trap of two libraries: a rival commits in the middle of our transaction, and ours overwrites it unseen."""
    found = run("two_libraries", path)
    assert found["sqlite3 beside"] == {"rival": "committed", "its row": 0, "locks": "dropped"}
    assert found["apsw alone"] == {"rival": "locked out", "its row": 0, "locks": "held"}


def test_a_second_store_on_the_same_file_keeps_the_locks_of_the_first(path: Path) -> None:
    """Ours never opens and closes the file past SQLite, not even to look what it is."""
    found = run("second_store", path)
    assert found["after"] == found["before"]
    assert found["before"] or not Path("/proc/locks").exists()

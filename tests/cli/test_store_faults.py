"""A store that cannot be worked with: one sentence that names the fault and the next step, and exit code 4."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from redrive.store import JobQuery
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.statements import migrations
from tests.cli.conftest import Answer, Cli

STEPS = len(migrations())

READS = ["jobs list", "jobs show a0", "queues list", "workers list", "events"]
OPENS = [*READS, "enqueue some.task", "migrate", "queues pause email", "worker tasks --burst"]


def refused(answer: Answer, *sentences: str) -> None:
    """One sentence on stderr, nothing on stdout, exit code 4."""
    assert answer.code == 4, answer
    assert answer.out == ""
    faults = [line for line in answer.err.splitlines() if line.startswith("redrive: ")]
    assert len(faults) == len(answer.err.splitlines()) == 1, answer.err
    for sentence in sentences:
        assert sentence in faults[0]


@pytest.mark.parametrize("verb", READS)
def test_a_read_makes_no_store(cli: Cli, folder: Path, verb: str) -> None:
    refused(cli(*verb.split()), f"there is no store at {folder}/redrive.db yet; enqueue a job or start a worker")
    assert list(folder.iterdir()) == []


def test_what_gives_orders_makes_one(cli: Cli, folder: Path) -> None:
    assert cli("queues", "pause", "email").code == 0
    assert stat.S_IMODE((folder / "redrive.db").stat().st_mode) == 0o600
    assert cli("queues", "list", "--json").json[0]["paused"]


@pytest.mark.parametrize("verb", OPENS)
def test_a_file_that_is_no_database(cli: Cli, folder: Path, module: Path, verb: str) -> None:
    (folder / "redrive.db").write_text("dear diary\n" * 200, encoding="utf-8")
    refused(cli(*verb.split()), "not a SQLite database; name another path")


@pytest.mark.parametrize("verb", OPENS)
def test_a_database_of_another_program(cli: Cli, folder: Path, module: Path, verb: str) -> None:
    db = apsw.Connection(str(folder / "redrive.db"))
    db.execute("CREATE TABLE diary (text)").fetchall()
    db.close()
    refused(cli(*verb.split()), "is the database of another program; name another path for the store")


@pytest.mark.parametrize("verb", OPENS)
def test_a_store_of_a_newer_version(cli: Cli, folder: Path, module: Path, verb: str) -> None:
    assert cli("migrate").code == 0
    db = apsw.Connection(str(folder / "redrive.db"))
    db.execute("INSERT INTO migration VALUES (99, '0099_next', 'x', 0)").fetchall()
    db.execute("UPDATE meta SET value = '99' WHERE key IN ('version', 'compatible_from')").fetchall()
    db.close()
    refused(cli(*verb.split()), "has schema version 99, which this version of Redrive cannot read", "upgrade it here")


@pytest.mark.parametrize("verb", [verb for verb in OPENS if verb not in READS])
def test_a_folder_that_is_not_there(cli: Cli, folder: Path, module: Path, verb: str) -> None:
    refused(
        cli("--url", "sqlite:///nowhere/redrive.db", *verb.split()), f"the folder {folder}/nowhere of the store does"
    )


def test_a_url_of_no_engine(cli: Cli) -> None:
    answer = cli("--url", "mysql://ann:hunter2@localhost/jobs", "jobs", "list")
    assert answer.code == 2
    assert "there is no engine for mysql:// URLs here" in answer.err
    assert "hunter2" not in answer.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "'nonsense' is not a URL; write sqlite:///redrive.db or memory://"),
        ("/tmp/redrive.db", "'/tmp/redrive.db' is not a URL; write sqlite:///redrive.db"),
        ("sqlite:", "sqlite: names no file; write sqlite:///redrive.db, or sqlite:////var/lib/redrive.db"),
        ("sqlite:redrive.db", "sqlite:redrive.db names no file"),
        ("sqlite://host/redrive.db", "sqlite://host/redrive.db names no file"),
        ("sqlite:///", "sqlite:/// names no file"),
        ("sqlite:////", "sqlite://// names no file"),
        ("sqlite:///redrive.db?mode=ro", "has an unknown option; leave out ?mode=ro (there is only ?force=1)"),
    ],
)
@pytest.mark.parametrize("verb", ["jobs list", "enqueue some.task {}", "migrate"])
def test_a_url_of_nothing(cli: Cli, folder: Path, url: str, said: str, verb: str) -> None:
    """No part of it is passed over, and no file of a strange name is made."""
    answer = cli(*verb.split(), REDRIVE_URL=url)
    assert answer.code == 2
    assert said in answer.err
    assert list(folder.iterdir()) == []


# --- a file that cannot be written ------------------------------------------------------------------------------------

NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user who owns nothing; root would be allowed everything."""
    root = os.geteuid() == 0
    if root:
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
    yield
    if root:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


@pytest.fixture
def locked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store whose file and folder may be read by all and written by nobody."""
    with tempfile.TemporaryDirectory() as name:  # the folders of pytest itself are closed to others
        folder = Path(name).resolve()
        monkeypatch.chdir(folder)
        for verb in ("migrate", "jobs list", "enqueue some.task", "queues pause email"):  # and imports what it needs
            assert cli(*verb.split()).code == 0
        path = folder / "redrive.db"
        path.chmod(0o444)
        folder.chmod(0o555)
        yield path
        folder.chmod(0o755)


@pytest.mark.parametrize("verb", ["jobs list", "enqueue some.task", "queues pause email", "migrate"])
def test_a_store_that_cannot_be_written(cli: Cli, locked: Path, verb: str) -> None:
    with without_rights():
        answer = cli(*verb.split())
    refused(answer, str(locked), "cannot be written; check who owns the file and its folder")


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def little_room() -> Iterator[Callable[[int], None]]:
    """Files that cannot grow beyond so many pages, as if their disk were full; SQLite itself refuses."""
    pages = 0

    def leave(most: int) -> None:
        nonlocal pages
        pages = most

    def limit(db: apsw.Connection) -> None:
        if pages:
            db.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    apsw.connection_hooks.append(limit)
    yield leave
    apsw.connection_hooks.remove(limit)


def test_a_full_disk(cli: Cli, little_room: Callable[[int], None]) -> None:
    """Nothing is said to be enqueued that is not, and with room again it goes on."""
    payload = f'"{"x" * 500_000}"'
    assert cli("migrate").code == 0
    little_room(80)
    more = f"{payload}\n{payload}\n"
    refused(cli("enqueue", "some.task", "-", input=payload), "its disk is full; make room, then go on")
    answer = cli("enqueue", "some.task", "--from", "-", input=more)
    assert answer.code == 4
    assert "enqueued 0 jobs of some.task" in answer.err
    assert cli("jobs", "list", "--json").json == []
    little_room(0)
    assert cli("enqueue", "some.task", "-", input=payload).code == 0
    assert len(cli("jobs", "list", "--json").json) == 1


# --- two at once ------------------------------------------------------------------------------------------------------


def test_several_processes_migrate_at_the_same_time(folder: Path) -> None:
    """All end well, each step is applied once, and each is claimed by exactly one of them."""
    command = [sys.executable, "-m", "redrive", "migrate", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert SqliteStore(folder / "redrive.db").pending() == []
    db = apsw.Connection(str(folder / "redrive.db"))
    assert [row[0] for row in db.execute("SELECT number FROM migration")] == [number for number, _, _ in migrations()]
    db.close()


def test_what_is_enqueued_beside_a_worker_is_kept(cli: Cli, folder: Path, module: Path) -> None:
    """The control for this file: a store that is well is worked with."""
    assert cli("--app", "tasks", "enqueue", "echo", '{"text": "a"}').code == 0
    assert cli("worker", "tasks", "--burst").code == 0

    async def states() -> list[str]:
        store = SqliteStore(folder / "redrive.db")
        await store.open()
        rows = await store.jobs.find(JobQuery())
        await store.close()
        return [row.state for row in rows]

    assert asyncio.run(states()) == ["done"]

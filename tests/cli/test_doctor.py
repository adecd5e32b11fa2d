"""`redrive doctor`: each thing it looks at is seen when it is wrong, and it touches nothing."""

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import Any

import apsw
import pytest

from redrive.clock import SECOND, SystemClock, boot_id
from redrive.retention import Notice, Removal
from redrive.store import Gate, Store
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.statements import migrations
from redrive.testing.factories import a_worker, added, claimed
from tests.cli.conftest import Answer, Cli

DAY = 24 * 3_600 * SECOND
MIGRATIONS = [name for _, name, _ in migrations()]


def checks(answer: Answer) -> dict[str, Any]:
    """What was looked at by name."""
    return {row["check"]: row for row in answer.json}


def wrong(answer: Answer) -> list[str]:
    return [row["check"] for row in answer.json if not row["ok"]]


class Folder:
    """The store of the folder, for the test itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def do(self, *work: Any) -> None:
        async def each() -> None:
            store = SqliteStore(self.path)
            await store.open()
            try:
                for one in work:
                    await one(store)
            finally:
                await store.close()

        asyncio.run(each())


@pytest.fixture
def store(folder: Path) -> Folder:
    return Folder(folder / "redrive.db")


def alive(**changes: Any) -> Any:
    """A worker of this host that beats now."""

    async def beat(store: Store) -> None:
        now = SystemClock().now()
        row = a_worker(
            host=socket.gethostname(), boot=boot_id(), pid=os.getpid(), started_at=now, beat_at=now, **changes
        )
        await store.workers.beat(row, 600 * SECOND)

    return beat


def test_all_is_well(cli: Cli, store: Folder) -> None:
    store.do(alive(slots=3))
    answer = cli("doctor")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert all(line.startswith("✓ ") for line in lines)
    assert f"✓ store: sqlite:///{store.path}" in lines
    assert "✓ workers: 1 with 3 slots, 0 of them busy; 0 jobs ready or running" in lines
    names = {line.removeprefix("✓ ").partition(":")[0] for line in lines}
    assert {"engine", "file system", "permissions", "clock", "disk space", "leases", "schema", "integrity"} <= names


def test_a_store_that_is_not_there_yet_is_no_fault(cli: Cli, folder: Path) -> None:
    answer = cli("doctor")
    assert answer.code == 0
    assert f"✓ store: {folder}/redrive.db does not exist yet; it is made at first use" in answer.out
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there(cli: Cli, folder: Path) -> None:
    answer = cli("--url", "sqlite:///nowhere/redrive.db", "doctor")
    assert answer.code == 1
    assert (
        f"✗ folder: {folder}/nowhere does not exist\n  make the folder, let the user who runs this write" in answer.out
    )
    assert answer.err == "redrive: 1 of 5 checks found something wrong; what to do stands below it\n"


def test_a_file_that_others_may_read(cli: Cli, store: Folder) -> None:
    store.do(alive())
    store.path.chmod(0o644)
    answer = cli("doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["permissions"])
    assert checks(answer)["permissions"]["advice"] == f"payloads may be private: chmod 600 {store.path}"


def test_jobs_and_nobody_to_run_them(cli: Cli, store: Folder) -> None:
    store.do(added)
    answer = cli("doctor")
    assert answer.code == 1
    assert "✗ workers: none runs; 1 job ready or running\n  start one with `redrive worker`" in answer.out


def test_a_queue_that_nobody_serves(cli: Cli, store: Folder) -> None:
    async def add(store: Store) -> None:
        await added(store, queue="email")

    store.do(add, alive(queues=("default",)))
    answer = cli("doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["queue email"])
    assert "start a worker with -q email" in checks(answer)["queue email"]["advice"]


def test_a_paused_queue_is_told_and_no_fault(cli: Cli, store: Folder) -> None:
    async def pause(store: Store) -> None:
        await added(store, queue="email")
        await store.jobs.gate(Gate(kind="queue", key="email", state="closed", reason="smtp is down"), "ann")

    store.do(pause, alive())
    answer = cli("doctor")
    assert answer.code == 0
    assert "✓ queue email: paused by ann (smtp is down); 1 job ready" in answer.out


def test_leases_that_nobody_takes_over(cli: Cli, store: Folder) -> None:
    async def leave(store: Store) -> None:
        await added(store)
        await claimed(store)

    store.do(alive(), leave)
    db = apsw.Connection(str(store.path))
    db.execute("UPDATE job SET lease_until = 1").fetchall()
    db.close()
    answer = cli("doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["leases"])
    assert checks(answer)["leases"]["found"] == "1 lease has ended and nobody has taken it over"


def test_a_worker_that_is_silent(cli: Cli, store: Folder) -> None:
    async def leave(store: Store) -> None:
        job = await added(store)
        await claimed(store)
        row = a_worker(host=socket.gethostname(), boot=boot_id(), running=(job.id,))
        await store.workers.beat(row, 600 * SECOND)

    store.do(leave)
    db = apsw.Connection(str(store.path))
    db.execute("UPDATE worker SET beat_at = beat_at - 60000000").fetchall()
    db.close()
    answer = cli("doctor", "--json")
    assert "workers" in wrong(answer)
    assert re.search(r"silent and still holding jobs: w1 \(1m(\d+s)? ago\)", checks(answer)["workers"]["found"])


def test_threads_that_are_stuck(cli: Cli, store: Folder) -> None:
    store.do(alive(stuck=2))
    answer = cli("doctor", "--json")
    assert wrong(answer) == ["workers"]
    assert "isolation='process'" in checks(answer)["workers"]["advice"]


def test_pending_migrations_are_not_applied(cli: Cli, store: Folder) -> None:
    """The doctor looks; it does not operate."""
    db = apsw.Connection(str(store.path))
    db.close()
    store.path.touch(0o600)
    answer = cli("doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["migrations"])
    assert checks(answer)["migrations"]["found"] == f"{len(MIGRATIONS)} pending: {', '.join(MIGRATIONS)}"
    assert "redrive migrate" in checks(answer)["migrations"]["advice"]
    assert store.path.read_bytes() == b""


def test_a_folder_in_the_place_of_the_store(cli: Cli, folder: Path) -> None:
    """It is called what it is, not a broken disk."""
    (folder / "redrive.db").mkdir()
    answer = cli("doctor")
    assert answer.code == 4
    assert f"✗ store: {folder}/redrive.db is a folder; name a file in it, such as" in answer.out


def test_a_store_that_cannot_be_opened(cli: Cli, store: Folder) -> None:
    store.path.write_text("dear diary\n" * 200, encoding="utf-8")
    answer = cli("doctor")
    assert answer.code == 4
    assert "✗ store: " in answer.out
    assert "not a SQLite database" in answer.out
    assert "✓ settings" in answer.out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[worker]\nlease = 'soon'\n", "worker.lease cannot be 'soon'"),
        ("[retry]\nmax_attemps = 3\n", "[retry]: unknown key 'max_attemps'; did you mean max_attempts?"),
        ("[retry.slow]\nbackoff = 'slow'\n", "backoff 'slow' is none of"),
        ("[[reasons]]\nreason = 'network'\npattern = 'x'\n", "number 1: unknown key 'pattern'"),
    ],
)
def test_settings_that_are_wrong(cli: Cli, folder: Path, text: str, sentence: str) -> None:
    (folder / "redrive.toml").write_text(text, encoding="utf-8")
    answer = cli("doctor")
    assert answer.code == 1
    assert "✗ settings: " in answer.out
    assert sentence in answer.out


APP = """
from redrive import BURY, Redrive, Retry, delays, exponential, fixed

app = Redrive()


@app.task(name="a.default")
async def a() -> None: ...


@app.task(name="b.patient", retry=Retry(5, backoff=fixed("1h"), jitter="none"))
async def b() -> None: ...


@app.task(name="c.once", retry=Retry(1))
async def c() -> None: ...


@app.task(name="d.own", retry=Retry(4, backoff=lambda attempt: attempt))
async def d() -> None: ...
"""


def test_how_long_an_outage_each_policy_rides_out(cli: Cli, folder: Path) -> None:
    (folder / "shopapp.py").write_text(APP, encoding="utf-8")
    rows = checks(cli("--app", "shopapp", "doctor", "--json"))
    assert rows["app"]["found"] == "4 tasks"
    assert rows["policy of b.patient"]["found"] == "5 attempts; rides out an outage of about 4h"
    assert rows["policy of c.once"]["found"].startswith("one attempt, no retry")
    assert "a function decides the delays" in rows["policy of d.own"]["found"]
    assert "3 attempts; rides out an outage of about" in rows["policy of a.default"]["found"]
    assert rows["policy [retry]"]["found"] == rows["policy of a.default"]["found"]


def test_an_app_without_tasks_or_none_at_all(cli: Cli, folder: Path) -> None:
    (folder / "emptyapp.py").write_text("from redrive import Redrive\napp = Redrive()\n", encoding="utf-8")
    answer = cli("--app", "emptyapp", "doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["app"])
    answer = cli("--app", "nix", "doctor", "--json")
    assert (answer.code, wrong(answer)) == (1, ["app"])
    assert "there is no module 'nix'" in checks(answer)["app"]["found"]


def test_memory_is_said_to_be_what_it_is(cli: Cli) -> None:
    answer = cli("--url", "memory://", "doctor")
    assert answer.code == 1
    assert "✗ durability: jobs are kept in the memory of this process only" in answer.out


def test_what_is_removed_unasked_is_said(cli: Cli, store: Folder, folder: Path) -> None:
    """A policy that nobody has announced yet, and one that was, with the day from which it acts."""
    store.do(alive())
    (folder / "redrive.toml").write_text('[retention.queues.email]\nopen = "90d"\n', encoding="utf-8")
    said = "open letters of queue email are to go 90d after they failed; a worker announces that first, and removes"
    assert f"✓ retention: {said} none before 7d later" in cli("doctor").out
    notice = Notice(removal=Removal(queue="email", after=90 * DAY), announced_at=0, acts_at=7 * DAY, letters=12)

    async def announced(opened: Store) -> None:
        await opened.letters.announce([notice], "retention")

    store.do(announced)
    said = "open letters of queue email go 90d after they failed, 12 by now, from 1970-01-08T00:00:00.000Z on"
    assert checks(cli("doctor", "--json"))["retention"]["found"] == said
    (folder / "redrive.toml").unlink()
    assert "retention" not in checks(cli("doctor", "--json"))

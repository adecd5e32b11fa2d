"""`redrive workers` and `redrive events`: who runs jobs, and what happened."""

import getpass
import socket
from typing import Any

import pytest

from redrive.clock import SECOND
from redrive.store import Buried, Released, Retried
from redrive.testing.factories import a_failure, a_worker, added, claimed, settled
from tests.cli.conftest import Shop

ME = f"{getpass.getuser()}@{socket.gethostname()}"

LIST = """\
WORKER        STATE     BUSY  QUEUES          TASKS  RELEASE  UP  SEEN
web-1-4711-a  running   1/28  all                 2  2.4      2m  30s ago
web-2-4711-b  draining   0/2  email, default      1           1m  now
"""


async def two_workers(shop: Shop) -> None:
    """One with a job that runs, one that drains."""
    first = a_worker(
        id="web-1-4711-a",
        started_at=shop.clock.now(),
        tasks=("email.send", "thumbnail.make"),
        slots=28,
        release="2.4",
        running=("01950000-0000-7000-8000-0000000000a0",),
    )
    shop.clock.advance(60)
    second = a_worker(
        id="web-2-4711-b",
        started_at=shop.clock.now(),
        tasks=("email.send",),
        queues=("email", "default"),
        slots=2,
        state="draining",
    )
    shop.clock.advance(30)
    await shop.store.workers.beat(first, 600 * SECOND)
    shop.clock.advance(30)
    await shop.store.workers.beat(second, 600 * SECOND)


def test_the_list_of_workers(shop: Shop) -> None:
    shop.do(two_workers(shop))
    answer = shop.cli("workers", "list")
    assert (answer.code, answer.out, answer.err) == (0, LIST, "")


def test_the_list_of_workers_as_json(shop: Shop) -> None:
    shop.do(two_workers(shop))
    first, second = shop.cli("workers", "list", "--json").json
    assert (first["id"], first["state"], first["running"]) == (
        "web-1-4711-a",
        "running",
        ["01950000-0000-7000-8000-0000000000a0"],
    )
    assert (second["queues"], second["started_at"]) == (["email", "default"], "2026-01-01T00:01:00.000Z")


def test_no_worker_is_no_error(shop: Shop) -> None:
    answer = shop.cli("workers", "list")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "redrive: no worker runs on memory://shop; start one with `redrive worker`\n"


def order(shop: Shop) -> dict[str, Any]:
    return {worker.id: worker.order for worker in shop.do(shop.store.workers.find())}


@pytest.mark.parametrize("typed", ["web-1-4711-a", "web-1", "-a"])
def test_a_worker_is_told_to_drain(shop: Shop, typed: str) -> None:
    shop.do(two_workers(shop))
    answer = shop.cli("workers", "drain", "--", typed)
    assert answer.code == 0
    assert answer.err == "redrive: worker web-1-4711-a was told to drain; 1 job still running there\n"
    assert order(shop) == {"web-1-4711-a": "drain", "web-2-4711-b": None}
    assert shop.cli("workers", "list", "--json").json[0]["state"] == "draining"


def test_all_workers_are_told_only_with_yes(shop: Shop) -> None:
    shop.do(two_workers(shop))
    answer = shop.cli("workers", "drain", "--all")
    assert answer.code == 2
    assert "2 workers on memory://shop; nothing was changed: add --yes" in answer.err
    assert set(order(shop).values()) == {None}
    assert len(shop.cli("workers", "drain", "--all", "--yes", "--json").json) == 2
    assert set(order(shop).values()) == {"drain"}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["web"], 2, "several workers have 'web' in their id: web-1-4711-a, web-2-4711-b; type more of it"),
        (["db"], 5, "there is no worker 'db'; there are: web-1-4711-a, web-2-4711-b"),
        ([], 2, "name the workers to drain, or all of them with --all"),
        (["web-1", "--all"], 2, "name the workers to drain, or all of them with --all"),
    ],
)
def test_whom_to_drain_must_be_clear(shop: Shop, words: list[str], code: int, sentence: str) -> None:
    shop.do(two_workers(shop))
    answer = shop.cli("workers", "drain", *words)
    assert answer.code == code
    assert sentence in answer.err
    assert set(order(shop).values()) == {None}


# --- events -----------------------------------------------------------------------------------------------------------

IDS = [f"01950000-0000-7000-8000-0000000000{n:02x}" for n in range(0xA0, 0xB0)]


async def some_events(shop: Shop) -> None:
    """A job that failed twice, and one that was given back."""
    await added(shop.store, id=IDS[0])
    await added(shop.store, id=IDS[1])
    [job] = await claimed(shop.store)
    await settled(shop.store, Retried(job=job, at=shop.clock.now() + 30 * SECOND, failure=a_failure()))
    [other] = await claimed(shop.store)
    await settled(shop.store, Released(job=other, at=shop.clock.now() + 900 * SECOND, why="its worker stops"))
    shop.clock.advance(60)
    [job] = await claimed(shop.store)
    last = a_failure(message="\x1b[31mno such template\n\u202egnp.exe password: hunter2")
    await settled(shop.store, Buried(job=job, failure=last, why="not retryable (validation)"))


def test_events_come_newest_last(shop: Shop) -> None:
    shop.do(some_events(shop))
    rows = shop.cli("events", "--json").json
    assert [(row["event"], row["job"]) for row in rows] == [
        ("job.retried", IDS[0]),
        ("job.released", IDS[1]),
        ("job.buried", IDS[0]),
    ]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)


def test_an_event_is_one_safe_line(shop: Shop) -> None:
    shop.do(some_events(shop))
    lines = shop.cli("events").out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("2026-01-01T00:00:00.000Z job.retried 000000a0 email.send (attempt 1) network: ")
    assert "no such template" in lines[2]
    assert not set("\x1b\u202e") & set("".join(lines))
    assert "hunter2" not in "".join(lines)


def test_json_hides_nothing_but_secrets_and_moves_no_terminal(shop: Shop) -> None:
    """What a terminal would obey is written as an escape: the value is the same."""
    shop.do(some_events(shop))
    answer = shop.cli("events", "--json")
    assert not set("\x1b\u202e\x9b") & set(answer.out)
    assert answer.json[2]["text"].startswith("\x1b[31mno such template\n\u202egnp.exe")
    assert "hunter2" not in answer.out


def test_the_last_so_many(shop: Shop) -> None:
    shop.do(some_events(shop))
    assert [row["event"] for row in shop.cli("events", "--json", "--limit", "1").json] == ["job.buried"]
    assert shop.cli("events", "--json", "--limit", "0").json == []


def test_the_events_of_one_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last ones, however many pages they fill."""
    monkeypatch.setattr("redrive.cli.events.PAGE", 1)
    shop.do(some_events(shop))
    assert [row["event"] for row in shop.cli("events", "--job", "a0", "--json").json] == ["job.retried", "job.buried"]
    assert [row["event"] for row in shop.cli("events", "--job", "a0", "--limit", "1", "--json").json] == ["job.buried"]
    assert shop.cli("events", "--job", "ff").code == 5


def test_an_act_of_a_person_names_them(shop: Shop) -> None:
    shop.cli("queues", "pause", "email", "--reason", "smtp is down")
    [line] = shop.cli("events").out.splitlines()
    assert "gate.set email smtp is down: " in line
    assert line.endswith(f"by {ME}")


def test_no_event_is_no_error(shop: Shop) -> None:
    answer = shop.cli("events")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "redrive: nothing has happened off the happy path in memory://shop\n"

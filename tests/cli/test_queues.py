"""`redrive queues`: the list, gates, and the verbs that touch many jobs."""

import getpass
import socket

import msgspec
import pytest

from redrive.clock import SECOND
from redrive.errors import QueueFull
from redrive.store import Gate
from redrive.testing.factories import a_worker, added, added_many, buried, claimed, depth_of
from tests.cli.conftest import Cli, Shop

ME = f"{getpass.getuser()}@{socket.gethostname()}"

LIST = """\
QUEUE    READY  LATER  RUNNING  DEAD  OLDEST  WORKERS  STATE
bulk         0      0        0     0                2  open
default      1      0        1     1      2m        2  open
email        2      1        0     0      2m        1  paused, opens in 8m: smt…
"""


async def some_queues(shop: Shop) -> None:
    """A queue that works, one that is paused, and one that only a worker has named."""
    store = shop.store
    await buried(store)
    await added(store)
    await claimed(store)
    await added(store)
    await added_many(store, 2, queue="email")
    await added(store, queue="email", due_at=shop.clock.now() + 600 * SECOND)
    until = shop.clock.now() + 600 * SECOND
    await store.jobs.gate(
        Gate(kind="queue", key="email", state="closed", reason="smtp is down", until=until, depth_limit=500), "ann"
    )
    await store.workers.beat(a_worker(id="w1"), 600 * SECOND)
    await store.workers.beat(a_worker(id="w2", queues=("bulk", "default")), 600 * SECOND)
    shop.clock.advance(130)


def gate_of(shop: Shop, queue: str) -> Gate:
    [gate] = [gate for gate in shop.do(shop.store.jobs.gates()) if (gate.kind, gate.key) == ("queue", queue)]
    return gate


def test_the_list_shows_every_queue_that_somebody_named(shop: Shop) -> None:
    shop.do(some_queues(shop))
    answer = shop.cli("queues", "list")
    assert (answer.code, answer.out, answer.err) == (0, LIST, "")
    assert max(map(len, answer.out.splitlines())) == 80
    wide = shop.cli("queues", "list", COLUMNS="120").out
    assert wide.splitlines()[-1].endswith("paused, opens in 8m: smtp is down; limit 500 jobs")


def test_the_list_as_json(shop: Shop) -> None:
    shop.do(some_queues(shop))
    rows = {row["queue"]: row for row in shop.cli("queues", "list", "--json").json}
    assert list(rows) == ["bulk", "default", "email"]
    assert rows["email"] == {
        "queue": "email",
        "ready": 2,
        "scheduled": 1,
        "leased": 0,
        "dead": 0,
        "oldest_age": 130.0,
        "workers": 1,
        "paused": True,
        "paused_until": "2026-01-01T00:10:00.000Z",
        "paused_by": "ann",
        "reason": "smtp is down",
        "depth_limit": 500,
    }


def test_no_queue_is_no_error(shop: Shop) -> None:
    answer = shop.cli("queues", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no queues yet in memory://shop" in answer.err


# --- gates ------------------------------------------------------------------------------------------------------------


def test_a_pause_holds_jobs_back_and_resume_lets_them_go(shop: Shop) -> None:
    shop.do(added(shop.store, queue="email"))
    assert shop.cli("queues", "pause", "email", "bulk", "--reason", "smtp is down").code == 0
    gate = gate_of(shop, "email")
    assert (gate.state, gate.reason, gate.until, gate.actor) == ("closed", "smtp is down", None, ME)
    assert shop.do(claimed(shop.store, 0)) == []
    answer = shop.cli("queues", "resume", "email")
    assert answer.err == "redrive: queue email is open\n"
    gate = gate_of(shop, "email")
    assert (gate.state, gate.reason) == ("open", None)
    assert len(shop.do(claimed(shop.store))) == 1


@pytest.mark.parametrize(
    ("options", "until"),
    [
        (["--for", "10m"], "2026-01-01T00:10:00.000Z"),
        (["--until", "2026-01-02T12:00:00Z"], "2026-01-02T12:00:00.000Z"),
        (["--until", "2026-01-02T12:00+02:00"], "2026-01-02T10:00:00.000Z"),
    ],
)
def test_a_pause_can_end_by_itself(shop: Shop, options: list[str], until: str) -> None:
    [row] = shop.cli("queues", "pause", "email", *options, "--json").json
    assert (row["paused"], row["paused_until"]) == (True, until)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--for", "soon"], "--for: 'soon' is not a duration"),
        (["--until", "noon"], "--until 'noon' is not a time; write 2026-01-31T14:30"),
        (["--until", "2025-01-01"], "has passed; give a time to come"),
        (["--until", "2027-01-01", "--for", "1m"], "--until and --for exclude each other"),
    ],
)
def test_an_end_that_is_none_is_refused(shop: Shop, options: list[str], sentence: str) -> None:
    answer = shop.cli("queues", "pause", "email", *options)
    assert answer.code == 2
    assert sentence in answer.err
    assert shop.do(shop.store.jobs.gates()) == []


def test_a_pause_of_a_queue_that_nobody_uses_is_remarked_upon(shop: Shop) -> None:
    """It may be one to come, or a slip of the finger."""
    assert "nobody has used a queue emial so far" in shop.cli("queues", "pause", "emial").err
    shop.do(added(shop.store, queue="email"))
    assert "nobody" not in shop.cli("queues", "pause", "email").err


def test_a_limit_and_a_pause_leave_each_other_alone(shop: Shop) -> None:
    assert shop.cli("queues", "limit", "email", "1").code == 0
    assert shop.cli("queues", "pause", "email").code == 0
    gate = gate_of(shop, "email")
    assert (gate.state, gate.depth_limit) == ("closed", 1)
    assert shop.cli("queues", "resume", "email").code == 0
    assert gate_of(shop, "email").depth_limit == 1


def test_a_limit_refuses_what_is_too_much(shop: Shop) -> None:
    assert shop.cli("queues", "limit", "email", "1").err.startswith("redrive: queue email is open; limit 1 job\n")
    assert shop.cli("enqueue", "email.send", '{"to": "a@b.c"}').code == 0
    answer = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}')
    assert answer.code == QueueFull.exit_code == 1
    assert "queue 'email' did not accept the job: queue email is at its depth limit of 1" in answer.err
    assert shop.cli("queues", "limit", "email", "none").code == 0
    assert shop.cli("enqueue", "email.send", '{"to": "a@b.c"}').code == 0


@pytest.mark.parametrize("jobs", ["0", "many", "-1", "1.5"])
def test_a_limit_is_a_number_or_none(shop: Shop, jobs: str) -> None:
    assert shop.cli("queues", "limit", "email", "--", jobs).code == 2


# --- in bulk ----------------------------------------------------------------------------------------------------------


def test_purge_discards_what_waits_and_nothing_else(shop: Shop) -> None:
    shop.do(added(shop.store), claimed(shop.store), added_many(shop.store, 5), added_many(shop.store, 2, queue="email"))
    answer = shop.cli("queues", "purge", "default", "--yes")
    assert (answer.code, answer.err) == (0, "redrive: discarded 5 jobs of queue default\n")
    depth = shop.do(depth_of(shop.store))
    assert (depth.ready, depth.leased) == (0, 1)
    assert shop.do(depth_of(shop.store, "email")).ready == 2


def test_move_moves_what_waits(shop: Shop) -> None:
    later = shop.clock.now() + 60 * SECOND
    shop.do(added_many(shop.store, 3), added(shop.store, due_at=later))
    assert shop.cli("queues", "move", "default", "slow", "--yes", "--json").json == [{"queue": "default", "jobs": 4}]
    depth = shop.do(depth_of(shop.store, "slow"))
    assert (depth.ready, depth.scheduled) == (3, 1)


@pytest.mark.parametrize("words", [["purge", "default"], ["move", "default", "slow"]])
def test_many_jobs_go_in_chunks(shop: Shop, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """As many transactions as it takes, and all of the jobs."""
    monkeypatch.setattr("redrive.cli.queues.CHUNK", 2)
    shop.do(added_many(shop.store, 5))
    assert "ed 5 jobs of queue default" in shop.cli("queues", *words, "-y").err
    assert shop.do(depth_of(shop.store)).ready == 0


@pytest.mark.parametrize("words", [["purge", "default"], ["move", "default", "slow"]])
def test_without_a_terminal_only_yes_is_an_answer(shop: Shop, words: list[str]) -> None:
    shop.do(added_many(shop.store, 3))
    answer = shop.cli("queues", *words, input="y\n")
    assert answer.code == 2
    assert "queue default of memory://shop has 3 jobs to " in answer.err
    assert "nothing was changed: add --yes" in answer.err
    assert shop.do(depth_of(shop.store)).ready == 3


@pytest.mark.parametrize("words", [["purge", "nix"], ["move", "nix", "slow"]])
def test_a_queue_that_is_not_there(shop: Shop, words: list[str]) -> None:
    answer = shop.cli("queues", *words, "--yes")
    assert (answer.code, answer.out) == (5, "")
    assert "there is no queue nix in memory://shop" in answer.err


def test_an_empty_queue_is_no_error(shop: Shop) -> None:
    shop.do(added(shop.store), claimed(shop.store))
    answer = shop.cli("queues", "purge", "default")
    assert (answer.code, answer.err) == (0, "redrive: discarded 0 jobs of queue default\n")


def test_a_queue_is_not_moved_to_itself(cli: Cli) -> None:
    assert cli("queues", "move", "a", "a", "--yes").code == 2


def test_the_journal_knows_who_did_it(shop: Shop) -> None:
    shop.do(added_many(shop.store, 2))
    shop.cli("queues", "move", "default", "slow", "--yes")
    entries = msgspec.to_builtins(shop.do(shop.store.journal.latest(10)))
    assert [entry["actor"] for entry in entries if entry["event"] == "queue.moved" and "2 jobs" in entry["text"]] == [
        ME
    ]

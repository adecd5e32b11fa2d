"""`redrive jobs`: the list, the page of one job with why it does not run, and cancelling."""

import msgspec
import pytest

from redrive.clock import SECOND
from redrive.results import kept
from redrive.store import Buried, Discarded, Done, Gate, Orphan, Released, Retried
from redrive.testing.factories import a_failure, a_job, a_worker, added, claimed, settled
from tests.cli.conftest import Cli, Shop

IDS = [f"01950000-0000-7000-8000-0000000000{n:02x}" for n in range(0xA0, 0xB0)]

LIST = """\
ID        STATE      TASK            QUEUE    TRIES  WHEN    ERROR
000000a4  scheduled  thumbnail.make  default      0  in 5m
000000a3  leased     thumbnail.make  default      0
000000a2  done       thumbnail.make  default      1  1m ago
000000a1  dead       thumbnail.make  default      1  3m ago  connection refused
000000a0  ready      email.send      email        0  4m ago
"""


async def some_of_each(shop: Shop) -> None:
    """One job in each state that a list shows."""
    store, now = shop.store, shop.clock.now
    await added(store, id=IDS[0], queue="email")
    shop.clock.advance(30)
    await added(store, id=IDS[1], task="thumbnail.make", priority=9)
    [job] = await claimed(store)
    await settled(store, Buried(job=job, failure=a_failure(at=now())))
    shop.clock.advance(120)
    await added(store, id=IDS[2], task="thumbnail.make", priority=9)
    [job] = await claimed(store)
    await settled(store, Done(job=job, result=b'{"width":200}', duration=1_200_000))
    shop.clock.advance(60)
    await added(store, id=IDS[3], task="thumbnail.make", priority=9)
    await claimed(store)
    await added(store, id=IDS[4], task="thumbnail.make", due_at=now() + 300 * SECOND)


def why(shop: Shop, id: str = IDS[0]) -> str:
    """The sentences of `jobs show` about why a job is not running."""
    answer = shop.cli("jobs", "show", id, "--json")
    assert answer.code == 0, answer.err
    return "; ".join(answer.json[0]["why"])


# --- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_the_newest_first(shop: Shop) -> None:
    shop.do(some_of_each(shop))
    answer = shop.cli("jobs", "list")
    assert (answer.code, answer.out, answer.err) == (0, LIST, "")


def test_the_list_as_json_has_whole_ids_and_times(shop: Shop) -> None:
    shop.do(some_of_each(shop))
    rows = shop.cli("jobs", "list", "--json").json
    assert [row["id"] for row in rows] == IDS[4::-1]
    assert rows[3] == {
        "id": IDS[1],
        "state": "dead",
        "task": "thumbnail.make",
        "queue": "default",
        "priority": 9,
        "attempts": 1,
        "epoch": 1,
        "at": "2026-01-01T00:00:30.000Z",
        "error": "connection refused",
    }


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--state", "ready"], [0]),
        (["--state", "ready", "--state", "dead"], [1, 0]),
        (["--queue", "email"], [0]),
        (["--task", "thumbnail.make"], [4, 3, 2, 1]),
        (["--task", "thumbnail.make", "--state", "leased"], [3]),
        (["--limit", "2"], [4, 3]),
        (["--queue", "nobody"], []),
    ],
)
def test_the_list_can_be_narrowed(shop: Shop, options: list[str], numbers: list[int]) -> None:
    shop.do(some_of_each(shop))
    assert [row["id"] for row in shop.cli("jobs", "list", "--json", *options).json] == [IDS[n] for n in numbers]


def test_a_list_that_is_cut_says_so(shop: Shop) -> None:
    shop.do(some_of_each(shop))
    assert "these are the newest 2; --limit shows more" in shop.cli("jobs", "list", "--limit", "2").err
    assert "there are no such jobs in memory://shop" in shop.cli("jobs", "list", "--queue", "nobody").err


def test_a_long_list_comes_in_pages(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job once and in order, whatever the page size is."""
    monkeypatch.setattr("redrive.cli.jobs.PAGE", 3)
    shop.do(shop.store.jobs.add([a_job(id=id) for id in IDS[:8]]))
    assert [row["id"] for row in shop.cli("jobs", "list", "--json").json] == IDS[7::-1]
    assert [row["id"] for row in shop.cli("jobs", "list", "--json", "--limit", "7").json] == IDS[7:0:-1]


def test_a_long_error_is_cut_and_an_id_is_not(shop: Shop) -> None:
    """The width holds with wide characters, escape sequences and secrets in what is shown."""
    failure = a_failure(message="\x1b[2J拒否されました password=hunter2 " + "x" * 500)
    shop.do(
        added(shop.store, id=IDS[0], task="a.module.with.a.long.path.and.a_task", queue="a-queue-with-a-long-name"),
        _bury(shop, msgspec.structs.replace(failure)),
    )
    head, line = shop.cli("jobs", "list").out.splitlines()
    assert line.startswith("000000a0  dead ")
    assert len(head) <= 80
    assert sum(2 if character in "拒否されました" else 1 for character in line) <= 80
    assert "hunter2" not in line
    assert "\x1b" not in line
    assert line.endswith("…")


def test_a_list_that_is_piped_is_whole(shop: Shop) -> None:
    """What looks into a table, such as grep, must find what a terminal would have cut."""
    said = "no answer from " + "x" * 200
    shop.do(added(shop.store, id=IDS[0]), _bury(shop, a_failure(message=said)))
    assert shop.cli("jobs", "list", COLUMNS="").out.splitlines()[1].endswith(said)


async def _bury(shop: Shop, failure: object) -> None:
    [job] = await claimed(shop.store)
    await settled(shop.store, Buried(job=job, failure=failure))  # type: ignore[arg-type]


# --- one job ----------------------------------------------------------------------------------------------------------

PAGE = """\
job 000000a0 email.send  dead
  id        01950000-0000-7000-8000-0000000000a0
  queue     email, priority 5
  attempts  2 of 3 failed, 2 starts
  created   2026-01-01T00:00:00.000Z (1m ago)
  ended     2026-01-01T00:01:00.000Z (now)
  key       welcome-7
  headers   authorization: ***
            tenant: 7
  why       it was given up on (validation); it stays dead until somebody brings
            it back
  payload   {"to":"a@b.c","password":"***"}

  2 failures, the last one at the end
    attempt 1, 1m ago, network: ConnectionError: connection refused
      in 0ms by w1 on host-1
    attempt 2, now, validation: ValueError: no template named 'bye' and no other
    template that could be sent in its place
      in 1.5s by w1 on host-1

    Traceback (most recent call last):
      File "tasks.py", line 7, in send
    ValueError: no template
"""


async def died(shop: Shop) -> None:
    """A job with a history."""
    headers = msgspec.json.encode({"authorization": "Bearer abcdefgh", "tenant": "7"})
    await added(
        shop.store,
        id=IDS[0],
        queue="email",
        key="welcome-7",
        headers=headers,
        payload=b'{"to":"a@b.c","password":"hunter2"}',
    )
    [job] = await claimed(shop.store)
    now = shop.clock.now()
    first = a_failure(at=now, attempt=1, traceback=None)
    await settled(shop.store, Retried(job=job, at=now, failure=first))
    shop.clock.advance(60)
    [job] = await claimed(shop.store)
    last = a_failure(
        at=shop.clock.now(),
        attempt=2,
        duration=1_500_000,
        reason="validation",
        type="builtins.ValueError",
        message="no template named 'bye' and no other template that could be sent in its place",
        traceback='Traceback (most recent call last):\n  File "tasks.py", line 7, in send\nValueError: no template\n',
    )
    await settled(shop.store, Buried(job=job, failure=last))


def test_the_page_of_a_dead_job_tells_its_history(shop: Shop) -> None:
    shop.do(died(shop))
    answer = shop.cli("jobs", "show", "a0")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == PAGE


async def crashed(shop: Shop) -> None:
    """It killed its process twice, and the second time it was buried."""
    await added(shop.store, id=IDS[0])
    cause = 'signal SIGSEGV, last seen with 27 MiB\nFatal Python error: Segmentation fault\n\n  File "tasks.py", line 7'
    now = shop.clock.now()
    failure = a_failure(at=now, attempt=1, reason="crashed", message="it died", cause=cause, traceback=None)
    [job] = await claimed(shop.store)
    await settled(shop.store, Retried(job=job, at=now, failure=failure))
    [job] = await claimed(shop.store)
    await settled(shop.store, Buried(job=job, failure=failure))


def test_what_a_process_wrote_before_it_died_stands_in_its_own_lines(shop: Shop) -> None:
    """Once, at the end, as a traceback does."""
    shop.do(crashed(shop))
    page = shop.cli("jobs", "show", "a0").out
    assert page.count("\n      died: signal SIGSEGV, last seen with 27 MiB\n") == 2
    assert page.count("Segmentation fault") == 1
    assert page.endswith('\n\n    Fatal Python error: Segmentation fault\n\n      File "tasks.py", line 7\n')


def test_the_page_as_json_has_everything_but_secrets(shop: Shop) -> None:
    shop.do(died(shop))
    [page] = shop.cli("jobs", "show", "a0", "--json").json
    assert page["payload"] == {"to": "a@b.c", "password": "***"}
    assert page["headers"] == {"authorization": "***", "tenant": "7"}
    assert (page["state"], page["attempts"], page["max_attempts"], page["key"]) == ("dead", 2, 3, "welcome-7")
    assert [failure["reason"] for failure in page["failures"]] == ["network", "validation"]
    assert page["failures"][1]["duration"] == 1.5
    assert page["failures"][1]["traceback"].endswith("ValueError: no template\n")


def test_a_finished_job_shows_its_result(shop: Shop) -> None:
    shop.do(some_of_each(shop))
    page = shop.cli("jobs", "show", "a2").out
    assert "job 000000a2 thumbnail.make  done" in page
    assert 'result    {"width":200}' in page
    assert "attempts  done on attempt 1 in 1.2s" in page
    [json] = shop.cli("jobs", "show", "a2", "--json").json
    assert (json["state"], json["result"], json["duration"]) == ("done", {"width": 200}, 1.2)


def test_a_result_that_was_not_kept_is_a_sentence(shop: Shop) -> None:
    async def finish() -> None:
        await added(shop.store, id=IDS[0])
        [job] = await claimed(shop.store)
        result, _ = kept("x" * 100_000)
        await settled(shop.store, Done(job=job, result=result, duration=SECOND))

    shop.do(finish())
    page = shop.cli("jobs", "show", "a0", COLUMNS="160").out
    assert "  result    not kept: the result has 100,002 bytes, over the limit of 65,536; store it elsewhere" in page


def test_a_large_payload_is_folded_and_cut(shop: Shop) -> None:
    payload = msgspec.json.encode({"items": [{"sku": f"item-{n}", "note": "n" * 200} for n in range(30)]})
    shop.do(added(shop.store, id=IDS[0], payload=payload))
    lines = shop.cli("jobs", "show", "a0").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.strip() == '"sku": "item-0",' for line in lines)
    assert any("more lines; --json has them all" in line for line in lines)
    assert len(shop.cli("jobs", "show", "a0", "--json").json[0]["payload"]["items"]) == 30


@pytest.mark.parametrize(
    ("typed", "code", "sentence"),
    [
        ("a0", 0, ""),
        ("0000000000A0", 0, ""),
        (IDS[0], 0, ""),
        (IDS[0].replace("-", ""), 0, ""),
        ("8000-0000000000a0", 0, ""),
        ("80000000000000a0", 0, ""),
        ("b7", 5, "no job ends with b7; `redrive jobs list` shows the newest"),
        ("0", 2, f"several jobs end with 0: {IDS[0]}, {IDS[0][:-2]}b0; type more of the id"),
        ("xyz", 2, "'xyz' is not the end of an id"),
        ("", 2, "'' is not the end of an id"),
    ],
)
def test_an_id_is_typed_by_its_end(shop: Shop, typed: str, code: int, sentence: str) -> None:
    shop.do(added(shop.store, id=IDS[0]), added(shop.store, id=IDS[0][:-2] + "b0"))
    answer = shop.cli("jobs", "show", typed)
    assert answer.code == code
    assert sentence in answer.err
    assert code or "job 000000a0" in answer.out


# --- why it is not running --------------------------------------------------------------------------------------------

SERVES = a_worker(id="w1", tasks=("email.send",), slots=2)


def test_nobody_works(shop: Shop) -> None:
    shop.do(added(shop.store, id=IDS[0]))
    assert why(shop) == "no worker is running; start one with `redrive worker`"


def test_nobody_serves_its_queue(shop: Shop) -> None:
    worker = msgspec.structs.replace(SERVES, queues=("bulk", "slow"))
    shop.do(shop.store.workers.beat(worker, SECOND * 30), added(shop.store, id=IDS[0], queue="email"))
    assert why(shop) == "no worker serves queue email; those that run serve bulk, slow"


def test_nobody_knows_its_task(shop: Shop) -> None:
    shop.do(shop.store.workers.beat(SERVES, SECOND * 30), added(shop.store, id=IDS[0], task="sms.send"))
    assert why(shop).startswith("no worker that serves queue default knows the task sms.send")


def test_a_worker_has_met_it_and_did_not_know_its_task(shop: Shop) -> None:
    async def met() -> None:
        await added(shop.store, id=IDS[0], task="sms.send")
        [job] = await claimed(shop.store)
        later = shop.clock.now() + 5 * SECOND
        await settled(shop.store, Released(job=job, at=later, why="no such task", unknown_task=True))

    shop.do(met())
    shop.clock.advance(600)
    assert "for 10m no worker has had a task sms.send that takes its payload; start one that has, else it is " in why(
        shop
    )


def test_every_worker_for_it_drains(shop: Shop) -> None:
    draining = msgspec.structs.replace(SERVES, state="draining")
    shop.do(shop.store.workers.beat(draining, SECOND * 30), added(shop.store, id=IDS[0]))
    assert why(shop) == "every worker for it drains (w1); start another"


def test_all_slots_are_busy(shop: Shop) -> None:
    busy = msgspec.structs.replace(SERVES, running=("a", "b"))
    shop.do(shop.store.workers.beat(busy, SECOND * 30), added(shop.store, id=IDS[0]), added(shop.store))
    assert why(shop) == (
        "all 2 slots of the workers for it are busy, and queue default has 1 other ready job; "
        "add workers or raise -c if this lasts"
    )


def test_nothing_holds_it(shop: Shop) -> None:
    shop.do(shop.store.workers.beat(SERVES, SECOND * 30), added(shop.store, id=IDS[0]))
    assert why(shop) == "nothing holds it: it starts when a slot for it is free (queue default has no other)"


def test_its_queue_is_paused(shop: Shop) -> None:
    shop.do(shop.store.workers.beat(SERVES, SECOND * 30), added(shop.store, id=IDS[0], queue="email"))
    assert shop.cli("queues", "pause", "email", "--for", "10m", "--reason", "smtp is down").code == 0
    assert "queue email is paused until in 10m by " in why(shop)
    assert "(smtp is down); `redrive queues resume email` opens it" in why(shop)
    shop.clock.advance(601)
    shop.do(shop.store.workers.beat(SERVES, SECOND * 30))
    assert "paused" not in why(shop)


def test_what_it_needs_is_parked(shop: Shop) -> None:
    gate = Gate(kind="dependency", key="smtp", state="closed", reason="it is down")
    other = Gate(kind="dependency", key="ftp", state="closed")
    shop.do(
        shop.store.jobs.gate(gate, "ann"),
        shop.store.jobs.gate(other, "ann"),
        added(shop.store, id=IDS[0], needs=("smtp",)),
    )
    assert "dependency smtp is paused by ann (it is down)" in why(shop)
    assert "ftp" not in why(shop)


def test_it_is_scheduled(shop: Shop) -> None:
    shop.do(added(shop.store, id=IDS[0], due_at=shop.clock.now() + 300 * SECOND))
    assert why(shop).startswith("it is scheduled: due in 5m")
    shop.clock.advance(301)
    assert "scheduled" not in why(shop)


def test_it_waits_for_its_next_attempt(shop: Shop) -> None:
    async def failed() -> None:
        await added(shop.store, id=IDS[0])
        [job] = await claimed(shop.store)
        await settled(shop.store, Retried(job=job, at=shop.clock.now() + 8 * SECOND, failure=a_failure()))

    shop.do(failed())
    assert why(shop).startswith("it is scheduled again after failed attempt 1: due in 8s")


def test_it_has_expired(shop: Shop) -> None:
    shop.do(added(shop.store, id=IDS[0], expires=shop.clock.now() + SECOND))
    shop.clock.advance(11)
    assert why(shop).startswith("it expired 10s ago; the next worker that sees it discards it")


def test_a_worker_runs_it(shop: Shop) -> None:
    shop.do(shop.store.workers.beat(SERVES, SECOND * 60), added(shop.store, id=IDS[0]), claimed(shop.store))
    shop.clock.advance(10)
    assert why(shop) == "worker w1 (pid 4711 on host-1) is running it; its lease has 20s left"


def test_its_lease_has_ended(shop: Shop) -> None:
    shop.do(added(shop.store, id=IDS[0]), claimed(shop.store))
    shop.clock.advance(90)
    assert why(shop).startswith("its worker w1 let the lease end 1m ago and no worker has taken it over yet")


def test_it_is_a_suspect(shop: Shop) -> None:
    async def suspected() -> list[Orphan]:
        await added(shop.store, id=IDS[0])
        [job] = await claimed(shop.store)
        await settled(shop.store, Released(job=job, at=shop.clock.now(), why="its worker died", suspect=1))
        return []

    shop.do(shop.store.workers.beat(SERVES, SECOND * 60))
    shop.do(suspected())
    assert "it waits to run alone in a child process" in why(shop)


def test_it_was_discarded(shop: Shop) -> None:
    async def ended() -> None:
        await added(shop.store, id=IDS[0])
        [job] = await claimed(shop.store)
        await settled(shop.store, Discarded(job=job, reason="discarded", why="a duplicate"))

    shop.do(ended())
    assert why(shop).startswith("it was ended on purpose (discarded")


def test_it_is_done(shop: Shop) -> None:
    shop.do(some_of_each(shop))
    assert why(shop, IDS[2]) == "it is done"


# --- cancelling -------------------------------------------------------------------------------------------------------


def test_cancelling_discards(shop: Shop) -> None:
    shop.do(added(shop.store, id=IDS[0]), added(shop.store, id=IDS[1]))
    answer = shop.cli("jobs", "cancel", "a0", "a1")
    assert (answer.code, answer.out) == (0, f"cancelled {IDS[0]}\ncancelled {IDS[1]}\n")
    [page] = shop.cli("jobs", "show", "a0", "--json").json
    assert (page["state"], page["end_reason"]) == ("discarded", "cancelled")


@pytest.mark.parametrize(
    ("typed", "code"), [(["a0", "a2"], 3), (["a2"], 1), (["a1"], 1), (["a0", "a3"], 0), (["a2", "ff"], 5)]
)
def test_what_has_ended_cannot_be_cancelled(shop: Shop, typed: list[str], code: int) -> None:
    """Some: partly failed; none: failed; an id that is none: nothing is touched."""
    shop.do(some_of_each(shop))
    answer = shop.cli("jobs", "cancel", *typed, "--json")
    assert answer.code == code
    if "a2" in typed and code != 5:
        assert "job 000000a2 has ended already, it is done; there is nothing to cancel" in answer.err
    assert [row["cancelled"] for row in answer.json] == ([] if code == 5 else [id in ("a0", "a3") for id in typed])


def test_cancelling_needs_an_id(cli: Cli) -> None:
    assert cli("jobs", "cancel").code == 2

"""`redrive enqueue`: one job with its options, or one for each line of a file, and what is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from redrive.clock import SECOND
from redrive.job import Job, decode_headers
from redrive.limits import limits_of
from redrive.store import JobQuery
from redrive.testing.factories import live
from tests.cli.conftest import Cli, Shop

ID = "01950000-0000-7000-8000-0000000000a0"


def only(shop: Shop) -> Job:
    """The one job there is."""
    [row] = shop.do(shop.store.jobs.find(JobQuery()))
    return shop.do(live(shop.store, row.id))


def payloads(shop: Shop) -> list[Any]:
    """The payloads of all jobs, oldest first."""
    rows = shop.do(shop.store.jobs.find(JobQuery(limit=10_000)))
    return [msgspec.json.decode(shop.do(live(shop.store, row.id)).payload) for row in reversed(rows)]


# --- one job ----------------------------------------------------------------------------------------------------------


def test_the_id_is_printed_and_the_store_is_said(shop: Shop) -> None:
    answer = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}')
    job = only(shop)
    assert (answer.code, answer.out) == (0, f"{job.id}\n")
    assert f"redrive: enqueued job {job.short} email.send on queue email of memory://shop\n" in answer.err
    assert (job.task, job.queue, job.payload) == ("email.send", "email", b'{"to":"a@b.c"}')


def test_a_job_that_would_be_gone_at_once_is_refused(cli: Cli) -> None:
    """Memory ends with the command."""
    answer = cli("--url", "memory://", "enqueue", "email.send", "{}")
    assert (answer.code, answer.out) == (2, "")
    assert "jobs in memory:// are gone when this command ends; name a store that lasts with --url" in answer.err


def test_a_queue_without_a_worker_gets_a_warning(shop: Shop) -> None:
    answer = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}')
    assert answer.err.splitlines()[0] == "redrive: queue email has a new job, but no live worker serves it"
    assert "no live worker" not in shop.cli("enqueue", "email.send", '{"to": "a"}', "--log-level", "error").err
    as_json = shop.cli("enqueue", "email.send", '{"to": "a"}', "--queue", "x", "--log-format", "json").err
    assert msgspec.json.decode(as_json.splitlines()[0])["event"] == "queue.unserved"


def test_json_says_whether_the_job_is_new(shop: Shop) -> None:
    first = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}', "--key", "welcome-7", "--json").json
    second = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}', "--key", "welcome-7", "--json")
    id = only(shop).id
    assert first == [{"id": id, "created": True, "task": "email.send", "queue": "email"}]
    assert second.json == [{"id": id, "created": False, "task": "email.send", "queue": "email"}]
    assert second.code == 0
    assert f"job {id[-8:]} was there already (ready); nothing was added" in second.err


def test_every_option_reaches_the_job(shop: Shop) -> None:
    words = (
        "enqueue email.send --queue bulk --priority high --delay 90s --key k --id {id} --external-id order-7 "
        "--max-attempts 7 --timeout 2m --expires 1h --header a=1 --header b=x=y --needs smtp --needs dns --batch b1"
    )
    answer = shop.cli(*words.format(id=ID).split(), '{"to": "a@b.c"}')
    assert answer.code == 0, answer.err
    job, now = only(shop), shop.clock.now()
    assert (job.id, job.queue, job.priority, job.key, job.external_id) == (ID, "bulk", 8, "k", "order-7")
    assert (job.due_at, job.expires, job.batch) == (now + 90 * SECOND, now + 3600 * SECOND, "b1")
    assert decode_headers(job.headers) == {"a": "1", "b": "x=y"}
    assert job.needs == ("smtp", "dns")
    limits = limits_of(job.policy)
    assert (limits.max_attempts, limits.timeout) == (7, 120 * SECOND)


def test_times_may_be_points_in_time(shop: Shop) -> None:
    shop.cli("enqueue", "email.send", '{"to": "a"}', "--at", "2026-01-02T00:00:00Z", "--expires", "2026-01-03T00:00Z")
    job, now = only(shop), shop.clock.now()
    assert (job.due_at - now, job.expires) == (86_400 * SECOND, now + 2 * 86_400 * SECOND)


@pytest.mark.parametrize("text", ["[1,2]", '"text"', "12345678901234567890123456789", "null", "1.5"])
def test_a_payload_is_any_json_value(shop: Shop, text: str) -> None:
    assert shop.cli("enqueue", "elsewhere.task", text, "--by-name").code == 0
    assert only(shop).payload == text.encode()


def test_a_payload_may_come_from_stdin_or_be_left_out(shop: Shop) -> None:
    assert shop.cli("enqueue", "email.send", "-", input='{"to": "a@b.c"}\n').code == 0
    assert shop.cli("enqueue", "elsewhere.task", "--by-name").code == 0
    assert payloads(shop) == [{"to": "a@b.c"}, {}]


def test_without_an_app_a_job_is_added_by_name(cli: Cli, folder: Path) -> None:
    answer = cli("enqueue", "elsewhere.task", '{"any": 1}')
    assert answer.code == 0
    assert f"of sqlite:///{folder}/redrive.db" in answer.err
    [row] = cli("jobs", "list", "--json").json
    assert (row["id"], row["task"], row["queue"]) == (answer.out.strip(), "elsewhere.task", "default")


def test_the_app_of_the_project_is_used(cli: Cli, folder: Path, module: Path) -> None:
    (folder / "redrive.toml").write_text('app = "tasks"\n', encoding="utf-8")
    assert cli("enqueue", "echo", '{"text": "a"}').code == 0
    answer = cli("enqueue", "echo", '{"txt": "a"}')
    assert answer.code == 2
    assert "task echo: missing a required argument: 'text'; its signature is echo(text: str) -> str" in answer.err


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["email.sent"], 2, "there is no task 'email.sent', did you mean email.send? (--by-name adds it"),
        (["sms"], 2, "there is no task 'sms'; there are email.send, thumbnail.make (--by-name adds it"),
        (["email.send", '{"too": 1}'], 2, "task email.send: missing a required argument: 'to'"),
        (["email.send", '{"to": 1, "cc": 2}'], 2, "task email.send: got an unexpected keyword argument 'cc'"),
        (["email.send", "{to: 1}"], 2, "the payload is not JSON in UTF-8"),
        (["email.send", "to=a@b.c"], 2, """; write one JSON value, such as '{"to": "a@b.c"}'"""),
        (["email.send", ""], 2, """; write one JSON value, such as '{"to": "a@b.c"}'"""),
        (["email.send", '{"to": NaN}'], 2, "the payload is not JSON in UTF-8"),
        (["email.send", "[" * 100_000], 2, "the payload is "),
        (["email.send", '{"to": "a"}', "--priority", "11"], 2, "priority '11' is not one of low, normal, high or 0 to"),
        (["email.send", '{"to": "a"}', "--delay", "soon"], 2, "option delay='soon' is wrong: 'soon' is not a duration"),
        (["email.send", '{"to": "a"}', "--at", "noon"], 2, "--at 'noon' is not a time; write 2026-01-31T14:30"),
        (["email.send", '{"to": "a"}', "--delay", "1s", "--at", "2026-01-02"], 2, "delay and at exclude each other"),
        (["email.send", '{"to": "a"}', "--expires", "never"], 2, "--expires 'never' is not a time"),
        (["email.send", '{"to": "a"}', "--id", "7"], 2, "an id is a UUID; use key= or external_id="),
        (
            ["email.send", '{"to": "a"}', "--max-attempts", "0"],
            2,
            "max_attempts=0 is wrong: write a whole number from 1",
        ),
        (["email.send", '{"to": "a"}', "--header", "x"], 2, "--header 'x' is not a header; write name=value"),
        (["email.send", '{"to": "a"}', "--key", "k" * 513], 2, "write a text of 1 to 512 characters"),
        (["email.send", '{"to": "a"}', "--color", "red"], 2, "no such option '--color'"),
        (["email.send", "--from", "x", "{}"], 2, "--from takes its payloads from the file"),
        (["email.send", "--from", "x", "--key", "k"], 2, "--from takes its payloads from the file"),
        (["email.send", "--from", "nowhere.ndjson"], 5, "nowhere.ndjson cannot be read: No such file or directory"),
        (["email.send", "--from", "."], 2, ". cannot be read: Is a directory; nothing was enqueued"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_added(
    shop: Shop, words: list[str], code: int, sentence: str
) -> None:
    answer = shop.cli("enqueue", *words)
    assert (answer.code, answer.out) == (code, "")
    assert sentence in answer.err
    assert answer.err.startswith("redrive: ")
    assert answer.err.count("\n") == 1
    assert payloads(shop) == []


def test_a_payload_over_the_limit_is_refused(shop: Shop) -> None:
    answer = shop.cli("enqueue", "email.send", "-", input=msgspec.json.encode({"to": "x" * 1024 * 1024}))
    assert answer.code == 2
    assert "the payload has 1,048,585 bytes, over the limit of 1,048,576; store it elsewhere" in answer.err
    assert payloads(shop) == []


def test_the_limit_is_a_setting(shop: Shop) -> None:
    answer = shop.cli("enqueue", "email.send", '{"to": "a@b.c"}', REDRIVE_PAYLOAD_LIMIT="8")
    assert "over the limit of 8;" in answer.err
    assert answer.code == 2


# --- lines ------------------------------------------------------------------------------------------------------------


def lines(*values: str) -> str:
    return "".join(f'{{"to": "{value}"}}\n' for value in values)


def test_each_line_is_a_job(shop: Shop, folder: Path) -> None:
    """Blank lines, a mark of the byte order and a last line without an end are no trouble."""
    text = "\ufeff" + lines("a", "b") + "\n  \r\n" + lines("c").strip()
    (folder / "items.ndjson").write_text(text, encoding="utf-8")
    answer = shop.cli("enqueue", "email.send", "--from", "items.ndjson", "--priority", "low")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.splitlines()[-1] == "redrive: enqueued 3 jobs of email.send in memory://shop"
    assert payloads(shop) == [{"to": "a"}, {"to": "b"}, {"to": "c"}]
    assert {row["priority"] for row in shop.cli("jobs", "list", "--json").json} == {2}


def test_lines_from_stdin(shop: Shop) -> None:
    rows = shop.cli("enqueue", "email.send", "--from", "-", "--json", input=lines("a", "b")).json
    assert [(row["line"], row["created"]) for row in rows] == [(1, True), (2, True)]
    assert len({row["id"] for row in rows}) == 2


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 18])
def test_many_lines_whatever_the_reads_bring(shop: Shop, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """A line may be cut anywhere by a read, and a batch anywhere by its size."""
    monkeypatch.setattr("redrive.cli.filling.CHUNK", chunk)
    monkeypatch.setattr("redrive.cli.filling.BATCH", 7)
    names = [f"é{number}" for number in range(50)]
    assert shop.cli("enqueue", "email.send", "--from", "-", input=lines(*names).encode()).code == 0
    assert [payload["to"] for payload in payloads(shop)] == names


def test_no_line_is_no_job(shop: Shop) -> None:
    answer = shop.cli("enqueue", "email.send", "--from", "-", input="\n\n")
    assert (answer.code, answer.err) == (0, "redrive: enqueued 0 jobs of email.send in memory://shop\n")


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ('{"to": ', "the payload is not JSON in UTF-8"),
        ('{"cc": 1}', "task email.send: missing a required argument: 'to'"),
        (f'{{"to": "{"x" * 1_048_576}"}}', "over the limit of 1,048,576"),
        (" " * 5_000_000, "it is longer than 4,194,304 bytes; is it one JSON value?"),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_a_bad_line_is_named_and_what_came_before_is_said(shop: Shop, bad: str, sentence: str, before: int) -> None:
    """Nothing added: wrong input; something added: partly failed. The lines after it are not touched."""
    names = ["a", "b"][:before]
    answer = shop.cli("enqueue", "email.send", "--from", "-", input=lines(*names) + bad + "\n" + lines("z"))
    assert answer.code == (3 if before else 2)
    told, fault = answer.err.splitlines()[-2:]
    assert told == f"redrive: enqueued {before} jobs of email.send in memory://shop"
    assert fault.startswith(f"redrive: stdin, line {before + 1}: {sentence}") or sentence in fault
    assert fault.endswith(f"the lines from {before + 1} on were not enqueued")
    assert [payload["to"] for payload in payloads(shop)] == names


def test_a_full_queue_stops_the_filling(shop: Shop) -> None:
    shop.cli("queues", "limit", "email", "3")
    answer = shop.cli("enqueue", "email.send", "--from", "-", "--json", input=lines("a", "b", "c", "d", "e"))
    assert answer.code == 3
    assert [row["line"] for row in answer.json] == [1, 2, 3]
    assert "enqueued 3 jobs" in answer.err
    assert "stdin, line 4: queue 'email' did not accept the job" in answer.err
    assert [payload["to"] for payload in payloads(shop)] == ["a", "b", "c"]


def test_a_long_blank_line_is_not_read_into_memory(shop: Shop) -> None:
    """The control for the bound: a line of half the length is merely blank."""
    assert shop.cli("enqueue", "email.send", "--from", "-", input=" " * 4_000_000 + "\n" + lines("a")).code == 0
    assert payloads(shop) == [{"to": "a"}]

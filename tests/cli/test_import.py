"""`redrive dlq import`: our own export, a directory of items, rows of failed jobs, and stranger ones."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from redrive.adopt import reading
from redrive.clock import SECOND
from redrive.store import Buried, Foreign, Retried
from redrive.testing.factories import a_failure, a_job, added, claimed, settled
from tests.cli.conftest import Cli, Shop

ID = "7c2f9a52-6e0e-4a53-9d53-0a6f0c5a1f0"
HEAD = "job_id,job_type,status,attempts,max_attempts,last_error,error_stacktrace,input_data,created_at"
CSV = f"""{HEAD}
{ID}1,thumbnail,FAILED,3,3,Failed to download a.mp4,"Traceback (most recent call last):
  File ""worker.py"", line 88, in process
ConnectionError: Failed to download a.mp4","{{""key"": ""a.mp4"", ""params"": {{""width"": 200}}}}",2025-11-22 03:35:25Z
{ID}2,thumbnail,FAILED,3,3,moov atom not found,,"{{""key"": ""\\u00fc \\""q\\"".mp4""}}",2025-11-22 04:00:00+00
"""
ENTRY = {
    "attempt_number": 1, "timestamp": "2025-01-11T10:26:00Z", "error_type": {"CommandFailed": {"exit_code": 101}},
    "error_message": "cargo test failed with exit code 101", "error_context": ["Running cargo test"],
    "stack_trace": "thread 'main' panicked", "agent_id": "agent-1", "step_failed": "shell: cargo test",
    "duration_ms": 45000, "json_log_location": "logs/run.json",
}  # fmt: skip
ITEMS: dict[str, Any] = {
    "item-1": {
        "item_id": "item-1", "item_data": {"file": "main.rs"}, "first_attempt": "2025-01-11T10:25:00Z",
        "last_attempt": "2025-01-11T10:26:00Z", "failure_count": 1, "failure_history": [ENTRY],
        "error_signature": "CommandFailed::cargo", "reprocess_eligible": True, "manual_review_required": False,
    },
    "item-2": {"item_id": "item-2", "item_data": "a text", "failure_count": 4, "error_signature": "Validation::x"},
}  # fmt: skip

PAYLOADS: list[Any] = [
    None, "", "12", "null", '"a"', "plain", "=1", "'=1", "''=1", "'", -5, 1.5, [], {"a": "=x", "b": [None, {}]}, True,
    "\n\r\t", "é\u2028", "NULL", "\\N", " ", "-", {"": ""}, "a,b;c\t\"d'", "\ufeff", 2**53,
]  # fmt: skip
TEXTS = [
    "", "=cmd|' /C calc'!A0", "'@", "-1", "+", "@a", "two\r\nlines", "'", "''=", "\tTab", 'q"uo,te;', "NULL", "\\N",
    "null", " spaces ", "\u2028", "ü" * 50, "x" * 9_000, "{}", "[]", "1", "exit code 3", "'=a", "'-", "\r",
]  # fmt: skip


@pytest.fixture
def here(folder: Path) -> Path:
    (folder / "failed.csv").write_text(CSV, encoding="utf-8")
    items = folder / "dlq" / "items"
    items.mkdir(parents=True)
    (folder / "dlq" / "index.json").write_text(
        json.dumps({"job_id": "map-1", "item_ids": list(ITEMS)}), encoding="utf-8"
    )
    for name, item in ITEMS.items():
        (items / f"{name}.json").write_text(json.dumps(item), encoding="utf-8")
    return folder


def letters(cli: Cli) -> list[Any]:
    return sorted(cli("dlq", "export", "--with-secrets").json, key=lambda letter: str(letter["id"]))


# rows -----------------------------------------------------------------------------------------------------------------


def test_rows_become_letters(cli: Cli, here: Path) -> None:
    answer = cli("dlq", "import", "failed.csv")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"redrive: took in 2 letters into sqlite:///{here}/redrive.db\n"
    first, second = letters(cli)
    assert (first["id"], first["task"], first["reason"], first["attempts"]) == (f"{ID}1", "thumbnail", "network", 3)
    assert first["payload"] == {"key": "a.mp4", "params": {"width": 200}}
    assert first["failures"][0]["traceback"].endswith("ConnectionError: Failed to download a.mp4")
    assert (second["payload"], second["failed_at"]) == ({"key": 'ü "q".mp4'}, "2025-11-22T04:00:00.000Z")
    assert cli("jobs", "show", ID[-6:] + "1", "--json").json[0]["max_attempts"] == 3


def test_importing_twice_changes_nothing(cli: Cli, here: Path) -> None:
    cli("dlq", "import", "failed.csv")
    before = letters(cli)
    answer = cli("dlq", "import", "failed.csv")
    assert (answer.code, answer.err.rstrip().endswith("; 2 were there already")) == (0, True)
    assert letters(cli) == before
    assert cli("dlq", "import", "failed.csv", "--json").json == [
        {"taken_in": 0, "there_already": 2, "skipped": 0, "not_failed": {}, "tasks": {}}
    ]


def test_tasks_and_queues_can_be_named_otherwise(cli: Cli, here: Path) -> None:
    cli("dlq", "import", "failed.csv", "--map", "thumbnail=thumbnail.make", "--queue", "media")
    assert {(each["task"], each["queue"]) for each in letters(cli)} == {("thumbnail.make", "media")}
    answer = cli("dlq", "import", "failed.csv", "--map", "thumbnail")
    assert (answer.code, answer.err) == (2, "redrive: --map 'thumbnail' does not rename a task; write old=new\n")


def test_a_rehearsal_changes_nothing(cli: Cli, here: Path) -> None:
    """Neither in a store, nor by making one."""
    answer = cli("dlq", "import", "failed.csv", "--dry-run")
    assert (answer.code, answer.err) == (0, "redrive: would take in 2 letters and changed nothing\n")
    assert not (here / "redrive.db").exists()
    cli("dlq", "import", "-", input=CSV.split(f"\n{ID}2")[0] + "\n")
    answer = cli("dlq", "import", "failed.csv", "--dry-run")
    assert answer.err == "redrive: would take in 1 letter and changed nothing; 1 were there already\n"
    assert len(letters(cli)) == 1


# a directory ----------------------------------------------------------------------------------------------------------


def test_items_become_letters_of_their_workflow(cli: Cli, here: Path) -> None:
    answer = cli("dlq", "import", "dlq", "--task", "agent")
    assert (answer.code, answer.err) == (0, f"redrive: took in 2 letters into sqlite:///{here}/redrive.db\n")
    found = {each["message"]: each for each in letters(cli)}
    first, second = found["cargo test failed with exit code 101"], found["x"]
    assert (first["workflow"], first["reason"], first["payload"]) == ("map-1", "command_failed", {"file": "main.rs"})
    assert first["first_failed_at"] == "2025-01-11T10:25:00.000Z"
    [failure] = first["failures"]
    assert (failure["duration"], failure["worker"]) == (45.0, "agent-1")
    assert failure["cause"] == "exit code 101\nRunning cargo test\nlog: logs/run.json"
    assert (second["payload"], second["attempts"], second["reason"]) == ("a text", 4, "validation")
    assert cli("jobs", "show", first["id"], "--json").json[0]["external_id"] == "item-1"
    assert cli("dlq", "import", "dlq/items", "--task", "other", "--json").json[0]["there_already"] == 2


def test_items_need_a_task(cli: Cli, here: Path) -> None:
    answer = cli("dlq", "import", "dlq")
    assert answer.code == 1
    assert "item-1.json was skipped: it names no task; say which one with --task NAME" in answer.err


def test_a_file_that_is_missing_or_broken_is_said(cli: Cli, here: Path) -> None:
    items = here / "dlq" / "items"
    (items / "item-2.json").unlink()
    (items / "item-3.json").write_text('{"item_id": "item-3", ', encoding="utf-8")
    (items / "item-4.json").mkdir()
    answer = cli("dlq", "import", "dlq", "--task", "agent")
    assert answer.code == 3
    assert "item-3.json was skipped: it is not JSON in UTF-8" in answer.err
    assert "item-4.json was skipped: it is not a file" in answer.err
    assert "index.json was skipped: it lists the item item-2, and there is no file item-2.json" in answer.err
    assert "took in 1 letter " in answer.err


def test_a_directory_without_an_index_is_read_too(cli: Cli, here: Path) -> None:
    (here / "dlq" / "index.json").write_text("[]", encoding="utf-8")
    answer = cli("dlq", "import", "dlq", "--task", "agent")
    assert (answer.code, "index.json was skipped: it is not a JSON object" in answer.err) == (3, True)
    assert len(letters(cli)) == 2


# stranger ones --------------------------------------------------------------------------------------------------------

ROW = {"job_id": f"{ID}1", "job_type": "t", "last_error": "no", "input_data": {"a": 1}}


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.replace("\n", "\r\n").encode(),
        CSV.replace("\n", "\r\n\r\n").replace("process\r\n\r\n", "process\n").encode(),
        f"{HEAD}\n{ID}1,t,FAILED,3,3,{'x' * 300_000},,,\n".encode(),
        f"{HEAD.replace(',', ';')}\n{ID}1;t;FAILED;3;3;no;;;\n".encode(),
        f"jobId\tjobType\tattemptCount\tlastError\n{ID}1\tt\t3\tno\n".encode(),
        json.dumps([ROW], indent=2).encode(),
        b"\n\n  " + json.dumps([ROW]).encode(),
        json.dumps(ROW, indent=2).encode(),
        b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n",
        json.dumps({**ROW, "input_data": '{"a": 1}', "created_at": 1_763_782_525}).encode(),
        json.dumps({"jobId": f"{ID}1", "taskType": "t", "errorMessage": "no"}).encode(),
    ],
)
def test_the_same_written_otherwise(cli: Cli, text: bytes) -> None:
    """With a BOM, CRLF, empty lines, huge cells, other delimiters, indented, with other names."""
    answer = cli("dlq", "import", "-", input=text)
    assert (answer.code, answer.err.count("skipped")) == (0, 0)
    assert letters(cli)[0]["id"] == f"{ID}1"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{broken}", "line 2 was skipped: it is not JSON in UTF-8"),
        (b'{"a": "\xff"}', "line 2 was skipped: it is not JSON in UTF-8"),
        (b"[1]", "line 2 was skipped: it is not a JSON object"),
        (b'{"colour": 1}', "line 2 was skipped: it has none of the keys of a failed job; it has colour"),
        (b'{"job_id": "1", "last_error": "no"}', "line 2 was skipped: it names no task"),
        (b'{"job_id": "1", "job_type": "t", "last_error": "no", "created_at": "soon"}', "created_at 'soon' is no time"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (
            b'{"id": "1", "task": "t", "group": "g", "epochs": 1, "failed_at": 1}',
            "it has no payload; `redrive dlq export`",
        ),
    ],
)
def test_a_bad_line_is_named_and_skipped(cli: Cli, bad: bytes, why: str) -> None:
    good = [json.dumps({**ROW, "job_id": f"{ID}{n}"}).encode() for n in (1, 2)]
    answer = cli("dlq", "import", "-", input=b"\n".join([good[0], bad, good[1]]))
    assert answer.code == 3
    assert why in answer.err
    assert "took in 2 letters" in answer.err
    assert "1 were skipped" in answer.err
    assert cli("dlq", "import", "-", "--json", input=bad + b"\n").code == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (f"{ID}9,t,FAILED,many,3,no,,,".encode(), "attempts 'many' is not a whole number"),
        (f"{ID}9,t,FAILED,1,3,\xff,,,".encode("latin-1"), "it is not UTF-8; convert the file first"),
        (f"{ID}9,t,FAILED,1,3,no,,,,,,".encode(), "it has 12 cells, and the first line names 9"),
        (f'{ID}9,t,FAILED,1,3,"n"o,,,'.encode(), "it is not CSV"),
    ],
)
def test_a_bad_row_is_named_and_skipped(cli: Cli, bad: bytes, why: str) -> None:
    rows = [f'{ID}{n},t,FAILED,1,3,"two\nlines",,{{}},'.encode() for n in (1, 2)]
    answer = cli("dlq", "import", "-", input=b"\n".join([HEAD.encode(), rows[0], bad, rows[1], b""]))
    assert (answer.code, f"line 4 was skipped: {why}" in answer.err) == (3, True)
    assert "took in 2 letters" in answer.err


def test_a_cut_file_is_said(cli: Cli) -> None:
    listed = json.dumps([{**ROW, "job_id": f"{ID}{n}"} for n in (1, 2)])
    answer = cli("dlq", "import", "-", input=listed[:-9])
    assert (answer.code, "the file ends in the middle of a value; is it whole?" in answer.err) == (3, True)
    answer = cli("dlq", "import", "-", input=CSV[:300])
    assert (answer.code, "line 2 was skipped: it is not CSV: unexpected end of data" in answer.err) == (1, True)


def test_a_quote_that_never_ends_does_not_fill_the_memory(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RECORD_LIMIT", 10_000)
    text = f'{HEAD}\n{ID}1,t,FAILED,1,3,no,,,\n{ID}2,t,FAILED,1,3,"no\n' + "x\n" * 10_000
    answer = cli("dlq", "import", "-", input=text)
    assert answer.code == 3
    assert "line 3 was skipped: a row is longer than 10,000 bytes; is a quote missing?" in answer.err


def test_jobs_that_did_not_fail_are_left_out(cli: Cli) -> None:
    rows = [
        {**ROW, "job_id": f"{ID}{n}", "status": state} for n, state in enumerate(["FAILED", "COMPLETED", "RUNNING"])
    ]
    answer = cli("dlq", "import", "-", input="\n".join(map(json.dumps, rows)))
    assert answer.code == 0
    assert "took in 1 letter" in answer.err
    assert "left out 2 records of jobs that are not dead (COMPLETED 1, RUNNING 1)" in answer.err


def test_many_bad_records_do_not_fill_the_screen(cli: Cli) -> None:
    answer = cli("dlq", "import", "-", input='{"x": 1}\n' * 50)
    assert (answer.code, answer.err.count("was skipped")) == (1, 20)
    assert "30 more were skipped; --json names them all" in answer.err
    assert len(cli("dlq", "import", "-", "--json", input='{"x": 1}\n' * 50).json) == 51


def test_what_is_not_there_or_cannot_be_read(cli: Cli, folder: Path) -> None:
    answer = cli("dlq", "import", "gone.csv")
    assert (answer.code, answer.err) == (5, "redrive: there is no gone.csv; name a file, a directory, or - for stdin\n")
    answer = cli("dlq", "import", "-", input="a,b".encode("utf-16"))
    assert (answer.code, answer.err.splitlines()[-1]) == (2, "redrive: the file is UTF-16; save it as UTF-8 first")


@pytest.mark.parametrize("text", [b'"just text"', b"hello, world\n1,2\n", b"\x00\x80\r\xff" * 50, b"a\rb\r", b"\n\n;"])
def test_what_is_neither_json_nor_a_table_is_refused(cli: Cli, text: bytes) -> None:
    answer = cli("dlq", "import", "-", input=text)
    assert answer.code == 2
    assert "this is neither JSON nor CSV whose first line names columns of failed jobs" in answer.err


@pytest.mark.parametrize("text", [b"", b"\n\n", b"[]", b"[ ]\n", HEAD.encode()])
def test_nothing_is_taken_in_from_nothing(cli: Cli, text: bytes) -> None:
    answer = cli("dlq", "import", "-", input=text)
    assert (answer.code, "took in 0 letters" in answer.err) == (0, True)


# there and back -------------------------------------------------------------------------------------------------------


async def many(shop: Shop) -> None:
    """Letters with every odd payload and text, some with several failures."""
    for number in range(max(len(PAYLOADS), len(TEXTS))):
        text, payload = TEXTS[number % len(TEXTS)], json.dumps(PAYLOADS[number % len(PAYLOADS)]).encode()
        shop.clock.advance(number / 7)
        await added(
            shop.store, queue=("default", "=q")[number % 2], priority=number % 10, payload=payload,
            headers=b'{"a":"=1"}' if number % 3 else None, batch=text[:100] or None,
        )  # fmt: skip
        for attempt in range(1, number % 3 + 1):
            [job] = await claimed(shop.store)
            failure = a_failure(at=shop.clock.now(), attempt=attempt, duration=attempt * SECOND, cause=text or None)
            await settled(shop.store, Retried(job=job, at=0, failure=failure))
        [job] = await claimed(shop.store)
        last = a_failure(
            at=shop.clock.now(), attempt=job.attempts + 1, message=text, traceback=text or None, release=text or None,
            host=text, fingerprint=f"{number % 4:016x}",
        )  # fmt: skip
        await settled(shop.store, Buried(job=job, failure=last))


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_what_export_shows_comes_back(shop: Shop, cli: Cli, folder: Path, form: str) -> None:
    """Into another store and out of it again: the same records, whatever stands in them."""
    shop.do(many(shop))
    shop.cli("dlq", "export", f"a.{form}", "--with-secrets")
    answer = cli("dlq", "import", f"a.{form}")
    assert (answer.code, answer.err.count("skipped")) == (0, 0), answer.err
    cli("dlq", "export", f"b.{form}", "--with-secrets")
    before, after = read(folder / f"a.{form}"), read(folder / f"b.{form}")
    assert len(before) == 25
    assert after == before


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_what_rules_and_returns_have_left_comes_back(shop: Shop, cli: Cli, folder: Path, form: str) -> None:
    """A rule does not act anew on what it has dealt with, and the loop guard goes on counting."""
    ruled: dict[str, Any] = {"plain": "beef", "plain_title": "no rule", "frame": "a.py:f", "title": "by a rule"}
    failure = a_failure(at=shop.clock.now(), process=7, truncated=True, retryable=False, step="shell", **ruled)
    one = Foreign(job=a_job(), failures=(failure,), first_failed_at=failure.at, returns=2, rule="loud")
    shop.do(shop.store.letters.take_in([one], "ann"))
    shop.cli("dlq", "export", f"a.{form}")
    assert cli("dlq", "import", f"a.{form}").code == 0
    [letter] = letters(cli)
    assert (letter["returns"], letter["rule"]) == (2, "loud")
    if form != "csv":
        [back] = letter["failures"]
        assert (back["plain_fingerprint"], back["plain_title"]) == ("beef", "no rule")
        assert (back["title"], back["frame"], back["step"]) == ("by a rule", "a.py:f", "shell")
        assert (back["process"], back["truncated"], back["retryable"]) == (7, True, False)


def read(path: Path) -> list[Any]:
    with path.open(encoding="utf-8", newline="") as file:
        match path.suffix:
            case ".csv":
                rows: list[Any] = list(csv.DictReader(file))
            case ".json":
                rows = json.load(file)
            case _:
                rows = [json.loads(line) for line in file.read().split("\n") if line]
    return sorted(rows, key=lambda row: str(row["id"]))


def test_a_masked_export_is_said(shop: Shop, cli: Cli) -> None:
    """What was masked there is lost here."""
    shop.do(added(shop.store, payload=b'{"token":"s3cr3t"}'), bury(shop))
    shop.cli("dlq", "export", "a.json")
    assert "the payload of 1 letter has *** where a secret was masked" in cli("dlq", "import", "a.json").err


async def bury(shop: Shop) -> None:
    [job] = await claimed(shop.store)
    await settled(shop.store, Buried(job=job, failure=a_failure(at=shop.clock.now())))

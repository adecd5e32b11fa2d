"""`redrive dlq`: the list, the causes, and the story of one letter."""

import ast
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.cli import dlq
from redrive.clock import SECOND
from redrive.errors import StoreUnavailable
from redrive.letter import Failure, Letter
from redrive.store import Buried, Done, Retried
from redrive.testing.factories import a_failure, added, buried, claimed, settled
from tests.cli.conftest import Cli, Shop

IDS = [f"01950000-0000-7000-8000-0000000000{n:02x}" for n in range(0xA0, 0xB0)]
OTHER = "01950000-0000-7000-8000-0000000001b1"
REFUSED, TIMED_OUT = "cafe000000000000", "f00d000000000000"

FAULTY = """
from redrive import Redrive, Retry

app = Redrive()


@app.task(name="fail", retry=Retry(1))
async def fail(text: str) -> None:
    raise ValueError(f"no {text}")
"""

LIST = """\
ID        FAILED  TASK            REASON   TRIES  GROUP     ERROR
000000a2  2m ago  thumbnail.make  timeout      1  f00d0000  the relay timed out
000000a1  3m ago  email.send      timeout      1  f00d0000  the relay timed out
000000a0  4m ago  email.send      network      2  cafe0000  connection refused
"""

GROUPS = """\
GROUP     LETTERS  LAST    FIRST   STATE  TASK        CAUSE
f00d0000        2  2m ago  3m ago  open   email.send  TimeoutError: the relay t…
cafe0000        1  4m ago  4m ago  open   email.send  ConnectionError: connecti…
"""

STORY = """\
letter 000000a0 email.send  open
  id        01950000-0000-7000-8000-0000000000a0
  group     cafe000000000000 (redrive dlq list --filter 'group = cafe0000')
  queue     email, priority 5
  reason    network, 2 failures
  failed    2026-01-01T00:01:00.000Z (4m ago)
            first 2026-01-01T00:00:00.000Z (5m ago)
  where     host-1, worker w1
  headers   x-id: 7
  payload   {"to":"a@b.c","token":"***"}

  what happened
    2026-01-01 00:00:00  attempt 1 failed after 2s on host-1, network:
                         ConnectionError: connection refused
    2026-01-01 00:01:00  attempt 2 failed after 2s on host-1, network:
                         ConnectionError: connection refused

  how its process died
    signal SIGSEGV
    its last line

    Traceback (most recent call last): ...
"""


def refused(shop: Shop, attempt: int, **changes: object) -> Failure:
    return a_failure(
        at=shop.clock.now(), attempt=attempt, fingerprint=REFUSED, duration=2 * SECOND,
        title="ConnectionError: connection refused", **changes,
    )  # fmt: skip


def timed_out(shop: Shop) -> Failure:
    return a_failure(
        at=shop.clock.now(), attempt=1, fingerprint=TIMED_OUT, reason="timeout", type="builtins.TimeoutError",
        message="the relay timed out", title="TimeoutError: the relay timed out",
    )  # fmt: skip


async def three_dead(shop: Shop) -> None:
    """One that was refused twice, and two of another cause."""
    payload = b'{"to":"a@b.c","token":"s3cr3t"}'
    await added(shop.store, id=IDS[0], queue="email", payload=payload, headers=b'{"x-id":"7"}')
    [job] = await claimed(shop.store)
    await settled(shop.store, Retried(job=job, at=0, failure=refused(shop, 1)))
    shop.clock.advance(60)
    [job] = await claimed(shop.store)
    await settled(shop.store, Buried(job=job, failure=refused(shop, 2, cause="signal SIGSEGV\nits last line")))
    for number, task in ((1, "email.send"), (2, "thumbnail.make")):
        shop.clock.advance(60)
        await added(shop.store, id=IDS[number], task=task, payload=b'{"n":%d}' % number)
        [job] = await claimed(shop.store)
        await settled(shop.store, Buried(job=job, failure=timed_out(shop)))
    shop.clock.advance(120)


# --- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_the_last_failure_first(shop: Shop) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "list")
    assert (answer.code, answer.out, answer.err) == (0, LIST, "")


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["--filter", "reason = network"], [0]),
        (["--filter", "payload.n >= 2 or refused"], [2, 0]),
        (["--filter", "state = closed"], []),
        (["--limit", "1"], [2]),
    ],
)
def test_the_list_takes_a_filter(shop: Shop, arguments: list[str], numbers: list[int]) -> None:
    shop.do(three_dead(shop))
    rows = shop.cli("dlq", "list", "--json", *arguments).json
    assert [row["id"] for row in rows] == [IDS[number] for number in numbers]


def test_search_looks_into_message_type_and_task(shop: Shop) -> None:
    shop.do(three_dead(shop))
    assert [row["id"] for row in shop.cli("dlq", "search", "RELAY", "--json").json] == [IDS[2], IDS[1]]
    found = shop.cli("dlq", "search", "relay", "--filter", "task = email.send", "--json").json
    assert [row["id"] for row in found] == [IDS[1]]


def test_a_cut_list_says_that_there_are_more(shop: Shop) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "list", "--limit", "2")
    assert len(answer.out.splitlines()) == 3
    assert answer.err == "redrive: these are the last 2; there are more, and --limit shows them\n"
    assert shop.cli("dlq", "list", "--limit", "3").err == ""


def test_an_empty_list_says_so(shop: Shop) -> None:
    for verb in ("list", "groups"):
        answer = shop.cli("dlq", verb)
        assert (answer.code, answer.out, answer.err) == (0, "", "redrive: there are no such letters in memory://shop\n")


def test_a_wrong_filter_ends_with_code_2_and_its_column(shop: Shop) -> None:
    answer = shop.cli("dlq", "list", "--filter", "queue = a and reasn = timeout")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "redrive: unknown field 'reasn'; did you mean 'reason'? (column 15)\n"


# --- groups -----------------------------------------------------------------------------------------------------------


def test_groups_show_the_causes(shop: Shop) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "groups")
    assert (answer.code, answer.out, answer.err) == (0, GROUPS, "")
    [group] = shop.cli("dlq", "groups", "--filter", "task = thumbnail.make", "--json").json
    assert (group["group"], group["letters"], group["reason"]) == (TIMED_OUT, 1, "timeout")


# --- one letter -------------------------------------------------------------------------------------------------------


def test_show_tells_the_whole_story(shop: Shop) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "show", "a0")
    assert (answer.code, answer.out, answer.err) == (0, STORY, "")


def test_the_story_goes_on_when_it_is_brought_back(shop: Shop) -> None:
    shop.do(three_dead(shop), shop.store.letters.revive([IDS[0]], "alice", "the relay is back"))
    story = shop.cli("dlq", "show", "a0").out
    assert "2026-01-01 00:05:00  brought back by alice: the relay is back\n" in story


def test_a_long_story_says_what_it_leaves_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last entries are told; the sentence names the command that has all of them."""
    monkeypatch.setattr(dlq, "ENTRIES", 1)

    async def twice() -> None:
        await three_dead(shop)
        await shop.store.letters.discard([IDS[0]], "alice", "no use")
        await shop.store.letters.restore([IDS[0]], "alice", "of use")

    shop.do(twice())
    answer = shop.cli("dlq", "show", "a0")
    assert "restored by alice" in answer.out
    assert "no use" not in answer.out
    [sentence] = answer.err.splitlines()
    command = sentence.split("`")[1].split()
    everything = shop.cli(*command[1:], "--json").json
    assert sentence.startswith(f"redrive: {len(everything) - 1} earlier entries left out")
    assert "no use" in [entry["text"] for entry in everything]


def test_a_closed_letter_is_still_found_when_its_job_is_forgotten(shop: Shop) -> None:
    async def healed() -> None:
        await three_dead(shop)
        await shop.store.letters.revive([IDS[0]], "alice", "fixed")
        await settled(shop.store, Done(job=(await claimed(shop.store))[0]))
        shop.clock.advance("2d")
        assert await shop.store.jobs.prune(10) == 1

    shop.do(healed())
    answer = shop.cli("dlq", "show", IDS[0], "--json")
    assert (answer.code, answer.json[0]["state"], len(answer.json[0]["failures"])) == (0, "closed", 2)


@pytest.mark.parametrize(
    ("typed", "code", "sentence"),
    [
        ("ffff", 5, "no letter ends with ffff; `redrive dlq list` shows the last ones"),
        ("letter-7", 2, "'letter-7' is not the end of an id; ids have digits and the letters a to f"),
        ("1", 2, f"several letters end with 1: {IDS[1]}, {OTHER}; type more of the id"),
    ],
)
def test_what_is_not_found_is_said(shop: Shop, typed: str, code: int, sentence: str) -> None:
    async def one_more() -> None:
        await three_dead(shop)
        await buried(shop.store, id=OTHER)

    shop.do(one_more())
    answer = shop.cli("dlq", "show", typed)
    assert (answer.code, answer.out, answer.err) == (code, "", f"redrive: {sentence}\n")


def test_repro_calls_the_handler_with_the_payload(cli: Cli, folder: Path) -> None:
    """The snippet runs as it is."""
    (folder / "faulty.py").write_text(FAULTY, encoding="utf-8")
    assert cli("--app", "faulty", "enqueue", "fail", '{"text": "é"}').code == 0
    assert cli("worker", "faulty", "--burst").code == 0
    [letter] = cli("--app", "faulty", "dlq", "list", "--json").json
    snippet = cli("--app", "faulty", "dlq", "show", letter["id"], "--repro")
    assert snippet.code == 0
    run = subprocess.run([sys.executable, "-c", snippet.out], cwd=folder, capture_output=True, text=True, check=False)
    assert run.stderr.endswith("ValueError: no é\n")


def test_repro_has_nothing_in_it_that_a_letter_says_to_run(shop: Shop) -> None:
    """Names come from outside: one with a line break stays inside its text."""
    shop.do(buried(shop.store, id=IDS[0], task="a\nimport os", failure=a_failure(message="x\nimport sys")))
    body = ast.parse(shop.cli("dlq", "show", IDS[0], "--repro").out).body
    assert [type(line).__name__ for line in body[:4]] == ["Import", "Import", "ImportFrom", "Assign"]


def test_repro_masks_secrets_and_says_so(shop: Shop) -> None:
    shop.do(three_dead(shop))
    text = shop.cli("dlq", "show", "a0", "--repro").out
    assert "s3cr3t" not in text
    assert "# write the secrets where *** stands: they are not shown\n" in text


# --- stats ------------------------------------------------------------------------------------------------------------

STATS = """\
3 open letters
  oldest          2026-01-01T00:01:00.000Z (4m ago)
  newest          2026-01-01T00:03:00.000Z (2m ago)
  eligible        3
  retries         healed 0 % of what failed in the last 24 hours (0 of 3)

by queue
  2  ████████████████████            default
  1  ██████████                      email

by task
  2  ████████████████████            email.send
  1  ██████████                      thumbnail.make

by reason
  2  ████████████████████            timeout
  1  ██████████                      network

by priority
  3  ██████████████████████████████  5 (normal)
"""


def test_stats_count_by_kind(shop: Shop) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "stats")
    assert (answer.code, answer.out, answer.err) == (0, STATS, "")
    [shape] = shop.cli("dlq", "stats", "--json").json
    assert (shape["letters"], shape["by_reason"]) == (3, {"timeout": 2, "network": 1})
    assert (shape["healed_by_retry_24h"], shape["buried_24h"]) == (0, 3)


def test_what_retries_healed_is_told(shop: Shop) -> None:
    async def one_healed() -> None:
        await three_dead(shop)
        await added(shop.store)
        [job] = await claimed(shop.store)
        await settled(shop.store, Retried(job=job, at=0, failure=a_failure()))
        await settled(shop.store, Done(job=(await claimed(shop.store))[0]))

    shop.do(one_healed())
    assert "healed 25 % of what failed in the last 24 hours (1 of 4)" in shop.cli("dlq", "stats").out


def test_without_letters_stats_say_so(shop: Shop) -> None:
    answer = shop.cli("dlq", "stats")
    assert (answer.code, answer.out, answer.err) == (0, "", "redrive: there are no open letters in memory://shop\n")


@pytest.mark.parametrize(("limit", "code"), [("2", 1), ("3", 0)])
def test_stats_fail_over_a_limit(shop: Shop, limit: str, code: int) -> None:
    """For CI: what was asked for is still shown."""
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "stats", "--fail-over", limit)
    assert (answer.code, answer.out) == (code, STATS)
    assert answer.err == ("redrive: 3 open letters, more than 2\n" if code else "")


# --- export -----------------------------------------------------------------------------------------------------------


def test_export_writes_a_line_for_each(shop: Shop) -> None:
    """With payload and every failure; what looks secret is masked unless it is asked for."""
    shop.do(three_dead(shop))
    rows = shop.cli("dlq", "export").json
    assert [row["id"] for row in rows] == [IDS[2], IDS[1], IDS[0]]
    assert (rows[2]["payload"], len(rows[2]["failures"])) == ({"to": "a@b.c", "token": "***"}, 2)
    [row] = shop.cli("dlq", "export", "--filter", "reason = network", "--with-secrets").json
    assert row["payload"] == {"to": "a@b.c", "token": "s3cr3t"}


@pytest.mark.parametrize(("filter", "n"), [("", 3), ("state = closed", 0)])
def test_export_as_json_is_one_array(shop: Shop, folder: Path, filter: str, n: int) -> None:
    shop.do(three_dead(shop))
    answer = shop.cli("dlq", "export", "letters.json", "--filter", filter)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"redrive: wrote {n} letters to letters.json\n"
    assert len(json.loads((folder / "letters.json").read_text())) == n
    assert (folder / "letters.json").stat().st_mode & 0o777 == 0o600


def test_export_as_csv_quotes_what_a_spreadsheet_would_run(shop: Shop, folder: Path) -> None:
    async def formula() -> None:
        await buried(shop.store, id=IDS[0], failure=a_failure(message="=HYPERLINK(1)", host="@x"))

    shop.do(formula())
    assert shop.cli("dlq", "export", "letters.csv").code == 0
    [row] = csv.DictReader(io.StringIO((folder / "letters.csv").read_text()))
    assert (row["id"], row["message"], row["host"]) == (IDS[0], "'=HYPERLINK(1)", "'@x")
    assert row["payload"] == '{"to":"a@b.c"}'
    assert row["traceback"] == "Traceback (most recent call last): ..."


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("letters.txt", "letters.txt does not say by its ending what it is; add --format json, ndjson or csv"),
        ("none/x.json", "none/x.json cannot be written: No such file or directory; name another file"),
    ],
)
def test_a_file_that_cannot_be_made_is_refused(shop: Shop, file: str, sentence: str) -> None:
    answer = shop.cli("dlq", "export", file)
    assert (answer.code, answer.out, answer.err) == (2, "", f"redrive: {sentence}\n")


def test_a_dash_is_stdout_and_no_file(shop: Shop, folder: Path) -> None:
    """As everywhere."""
    shop.do(three_dead(shop))
    for arguments in (["-"], ["-", "--format", "json"]):
        answer = shop.cli("dlq", "export", *arguments)
        assert (answer.code, answer.out.count(IDS[0])) == (0, 1)
    assert list(folder.iterdir()) == []


def test_a_pipe_is_written_and_not_replaced(shop: Shop, folder: Path) -> None:
    """`export >(gzip)` and `export /dev/stdout` name no file; who runs as root must not lose a device."""
    shop.do(three_dead(shop))
    pipe = folder / "letters"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert shop.cli("dlq", "export", "letters", "--format", "ndjson").code == 0
    assert os.read(reader, 1 << 16).count(b"\n") == 3
    os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_a_link(shop: Shop, folder: Path) -> None:
    """What it points at is written anew."""
    (folder / "link.json").symlink_to("letters.json")
    assert shop.cli("dlq", "export", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert (folder / "letters.json").read_text() == "[]\n"


def test_two_forms_are_refused(shop: Shop) -> None:
    answer = shop.cli("dlq", "export", "--json", "--format", "csv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "redrive: --json and --format csv exclude each other; leave one of them out\n"


def test_an_exported_line_cannot_move_a_terminal(shop: Shop) -> None:
    """What turns the writing around is an escape of JSON, and means the same."""
    shop.do(buried(shop.store, id=IDS[0], failure=a_failure(message="a\u202eb\x9b")))
    answer = shop.cli("dlq", "export")
    assert (answer.json[0]["message"], "\u202e" in answer.out) == ("a\u202eb\x9b", False)


def test_several_filters_are_joined(shop: Shop) -> None:
    """None of them is forgotten."""
    shop.do(three_dead(shop))
    arguments = ("--filter", "reason = timeout or reason = network", "--filter", "task = email.send")
    assert len(shop.cli("dlq", "list", "--json", *arguments).json) == 2
    assert len(shop.cli("dlq", "export", *arguments).json) == 2


def test_any_limit_is_a_limit(shop: Shop) -> None:
    """Also one that no store can hold."""
    shop.do(three_dead(shop))
    for verb in ("list", "groups"):
        assert shop.cli("dlq", verb, "--limit", "9" * 30).code == 0


def test_a_broken_export_leaves_no_file(shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before stays as it was."""
    shop.do(three_dead(shop))
    (folder / "letters.json").write_text("before")

    async def broken(ids: object) -> list[Letter]:
        raise StoreUnavailable("the store is gone")

    monkeypatch.setattr(shop.store.letters, "whole", broken)
    assert shop.cli("dlq", "export", "letters.json").code == 4
    assert [path.name for path in folder.iterdir()] == ["letters.json"]
    assert (folder / "letters.json").read_text() == "before"

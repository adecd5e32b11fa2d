"""What a person at a terminal sees and what a pipe gets: width, colours, questions, signals, readers that leave."""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from redrive.cli.output import Column, cut, fitted, size
from redrive.cli.times import roughly
from redrive.clock import SECOND
from redrive.redact import printable
from redrive.store import Gate, Store
from redrive.stores.sqlite import SqliteStore
from redrive.testing.factories import a_job, added_many, buried
from tests.waiting import until

REDRIVE = [sys.executable, "-m", "redrive"]
WICKED = "\x1b]0;owned\x07\x1b[2J拒\u202egnp.exe\x9b31m"


@pytest.fixture
def store(folder: Path) -> Path:
    """A store with a few jobs, one of them dead of something wicked."""

    async def fill(store: Store) -> None:
        await buried(store, task=f"email.{WICKED}send")
        await added_many(store, 3, queue="email")
        await store.jobs.gate(Gate(kind="queue", key="email", state="closed", reason=WICKED), "ann")

    asyncio.run(_with(folder / "redrive.db", fill))
    return folder / "redrive.db"


async def _with(path: Path, work: object) -> None:
    store = SqliteStore(path)
    await store.open()
    try:
        await work(store)  # type: ignore[operator]
    finally:
        await store.close()


class Terminal:
    """A command on a terminal of its own, 80 columns wide."""

    def __init__(self, command: list[str], columns: int, environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=given | {"TERM": "xterm-256color"} | environment,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.seen = ""

    def read(self) -> str:
        """What has been shown so far."""
        with contextlib.suppress(BlockingIOError, OSError):
            while chunk := os.read(self._ours, 65536):
                self.seen += chunk.decode(errors="replace").replace("\r\n", "\n")
        return self.seen

    def shows(self, text: str) -> None:
        until(lambda: text in self.read(), 30)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def code(self) -> int:
        """Its exit code, once all it showed is read."""
        until(lambda: (self.read(), self.process.poll())[1] is not None, 30)
        self.read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@contextlib.contextmanager
def terminal(
    *words: str, columns: int = 80, environment: dict[str, str] | None = None, program: Sequence[str] = REDRIVE[1:]
) -> Iterator[Terminal]:
    screen = Terminal([sys.executable, *program, *words], columns, environment or {})
    try:
        yield screen
    finally:
        screen.close()


def plain(text: str) -> str:
    """What is left to be read when the colours are gone."""
    return "\n".join(printable(line) for line in text.splitlines())


# --- a terminal -------------------------------------------------------------------------------------------------------


def test_a_table_fits_the_terminal_and_has_a_bold_head(store: Path) -> None:
    with terminal("jobs", "list") as screen:
        assert screen.code() == 0
        head, *rows = screen.seen.splitlines()
    assert head.startswith("\x1b[1mID        STATE ")
    assert len(rows) == 4
    assert max(size(row) for row in plain(screen.seen).splitlines()) <= 80


def test_a_wide_terminal_is_used(store: Path) -> None:
    """What is cut at 80 columns is whole at 160."""
    with terminal("queues", "list", columns=60) as narrow, terminal("queues", "list", columns=160) as wide:
        assert (narrow.code(), wide.code()) == (0, 0)
    assert max(map(size, plain(narrow.seen).splitlines())) <= 60
    assert "…" in narrow.seen
    assert "…" not in wide.seen


@pytest.mark.parametrize("verb", ["jobs list", "queues list", "events", "doctor"])
def test_no_escape_but_our_colours_reaches_the_terminal(store: Path, verb: str) -> None:
    """Names and reasons of others cannot move the cursor, set the title or turn the text round."""
    with terminal(*verb.split(), columns=200) as screen:
        screen.code()
    for part in screen.seen.split("\x1b")[1:]:
        assert part[0] == "[", part
        assert part.lstrip("[0123456789;")[0] == "m", part
    assert not set("\x07\x9b\u202e") & set(screen.seen)
    assert "0;owned" not in screen.seen


def test_what_the_doctor_says_is_folded(store: Path) -> None:
    """Words stay whole, and what goes on stands under what it belongs to."""
    with terminal("doctor", columns=60) as screen:
        assert screen.code() == 1
    lines = plain(screen.seen).partition("redrive: ")[0].splitlines()
    assert all(line.startswith(("✓ ", "✗ ", "  ")) for line in lines)
    assert max(size(line) for line in lines if str(store) not in line) <= 60
    assert any(str(store) in line for line in lines)


def test_what_takes_long_says_how_far_it_is(store: Path) -> None:
    """On one line of the terminal, which is free again for what came of it; a pipe gets none of it."""
    with terminal("prove", columns=60) as screen:
        assert screen.code() == 0
    assert "\r\x1b[Kadding up, 1 of 18: counts\r\x1b[Kadding up, 2 of 18: jobs\r" in screen.seen
    assert "\r\x1b[K\x1b[1mQUEUE" in screen.seen
    piped = subprocess.run([*REDRIVE, "prove"], capture_output=True, text=True, check=True, timeout=60)
    assert "adding up" not in piped.stdout + piped.stderr


def test_what_does_not_add_up_is_folded(store: Path) -> None:
    """Its ids stay whole."""

    async def spoil(store: SqliteStore) -> None:
        await store.write(lambda tx: tx.db.execute("DELETE FROM letter").fetchall())

    asyncio.run(_with(store, spoil))
    with terminal("prove", columns=72) as screen:
        assert screen.code() == 1
    lines = plain(screen.seen).partition("redrive: ")[0].splitlines()
    assert any(line.startswith("dead without letter, 1 of them") for line in lines)
    assert max(map(size, lines)) <= 72


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_when_none_is_wanted(store: Path, name: str, value: str) -> None:
    with terminal("doctor", environment={name: value}) as screen:
        assert screen.code() == 1
    assert "✗ workers" in screen.seen
    assert "\x1b" not in screen.seen


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("n", 1, 3), ("", 1, 3)])
def test_much_is_changed_only_after_a_yes(store: Path, answer: str, code: int, left: int) -> None:
    with terminal("queues", "purge", "email") as screen:
        screen.shows("Discard 3 jobs? [y/N]: ")
        screen.type(f"{answer}\n")
        assert screen.code() == code
    assert f"queue email of sqlite:///{store} has 3 jobs to discard (3 ready)." in screen.seen
    assert ("nothing was changed" in screen.seen) == (code == 1)
    done = subprocess.run([*REDRIVE, "jobs", "list", "--state", "ready", "--json"], capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == left


def test_ctrl_c_at_the_question_changes_nothing(store: Path) -> None:
    with terminal("queues", "purge", "email") as screen:
        screen.shows("Discard 3 jobs? [y/N]: ")
        os.killpg(screen.process.pid, signal.SIGINT)
        assert screen.code() == 130
    assert "Traceback" not in screen.seen


def test_ctrl_c_between_the_question_and_its_answer_is_not_lost(store: Path) -> None:
    """Also when it interrupts nothing: here another thread hears it, as after the last look of a blocking read."""
    with terminal("queues", "purge", "email", program=["-c", DEAF]) as screen:
        screen.shows("Discard 3 jobs? [y/N]: ")
        os.killpg(screen.process.pid, signal.SIGINT)
        assert screen.code() == 130
    assert screen.seen.endswith("\nredrive: nothing was changed\n")


DEAF = """
import signal, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
from redrive.cli import main
main()
"""
"""The command line, with no signal that could interrupt what its main thread waits for."""


@pytest.mark.parametrize(("typed", "code"), [("maybe\ny\n", 0), ("\xff\nno\n", 1), ("\x04", 130)])
def test_what_is_no_answer_is_asked_again(store: Path, typed: str, code: int) -> None:
    """Ctrl-D, the end of all answers, changes nothing."""
    with terminal("queues", "purge", "email") as screen:
        screen.shows("Discard 3 jobs? [y/N]: ")
        screen.type(typed)
        assert screen.code() == code
    assert ("redrive: that is no answer; write y or n" in screen.seen) == (code != 130)
    assert ("nothing was changed" in screen.seen) == (code != 0)


def test_ctrl_c_while_lines_are_awaited_says_how_far_it_came(folder: Path) -> None:
    """Each line is enqueued as it comes, also from a person who types."""
    with terminal("enqueue", "some.task", "--from", "-", "--json") as screen:
        screen.type('{"a": 1}\n')
        screen.shows('{"line":1,"id":"')
        os.killpg(screen.process.pid, signal.SIGINT)
        assert screen.code() == 130
    assert f"redrive: enqueued 1 job of some.task in sqlite:///{folder}/redrive.db" in screen.seen
    assert "Traceback" not in screen.seen


def test_ctrl_c_at_a_worker_tells_what_it_does(folder: Path, module: Path) -> None:
    with terminal("worker", "tasks") as screen:
        screen.shows(" started (pid ")
        os.killpg(screen.process.pid, signal.SIGINT)
        assert screen.code() == 0
    assert "redrive: running jobs have 30s to finish; Ctrl-C once more leaves at once" in screen.seen


# --- pipes and signals ------------------------------------------------------------------------------------------------


def test_a_pipe_gets_plain_text_and_whole_lines(store: Path) -> None:
    """Eighty columns, no colours, also of the events, which a terminal would cut."""
    table = subprocess.run([*REDRIVE, "jobs", "list"], capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in table
    assert max(map(size, table.splitlines())) <= 80
    events = subprocess.run([*REDRIVE, "events"], capture_output=True, text=True, check=True).stdout
    assert "…" not in events


def test_a_reader_that_leaves_is_no_trouble(folder: Path) -> None:
    """As after `| head -1`: nothing on stderr, and the exit code that a broken pipe has."""

    async def fill(store: Store) -> None:
        await store.jobs.add([a_job() for _ in range(2_000)])

    asyncio.run(_with(folder / "redrive.db", fill))
    for words in (["jobs", "list", "--json", "--limit", "2000"], ["jobs", "list", "--limit", "2000"]):
        process = subprocess.Popen([*REDRIVE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert (process.wait(30), said) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize("words", ["jobs list", "jobs list --json", "--help", "doctor"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(store: Path, words: str, unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*REDRIVE, *words.split()], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert (
        ended.stderr
        == "redrive: the output cannot be written: No space left on device; make room, or send it elsewhere\n"
    )


@pytest.mark.parametrize(("words", "code"), [("jobs list", 0), ("enqueue some.task -", 2), ("migrate", 0)])
def test_streams_that_the_caller_has_closed(store: Path, words: str, code: int) -> None:
    """Nothing is shown, and nothing is a fault of ours."""
    command = f'"$0" -m redrive {words} <&- >&- 2>&-'
    assert subprocess.run(["bash", "-c", command, sys.executable], check=False, timeout=30).returncode == code


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = 'cd "$1" && rmdir "$1" && "$0" -m redrive jobs list'
    shell = ["bash", "-c", command, sys.executable, str(tmp_path / "gone")]
    ended = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "redrive: the working directory is gone; change to one that is there\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_following_goes_on_until_it_is_told_to_end(store: Path, number: int, code: int) -> None:
    """Each entry once, as it happens."""
    process = subprocess.Popen(
        [*REDRIVE, "events", "--follow", "--json", "--limit", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert msgspec.json.decode(process.stdout.readline())["event"] == "gate.set"

    async def pause(store: Store) -> None:
        await store.jobs.gate(Gate(kind="queue", key="bulk", state="closed"), "bob")

    asyncio.run(_with(store, pause))
    entry = msgspec.json.decode(process.stdout.readline())
    assert (entry["event"], entry["queue"], entry["actor"]) == ("gate.set", "bulk", "bob")
    process.send_signal(number)
    rest, said = process.communicate(timeout=30)
    assert (process.returncode, rest) == (code, b"")
    assert said.strip() == b""


def test_a_terminal_that_knows_no_unicode(store: Path) -> None:
    """Marks become words, and JSON stays JSON."""
    latin = {**os.environ, "PYTHONIOENCODING": "ascii"}
    doctor = subprocess.run([*REDRIVE, "doctor"], capture_output=True, env=latin, check=False)
    assert doctor.stdout.startswith(b"ok version: ")
    assert b"NO workers: " in doctor.stdout
    listed = subprocess.run([*REDRIVE, "jobs", "list", "--json"], capture_output=True, env=latin, check=True)
    rows = [msgspec.json.decode(line) for line in listed.stdout.splitlines()]
    assert rows[-1]["task"] == f"email.{WICKED}send"


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "room", "left"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("拒否", 4, "拒否"),
        ("拒否した", 4, "拒…"),
        ("e\u0301e\u0301e", 2, "e\u0301…"),
    ],
)
def test_a_text_is_cut_by_the_columns_it_takes(text: str, room: int, left: str) -> None:
    assert cut(text, room) == left
    assert size(left) <= room


def test_the_widest_column_gives_way_first_and_ids_never() -> None:
    columns = (Column("ID"), Column("A", shrink=True), Column("B", shrink=True))
    assert fitted(columns, [["0123456789", "a" * 20, "b" * 40]], 50) == [10, 18, 18]
    assert fitted(columns, [["0123456789", "a" * 20, "b" * 40]], 10) == [10, 6, 6]
    assert fitted(columns, [["0123456789", "a", "b"]], 50) == [10, 1, 1]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.25, "0.2s"),
        (45, "45s"),
        (59.9, "1m"),
        (89, "1m"),
        (179, "3m"),
        (3_599, "1h"),
        (10_799, "3h"),
        (172_799, "2d"),
    ],
)
def test_a_table_tells_a_time_to_the_nearest_of_its_unit(seconds: float, said: str) -> None:
    """What is due in 2 h 59 min is not said to be due in two hours."""
    assert roughly(round(seconds * SECOND)) == said

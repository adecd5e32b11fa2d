"""`redrive demo`, run for real: it ends well, says what the store says, fits its terminal and leaves nothing behind."""

import asyncio
import fcntl
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from redrive.cli.telling import sum_of
from redrive.demo.figures import Tally, hurt
from redrive.store import Entry
from redrive.stores.sqlite import SqliteStore
from tests.cli.conftest import Cli
from tests.waiting import until

if TYPE_CHECKING:
    from redrive.letter import Group

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
PATIENT = ("--patience", "90")
"""So that the story is told to its end however busy this machine is."""

LONG = 90


class Run:
    """A demo in a process of its own, with a folder of its own for temporary files; on a terminal if asked for."""

    def __init__(self, folder: Path, *words: str, terminal: tuple[int, int] | None = None, **environment: str) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "CI", "NO_COLOR")}
        own = {"TMPDIR": str(self.temporary), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self._written = bytearray()
        self._complained = bytearray()
        ours, theirs, aside = _ends(terminal)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redrive", "demo", *words],
            cwd=folder,
            env={**plain, **own, **environment},
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs if terminal else aside[1],
            start_new_session=True,
        )
        os.close(theirs)
        os.close(aside[1])
        self._readers = [_read(ours, self._written), _read(aside[0], self._complained)]

    @property
    def out(self) -> str:
        """What it has written so far."""
        return self._written.decode()

    @property
    def err(self) -> str:
        return self._complained.decode()

    @property
    def shown(self) -> list[str]:
        """Its lines without colours and movements."""
        return [ESCAPE.sub("", line).rstrip() for line in re.split(r"[\r\n]+", self.out)]

    def ended(self) -> int:
        """Wait for its end; answers the exit code."""
        code = self.process.wait(LONG)
        for reader in self._readers:
            reader.join(10)
        return code

    def left(self) -> list[str]:
        """What it left behind: processes that have its folder for temporary files, and files there."""
        marked = [process.info["pid"] for process in psutil.process_iter(["pid"]) if self._is_ours(process)]
        return [*map(str, marked), *(str(path) for path in self.temporary.iterdir())]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get("TMPDIR") == str(self.temporary))
        except psutil.Error:
            return False


def _ends(terminal: tuple[int, int] | None) -> tuple[int, int, tuple[int, int]]:
    """The ends of a pipe or a terminal for output, and of a pipe for stderr."""
    if terminal is None:
        return *os.pipe(), os.pipe()
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", terminal[1], terminal[0], 0, 0))
    return ours, theirs, os.pipe()


def _read(file: int, into: bytearray) -> threading.Thread:
    def read() -> None:
        with suppress(OSError):  # how the end of a terminal is told
            while chunk := os.read(file, 65536):
                into.extend(chunk)
        os.close(file)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


class Stage:
    """The runs of this module, side by side."""

    def __init__(self, folder: Path) -> None:
        self.kept = folder / "some" / "folder"
        self.plain = Run(folder / "plain", "--keep", str(self.kept), *PATIENT)
        project = folder / "json"
        project.mkdir()
        (project / "redrive.toml").write_text("nonsense = [", encoding="utf-8")
        self.json = Run(project, "--json", *PATIENT, REDRIVE_URL="sqlite:////nowhere/jobs.db")
        self.terminal = Run(folder / "terminal", *PATIENT, terminal=(80, 24))
        self.hasty = Run(folder / "hasty", "--patience", "1", terminal=(80, 24), TERM="dumb")
        self.stopped = Run(folder / "stopped", terminal=(60, 20), NO_COLOR="1")
        self.told = Run(folder / "told", "--keep", str(folder / "told" / "kept"), terminal=(44, 12))

    def all(self) -> list[Run]:
        return [self.plain, self.json, self.terminal, self.hasty, self.stopped, self.told]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """All of them have ended; two were told to, in the middle of their work."""
    stage = Stage(tmp_path_factory.mktemp("demo"))
    try:
        until(lambda: re.search("[1-9]\\d* done", stage.stopped.out), 60)
        stage.stopped.process.send_signal(signal.SIGINT)
        until(lambda: re.search("[1-9]\\d* done", stage.told.out), 60)
        stage.told.process.send_signal(signal.SIGTERM)
        for run in stage.all():
            run.ended()
        yield stage
    finally:
        for run in stage.all():
            run.process.kill()
            run.process.wait()


@pytest.fixture(scope="module")
def figures(stage: Stage) -> dict[str, Any]:
    """The object that `--json` prints."""
    (line,) = stage.json.out.splitlines()
    found: dict[str, Any] = msgspec.json.decode(line)
    return found


class Kept:
    """What is in the database that `--keep` left."""

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.groups: list[Group] = []
        self.entries: list[Entry] = []
        self.dead = 0
        asyncio.run(self._read(folder / "redrive.db"))

    async def _read(self, path: Path) -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            for count in await store.journal.counters():
                self.counts[count.name] += count.n
            self.groups = await store.letters.groups()
            self.entries = await store.journal.events(limit=10_000)
            self.dead = sum(depth.dead for depth in await store.jobs.depth())
        finally:
            await store.close()


@pytest.fixture(scope="module")
def kept(stage: Stage) -> Kept:
    return Kept(stage.kept)


# it ends well ---------------------------------------------------------------------------------------------------------


def test_it_ends_well_everywhere(stage: Stage) -> None:
    """In a pipe, on a terminal, on a dumb one, as JSON; nothing is said on stderr."""
    for run in (stage.plain, stage.json, stage.terminal, stage.hasty):
        assert (run.process.returncode, run.err) == (0, ""), run.out


def test_it_leaves_nothing_behind(stage: Stage) -> None:
    """No process and no file, however it ended."""
    assert [run.left() for run in stage.all()] == [[]] * len(stage.all())


def test_what_is_left_would_be_found(tmp_path: Path) -> None:
    """The control: a process and a file that stay."""
    run = Run(tmp_path / "stays", "--help")
    run.ended()
    (run.temporary / "stays").touch()
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, "TMPDIR": str(run.temporary)})
    try:
        until(lambda: run.left() == [str(sleeper.pid), str(run.temporary / "stays")])
    finally:
        sleeper.kill()
        sleeper.wait()


# it says what the store says ------------------------------------------------------------------------------------------


def test_the_story_is_told_to_its_end(figures: dict[str, Any]) -> None:
    """With patience every job ends as it should: 12 are saved by the fix, 3 stay dead, none is lost."""
    jobs = figures["jobs"]
    assert figures["differences"] == []
    assert (jobs["accepted"], jobs["done"], jobs["dead"], jobs["lost"]) == (200, 197, 3, 0)
    assert (figures["revived"], figures["revived_done"], figures["neighbours_hurt"]) == (12, 12, 0)
    assert {(each["reason"], each["count"]) for each in figures["died"]} == {
        ("validation", 12),
        ("timeout", 2),
        ("crashed", 1),
    }
    assert jobs["crashed"] == 3
    assert {(each["task"], each["reason"]) for each in figures["retries"]} >= {
        ("payments.charge", "network"),
        ("crm.sync", "rate_limited"),
    }


def test_the_figures_are_those_of_the_database(stage: Stage, kept: Kept) -> None:
    """Every number of the end is found in the database that was kept."""
    text = stage.plain.out
    found = re.search(r"(\d+) accepted = (\d+) done \+ (\d+) dead \+ 0 lost", text)
    assert found is not None
    assert [int(number) for number in found.groups()] == [kept.counts["enqueued"], kept.counts["done"], kept.dead]
    assert f"{kept.counts['done_on_retry']} needed a retry" in text
    assert f"{kept.counts['retried']} retries and {kept.counts['crashed']} crashes" in text
    assert f"{kept.counts['started']} starts" in text


def test_each_cause_is_named_with_its_count(stage: Stage, kept: Kept) -> None:
    """By task and reason, and how it came that nobody tried again."""
    text = stage.plain.out
    ends = {"validation": "not retried", "timeout": "given up after 2 attempts", "crashed": "given up after 3 crashes"}
    counts = Counter(entry.reason for entry in kept.entries if entry.event == "job.buried")
    for group in kept.groups:
        row = rf"^ *{counts[group.reason]}  {re.escape(group.task)} +{group.reason}: {ends[group.reason]}"
        assert re.search(row, text, re.MULTILINE), group
    assert "its process died: signal SIGSEGV" in text
    assert "last words: Fatal Python error: Segmentation fault" in text


def test_the_letters_that_were_brought_back_say_why(kept: Kept) -> None:
    """The journal has who did it and the reason that was shown."""
    back = [entry for entry in kept.entries if entry.event == "job.redriven"]
    assert len(back) == 12
    assert {(entry.task, entry.actor, entry.text) for entry in back} == {
        ("mail.welcome", "redrive demo", "release 1.1 also reads addresses with a name beside them")
    }


def test_nobodys_settings_change_it(stage: Stage, figures: dict[str, Any]) -> None:
    """A broken project file and the URL of a store of somebody's are not even read."""
    assert (stage.json.folder / "redrive.toml").read_text(encoding="utf-8") == "nonsense = ["
    assert figures["jobs"]["accepted"] == 200


def test_no_patience_is_said_not_hidden(stage: Stage) -> None:
    """After a second most jobs are not done: that is what is told."""
    assert re.search(r"= \d+ done \+ \d+ dead \+ [1-9]\d* not ended \+ 0 lost", stage.hasty.out)
    assert "have not ended" in stage.hasty.out
    assert "goes on with them" in " ".join(stage.hasty.out.split())


def test_a_neighbour_that_was_hurt_would_be_counted() -> None:
    """The control: the guilty one does not count, whom it took along does."""
    died = Entry(seq=1, at=0, event="job.buried", job="guilty", reason="crashed")
    tried = Entry(seq=2, at=0, event="job.retried", job="guilty", reason="crashed")
    lost = Entry(seq=3, at=0, event="job.retried", job="near", reason="lost")
    blamed = Entry(seq=4, at=0, event="job.retried", job="next", reason="crashed")
    assert hurt([died, tried]) == 0
    assert hurt([died, tried, lost, blamed]) == 2


def test_a_lost_job_would_be_seen() -> None:
    """The control for the sum."""
    assert sum_of(Tally(accepted=5, done=2, dead=1, running=1)) == "5 accepted = 2 done + 1 dead + 1 not ended + 1 lost"


# how it looks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "columns"), [("plain", 80), ("terminal", 80), ("stopped", 60), ("told", 44)])
def test_every_line_fits(stage: Stage, name: str, columns: int) -> None:
    """Commands alone are longer, because they must be copied whole; so is the sentence of a signal."""
    run: Run = getattr(stage, name)
    long = [line for line in run.shown if len(line) > columns and not re.match(r"  \S*redrive |redrive: ", line)]
    assert long == []
    assert any(len(line) > columns * 2 // 3 for line in run.shown)


def test_a_terminal_sees_it_live(stage: Stage) -> None:
    """Bars that are drawn over, in colours, a cursor that is there again, and nothing of what a dying child prints."""
    out = stage.terminal.out
    assert out.count("\x1b[1A") > 50
    assert COLOUR.search(out)
    assert out.rindex("\x1b[?25h") > out.rindex("\x1b[?25l")
    assert re.search("payments.charge  ━+╍+·+", ESCAPE.sub("", out))
    assert "Stack (most recent call first)" not in out


def test_elsewhere_it_is_plain_lines(stage: Stage) -> None:
    """In a pipe and on a dumb terminal: no escape sequence, and a line about each second."""
    for run in (stage.plain, stage.hasty):
        assert "\x1b" not in run.out
        assert len(re.findall(r"^ +[\d.]+s  \d+ done, \d+ dead", run.out, re.MULTILINE)) >= 2


def test_no_color_is_honoured(stage: Stage) -> None:
    """NO_COLOR leaves the live view and takes its colours."""
    assert "\x1b[1A" in stage.stopped.out
    assert not COLOUR.search(stage.stopped.out)


# stopping -------------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_it_cleanly(stage: Stage) -> None:
    """One sentence, 130, and the cursor is there again."""
    out = stage.stopped.out
    assert stage.stopped.process.returncode == 130
    assert out.count("redrive: ") == 1
    assert "the demo was stopped; its processes are gone, and its folder is removed" in out
    assert "Traceback" not in out
    assert out.rindex("\x1b[?25h") > out.rindex("\x1b[?25l")


def test_a_termination_keeps_what_was_to_be_kept(stage: Stage) -> None:
    """143, and nothing is running or lost in the database that stays."""
    assert stage.told.process.returncode == 143
    folder = stage.told.folder / "kept"
    assert f"what has happened so far is in {folder}" in stage.told.out
    counts = Kept(folder).counts
    assert counts["enqueued"] == 200
    assert counts["done"] > 0


# keeping --------------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_the_database_and_the_log(stage: Stage) -> None:
    """No pipe, no lock of a worker, no half-written file."""
    files = {path.relative_to(stage.kept): path.lstat().st_mode for path in stage.kept.rglob("*")}
    assert {str(path) for path, mode in files.items() if stat.S_ISREG(mode)} == {
        "redrive.db",
        "worker.log",
        "redrive.db-redrive/write.lock",
    }
    assert not any(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in files.values())
    log = (stage.kept / "worker.log").read_text(encoding="utf-8")
    assert "Fatal Python error: Segmentation fault" in log
    assert len(re.findall(", buried$", log, re.MULTILINE)) == 15


def test_the_three_commands_work(stage: Stage, cli: Cli) -> None:
    """As they are printed; the page that is named tells of the segfault."""
    printed = [line.strip() for line in stage.plain.shown if "--url sqlite:///" in line]
    answers = [cli(*line.split("redrive ", 1)[1].split()) for line in printed]
    assert [answer.code for answer in answers] == [0, 0, 0]
    dead, page, events = (answer.out for answer in answers)
    assert len(dead.splitlines()) == 4
    assert "broken.png" in page
    assert "SIGSEGV" in page
    assert "job.redriven" in events


def test_a_folder_that_has_a_database_is_refused(folder: Path, cli: Cli) -> None:
    """It is left as it is."""
    (folder / "redrive.db").write_text("mine", encoding="utf-8")
    answer = cli("demo", "--keep", ".")
    assert answer.code == 2
    assert answer.err == (
        f"redrive: {folder} already has a redrive.db; name another folder after --keep, or remove that file\n"
    )
    assert [path.name for path in folder.iterdir()] == ["redrive.db"]
    assert (folder / "redrive.db").read_text(encoding="utf-8") == "mine"


def test_no_place_for_temporary_files_is_said(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence, with what helps."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))
    answer = cli("demo")
    assert answer.code == 2
    assert answer.err == (
        "redrive: no temporary folder can be made: No such file or directory; set TMPDIR, or use --keep DIR\n"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("file", "names a file; name a folder"),
        ("file/below", "names a file; name a folder"),
        ("what?", "a question mark cannot stand in the path"),
        ("", "--keep names no folder"),
    ],
)
def test_what_cannot_be_a_folder_is_refused(folder: Path, cli: Cli, name: str, sentence: str) -> None:
    """In one sentence, before anything is run."""
    (folder / "file").touch()
    answer = cli("demo", "--keep", name)
    assert answer.code == 2
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["file"]

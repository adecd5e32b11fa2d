"""Worker processes under a supervisor: started again when they die, explained, told to end, and never left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive.supervisor import EXIT_RECYCLE, SUPERVISED, supervised_beat
from tests.processes import alive, hangups
from tests.waiting import until

PROGRAM = Path(__file__).parent / "programs" / "supervising.py"


class Supervised:
    """A supervisor in a process of its own, and its workers as they wrote themselves down."""

    def __init__(self, folder: Path, *behaviours: str, processes: int = 1, grace: float = 20, patience: float = 30):
        self.folder = folder
        numbers = [str(processes), str(grace), str(patience)]
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *numbers, str(folder), *behaviours],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def starts(self) -> list[tuple[int, float, list[str]]]:
        """Pid, time and signals of each worker, in the order of their starts."""
        written = [path.read_text("ascii").split() for path in sorted(self.folder.iterdir(), key=lambda p: int(p.name))]
        return [(int(words[0]), float(words[1]), words[2:]) for words in written if len(words) > 1]

    def pids(self) -> list[int]:
        return [pid for pid, _, _ in self.starts()]

    def working(self, number: int) -> list[int]:
        """Wait until so many workers have been started and the last of them beats; answers the pids of all."""
        until(lambda: len(self.starts()) == number)
        return self.pids()

    def heard(self, *signals: str) -> None:
        """Wait until the first worker has heard these."""
        until(lambda: self.starts()[0][2] == [*signals])

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, list[dict[str, Any]], str]:
        """Its exit code, the deaths it reported, and what it said."""
        out, said = self.process.communicate(timeout=20)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], said


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Any]:
    """Starts supervisors, and ends what is left of them."""
    started: list[Supervised] = []

    def run(*behaviours: str, **options: Any) -> Supervised:
        with hangups(signal.SIG_DFL):
            supervised = Supervised(tmp_path, *behaviours, **options)
        started.append(supervised)
        return supervised

    yield run
    for supervised in started:
        supervised.process.kill()
        supervised.process.communicate()
    until(lambda: not any(alive(pid) for supervised in started for pid in supervised.pids()))


def test_workers_that_are_done_end_their_supervisor(running: Any) -> None:
    """A burst is over when the last one has nothing left to do."""
    assert running("exit:0", processes=2).ended() == (0, [], "")


def test_a_worker_that_dies_is_replaced_at_once_and_then_ever_later(running: Any) -> None:
    """The cause of each death is told, and what happens next."""
    supervised = running("segfault", "exit:3", "kill", "exit:0")
    code, deaths, said = supervised.ended()
    assert code == 0
    assert [(death["kind"], death["cause"]) for death in deaths] == [
        ("Crashed", "signal SIGSEGV"),
        ("Crashed", "exit code 3"),
        ("Lost", "killed from outside (signal SIGKILL)"),
    ]
    pids = supervised.pids()
    assert [death["pid"] for death in deaths] == pids[:3]
    assert [death["sentence"] for death in deaths] == [
        f"worker process {pids[0]} died: signal SIGSEGV; another starts at once",
        f"worker process {pids[1]} died: exit code 3; another starts in 0.5s",
        f"worker process {pids[2]} died: killed from outside (signal SIGKILL); another starts in 1s",
    ]
    assert all(death["sentence"] in said for death in deaths)
    times = [at for _, at, _ in supervised.starts()]
    assert times[2] - times[1] >= 0.5
    assert times[3] - times[2] >= 1.0


def test_a_worker_that_asks_to_be_replaced_is_no_death(running: Any) -> None:
    """However often: there is no report and no wait."""
    supervised = running(*[f"ready-exit:{EXIT_RECYCLE}"] * 3, "exit:0")
    assert supervised.ended() == (0, [], "")
    assert len(supervised.pids()) == 4


@pytest.mark.parametrize("code", [2, 4])
def test_a_worker_that_cannot_start_ends_its_supervisor(running: Any, code: int) -> None:
    """What was typed is wrong, or the store is unreachable: to try again would hide that. The others end too."""
    supervised = running("work", f"exit:{code}", processes=2)
    assert supervised.ended()[:2] == (code, [])
    assert not any(map(alive, supervised.pids()))


def test_the_same_code_after_a_good_start_is_a_death(running: Any) -> None:
    """The store was there before: it may come back."""
    code, deaths, _ = running("ready-exit:4", "exit:0").ended()
    assert (code, [death["cause"] for death in deaths]) == (0, ["exit code 4"])


def test_a_death_that_cannot_be_reported_is_said(running: Any) -> None:
    """The other workers live on."""
    code, _, said = running("exit:3", "exit:0", "unreportable").ended()
    assert code == 0
    assert "its death could not be reported: RuntimeError: the store is away" in said


@pytest.mark.parametrize(("sent", "heard"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGTERM")])
def test_a_signal_is_passed_on_and_workers_end_in_peace(running: Any, sent: str, heard: str) -> None:
    """Each hears it once; what ends as told is no failure."""
    supervised = running("work", processes=2 if sent == "SIGTERM" else 1)
    pids = supervised.working(2 if sent == "SIGTERM" else 1)
    supervised.tell(signal.Signals[sent])
    assert supervised.ended() == (0, [], "")
    assert [told for _, _, told in supervised.starts()] == [[heard] for _ in pids]
    assert not any(map(alive, pids))


def test_a_worker_that_does_not_listen_yet_ends_in_peace_as_well(running: Any) -> None:
    """The signal ends it before it has begun."""
    supervised = running("deaf")
    supervised.working(1)
    supervised.tell(signal.SIGTERM)
    assert supervised.ended() == (0, [], "")


def test_a_second_signal_is_passed_on_and_its_code_is_told(running: Any) -> None:
    """Workers leave at once, giving back what they hold."""
    supervised = running("work:1")
    supervised.working(1)
    supervised.tell(signal.SIGTERM)
    supervised.heard("SIGTERM")
    supervised.tell(signal.SIGINT)
    assert supervised.ended()[0] == 128 + signal.SIGINT
    assert supervised.starts()[0][2] == ["SIGTERM", "SIGINT"]


def test_a_third_signal_kills(running: Any) -> None:
    """What does not listen is not asked again."""
    supervised = running("work:9")
    (pid,) = supervised.working(1)
    supervised.tell(signal.SIGTERM)
    supervised.heard("SIGTERM")
    supervised.tell(signal.SIGINT)
    supervised.heard("SIGTERM", "SIGINT")
    supervised.tell(signal.SIGTERM)
    assert supervised.ended()[0] == 128 + signal.SIGINT
    assert not alive(pid)


def test_workers_beyond_their_grace_are_killed(running: Any) -> None:
    """A handler that swallows its end does not keep the service from stopping."""
    supervised = running("work:9", grace=-4.5)  # half a second with the margin that workers have beyond it
    (pid,) = supervised.working(1)
    supervised.tell(signal.SIGTERM)
    code, _, said = supervised.ended()
    assert code == 128 + signal.SIGTERM
    assert "the worker processes did not end in time; killing them now" in said
    assert not alive(pid)


def test_a_silent_worker_is_killed_and_replaced(running: Any) -> None:
    """Its interpreter may never be let go of; the cause says so."""
    supervised = running("silent", "exit:0", patience=0.6)
    code, deaths, _ = supervised.ended()
    assert code == 0
    assert [death["kind"] for death in deaths] == ["Crashed"]
    assert deaths[0]["cause"].startswith("silent for 1s")


def test_a_paused_supervisor_does_not_take_its_workers_for_silent(running: Any) -> None:
    """What it did not hear while it stood still was not silence."""
    supervised = running("work", patience=1.2)
    (pid,) = supervised.working(1)
    os.kill(supervised.process.pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    passed(1.5)
    os.kill(supervised.process.pid, signal.SIGCONT)
    os.kill(pid, signal.SIGCONT)
    passed(0.6)
    supervised.tell(signal.SIGTERM)
    assert supervised.ended() == (0, [], "")


@pytest.mark.parametrize("behaviour", ["work", "spin"])
def test_workers_die_with_a_killed_supervisor(running: Any, behaviour: str) -> None:
    """Whatever they do, also when they never let go of the interpreter."""
    supervised = running(behaviour, processes=2)
    pids = supervised.working(2)
    supervised.process.kill()
    until(lambda: not any(map(alive, pids)))


def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path: Path) -> None:
    """Who ignores the signal before the start wants it ignored."""
    with hangups(signal.SIG_IGN):
        supervised = Supervised(tmp_path, "work")
    try:
        (pid,) = supervised.working(1)
        supervised.tell(signal.SIGHUP)
        supervised.tell(signal.SIGTERM)
        assert supervised.ended() == (0, [], "")
        assert supervised.starts()[0][2] == ["SIGTERM"]
        assert not alive(pid)
    finally:
        supervised.process.kill()


def test_without_a_supervisor_there_is_nobody_to_beat_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was started by hand has no beat, and goes on without."""
    monkeypatch.delenv(SUPERVISED, raising=False)
    assert supervised_beat() is None


def passed(seconds: float) -> None:
    """That much time goes by."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end)

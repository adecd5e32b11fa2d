"""`redrive worker`: what it says, how it is told to end, and several of them under a supervisor."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Cli
from tests.processes import hangups
from tests.waiting import until

BURST = ("worker", "tasks", "--burst")


def add(cli: Cli, task: str, **payload: str) -> str:
    """A job of a task in the folder's module; its id."""
    answer = cli("--app", "tasks", "enqueue", task, msgspec.json.encode(payload).decode())
    assert answer.code == 0, answer.err
    return answer.out.strip()


def state(cli: Cli, id: str) -> dict[str, Any]:
    [row] = cli("jobs", "show", id, "--json").json
    return row  # type: ignore[no-any-return]


# --- in this process --------------------------------------------------------------------------------------------------


def test_a_burst_runs_all_there_is(cli: Cli, folder: Path, module: Path) -> None:
    """It says where it works and what became of each job, on stderr, and ends with 0."""
    ids = [add(cli, "echo", text=str(number)) for number in range(3)]
    answer = cli(*BURST)
    assert (answer.code, answer.out) == (0, "")
    started = answer.err.splitlines()[0]
    assert f"30 slots, 6 tasks, every queue, on sqlite:///{folder}/redrive.db; accepted jobs survive" in started
    assert f"(pid {os.getpid()})" in started
    assert answer.err.count(" echo done on attempt 1 in ") == 3
    assert " stopped: 3 jobs done, 0 buried" in answer.err
    assert [state(cli, id)["result"] for id in ids] == ["0", "1", "2"]


@pytest.mark.parametrize("flag", [("--json",), ("--log-format", "json")])
def test_the_log_can_be_json(cli: Cli, module: Path, flag: tuple[str, ...]) -> None:
    lines = [msgspec.json.decode(line) for line in cli(*BURST, *flag).err.splitlines()]
    assert [line["event"] for line in lines] == ["worker.started", "worker.draining", "worker.stopped"]


def test_the_log_can_be_quieter(cli: Cli, module: Path) -> None:
    assert cli(*BURST, "--log-level", "error").err == ""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-c", "5", "--threads", "2"], "9 slots, 6 tasks, every queue"),
        (["-q", "email=8", "-q", "default=2"], "6 tasks, email, default"),
        (["--queue", "email"], "6 tasks, email"),
    ],
)
def test_slots_and_queues_are_options(cli: Cli, module: Path, options: list[str], sentence: str) -> None:
    assert sentence in cli(*BURST, *options).err.splitlines()[0]


def test_only_the_named_queues_are_served(cli: Cli, module: Path) -> None:
    id = add(cli, "echo", text="a")
    assert cli(*BURST, "-q", "email").code == 0
    assert state(cli, id)["state"] == "ready"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-c", "0"], "worker.concurrency cannot be '0' (flag): write a whole number of at least 1"),
        (["-c", "many"], "worker.concurrency cannot be 'many' (flag)"),
        (["--threads", "-1"], "worker.threads cannot be '-1' (flag)"),
        (["-q", "email=many"], "'email=many' is not a queue: write its name, or name=slots"),
        (["-q", "email=0"], "worker.queues cannot be ['email=0'] (flag)"),
        (["--processes", "0"], "worker.processes cannot be '0' (flag)"),
        (["--log-level", "loud"], "log.level cannot be 'loud' (flag)"),
    ],
)
def test_an_option_that_is_wrong(cli: Cli, module: Path, options: list[str], sentence: str) -> None:
    answer = cli(*BURST, *options)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("reference", ["tasks:app", "tasks", "tasks.py", "tasks.py:app", "./tasks.py"])
def test_an_app_is_named_in_any_of_these_ways(cli: Cli, module: Path, reference: str) -> None:
    answer = cli("worker", reference, "--burst")
    assert answer.code == 0, answer.err


MODULES = {
    "noapp": "x = 1\n",
    "twoapps": "from redrive import Redrive\none = Redrive()\ntwo = Redrive()\n",
    "broken": "import nonexistent_module\n",
    "wrong": "1 +\n",
    "raising": "raise RuntimeError('no database password=hunter2')\n",
    "exiting": "import sys\nsys.exit('usage: exiting FILE')\n",
    "fixed": "from redrive import Redrive\napp = Redrive('sqlite:///own.db')\n",
}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["worker"], "no app was named; write `redrive worker module:app`"),
        (["worker", "nowhere"], "there is no module 'nowhere' in "),
        (["worker", "nowhere.py"], "there is no file "),
        (["worker", "noapp"], "noapp has no app in it; it needs a line such as `app = Redrive()`"),
        (["worker", ":app"], "':app' names no module; write `module:app`"),
        (["worker", "./tasks"], "'./tasks' names no module; write `module:app`"),
        (["worker", "noapp:x"], "noapp has no app named 'x'; it needs a line such as `x = Redrive()`"),
        (["worker", "twoapps"], "twoapps has several apps (one, two) in it; write which one, as in `twoapps:one`"),
        (["worker", "twoapps:app"], "twoapps has no app named 'app'; it has one, two"),
        (
            ["worker", "broken"],
            "module 'broken' cannot be imported: No module named 'nonexistent_module' (broken.py, line 1)",
        ),
        (
            ["worker", "raising"],
            "module 'raising' cannot be imported: RuntimeError: no database password=*** (raising.py, line 1)",
        ),
        (["worker", "wrong"], "module 'wrong' cannot be imported: SyntaxError: invalid syntax (wrong.py, line 1)"),
        (["worker", ".tasks"], "'.tasks' names no module; write `module:app`"),
        (
            ["worker", "exiting"],
            "module 'exiting' ends the program when it is imported (exit code usage: exiting FILE)",
        ),
        (["--url", "sqlite:///x.db", "worker", "fixed"], "but the app names sqlite:///"),
    ],
)
def test_an_app_that_is_none(cli: Cli, folder: Path, words: list[str], sentence: str) -> None:
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    answer = cli(*words)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert not list(folder.glob("*.db"))


def test_an_app_that_names_its_store_is_asked_for_it(cli: Cli, folder: Path) -> None:
    """`redrive jobs list` would otherwise look into another file than the worker."""
    (folder / "fixed.py").write_text(MODULES["fixed"], encoding="utf-8")
    assert cli("worker", "fixed", "--burst").code == 0
    assert cli("--app", "fixed", "enqueue", "some.task", "--by-name").code == 0
    assert len(cli("--app", "fixed", "jobs", "list", "--json").json) == 1
    (folder / "redrive.toml").write_text('app = "fixed"\n', encoding="utf-8")
    assert len(cli("jobs", "list", "--json").json) == 1
    assert cli("--url", "sqlite:///own.db", "worker", "--burst").code == 0
    assert [path.name for path in folder.glob("*.db")] == ["own.db"]


# --- processes of its own ---------------------------------------------------------------------------------------------


class Running:
    """A worker in a process of its own, and what it has said so far."""

    def __init__(self, folder: Path, words: list[str], environment: dict[str, str], *, nohup: bool) -> None:
        self._log = (folder / "worker.log").open("w+", encoding="utf-8")
        with hangups(signal.SIG_IGN if nohup else signal.SIG_DFL):
            self.process = subprocess.Popen(
                [sys.executable, "-m", "redrive", *words],
                stdout=self._log,
                stderr=self._log,
                env={**os.environ, **environment},
            )

    @property
    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def says(self, text: str) -> None:
        """Wait for it to say this."""
        until(lambda: text in self.log or self._alive(), 30)

    def _alive(self) -> bool:
        assert self.process.poll() is None, self.log
        return False

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    def code(self) -> int:
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


Start = Callable[..., Running]


@pytest.fixture
def start(folder: Path, module: Path) -> Iterator[Start]:
    """Start `redrive` with these words; it is ended with the test."""
    running: list[Running] = []

    def begin(*words: str, nohup: bool = False, **environment: str) -> Running:
        running.append(Running(folder, list(words), environment, nohup=nohup))
        return running[-1]

    yield begin
    for each in running:
        each.close()


def running_job(cli: Cli, start: Start, folder: Path, task: str = "wait", **environment: str) -> tuple[Running, str]:
    """A worker that runs one job."""
    payload = {"started": str(folder / "started")}
    id = add(cli, task, **payload, **({"until": str(folder / "go")} if task == "wait" else {}))
    worker = start("worker", "tasks:app", **environment)
    until((folder / "started").exists, 30)
    return worker, id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_running_jobs_finish(cli: Cli, start: Start, folder: Path, number: int) -> None:
    """A clean drain is a success: exit code 0."""
    worker, id = running_job(cli, start, folder)
    worker.tell(number)
    worker.says("drains: 1 job still running")
    (folder / "go").touch()
    assert worker.code() == 0
    assert state(cli, id)["state"] == "done"


def test_under_nohup_a_closed_terminal_stops_nothing(start: Start) -> None:
    """Who has it ignored before the start wants the worker to live on."""
    worker = start("worker", "tasks:app", nohup=True)
    worker.says(" started (pid ")
    worker.tell(signal.SIGHUP)
    worker.tell(signal.SIGTERM)
    assert worker.code() == 0
    assert "drains" in worker.log


def test_what_outlasts_the_grace_is_given_back(cli: Cli, start: Start, folder: Path) -> None:
    """Without spending its attempt; the worker has still ended as it was told to."""
    worker, id = running_job(cli, start, folder, REDRIVE_WORKER__GRACE="100ms")
    worker.tell(signal.SIGTERM)
    assert worker.code() == 0
    left = state(cli, id)
    assert (left["state"], left["attempts"]) == ("ready", 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_leaves_at_once(cli: Cli, start: Start, folder: Path, number: int, code: int) -> None:
    """The grace is thirty seconds; the job is given back all the same."""
    worker, id = running_job(cli, start, folder)
    worker.tell(signal.SIGTERM)
    worker.says("drains: 1 job still running")
    worker.tell(number)
    assert worker.code() == code
    left = state(cli, id)
    assert (left["state"], left["attempts"]) == ("ready", 0)


def test_a_handler_that_never_yields_cannot_keep_it(cli: Cli, start: Start, folder: Path) -> None:
    """Signals are heard though the loop is blocked; the job's lease is left for others to take over."""
    worker, id = running_job(cli, start, folder, task="block")
    worker.tell(signal.SIGTERM)

    def told_again() -> bool:
        """Two signals sent at once may arrive as one."""
        worker.tell(signal.SIGTERM)
        return worker.process.poll() is not None

    until(told_again, 30)
    assert worker.code() == 143
    assert "did not leave at once; its grace was 30s; its jobs are left to other workers" in worker.log
    assert state(cli, id)["state"] == "leased"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_while_the_app_is_imported(start: Start, folder: Path, number: int, code: int) -> None:
    slow = "import pathlib, threading\npathlib.Path('importing').touch()\nthreading.Event().wait(60)\n"
    (folder / "slow.py").write_text(slow, encoding="utf-8")
    worker = start("worker", "slow")
    until((folder / "importing").exists, 30)
    worker.tell(number)
    assert worker.code() == code
    assert worker.log.strip() == ""


def test_a_worker_that_recycles_says_that_nobody_restarts_it(cli: Cli, start: Start) -> None:
    add(cli, "stick")
    worker = start("worker", "tasks", "--threads", "1")
    assert worker.code() == 75
    assert (
        "redrive: the worker asks to be replaced (exit code 75) and nobody restarts it; use --processes" in worker.log
    )


def test_a_thread_that_a_handler_left_on_the_loop_does_not_keep_the_process(cli: Cli, start: Start) -> None:
    """The worker has left in peace; asyncio alone would wait for the thread for ever."""
    add(cli, "elsewhere")
    worker = start("worker", "tasks", "--burst")
    assert worker.code() == 0
    assert "stopped: 0 jobs done, 1 buried" in worker.log
    assert "leaves handlers behind that do not end" in worker.log


def test_child_processes_use_the_store_that_the_flags_name(cli: Cli, start: Start, folder: Path) -> None:
    """A handler that enqueues in a child process must not fill another store."""
    answer = cli("--app", "tasks", "--url", "sqlite:///other.db", "enqueue", "where")
    assert answer.code == 0
    assert start("worker", "tasks", "--burst", "--url", "sqlite:///other.db").code() == 0
    [page] = cli("--url", "sqlite:///other.db", "jobs", "show", answer.out.strip(), "--json").json
    assert page["result"] == f"sqlite:///{folder}/other.db"


# --- several processes ------------------------------------------------------------------------------------------------


def workers(cli: Cli, folder: Path) -> list[dict[str, Any]]:
    return cli("workers", "list", "--json").json if (folder / "redrive.db").exists() else []


def test_processes_are_watched_over(cli: Cli, start: Start, folder: Path) -> None:
    """One is killed: its death is written down, another takes its place, its job is done; then all drain."""
    id = add(cli, "wait", started=str(folder / "started"), until=str(folder / "go"))
    worker = start("worker", "tasks", "--processes", "2")
    until((folder / "started").exists, 30)
    until(lambda: len(workers(cli, folder)) == 2, 30)
    victim = int((folder / "started").read_text())
    (folder / "started").unlink()
    os.kill(victim, signal.SIGKILL)
    worker.says(f"worker process {victim} died: ")
    (folder / "go").touch()
    until(lambda: state(cli, id)["state"] == "done", 30)
    until(lambda: len([row for row in workers(cli, folder) if row["pid"] != victim]) == 2, 30)
    [death] = until(lambda: [row for row in cli("events", "--json").json if row["event"] == "worker.died"], 30)
    assert death["text"].startswith(f"worker process {victim} died: ")
    worker.tell(signal.SIGTERM)
    assert worker.code() == 0
    assert workers(cli, folder) == []


def test_a_worker_that_cannot_start_ends_its_supervisor(start: Start, folder: Path) -> None:
    """There is no use in starting it again and again."""
    worker = start("worker", "nowhere", "--processes", "2")
    assert worker.code() == 2
    assert "there is no module 'nowhere'" in worker.log
    assert "another starts" not in worker.log


def test_a_burst_of_several_processes_ends(cli: Cli, start: Start, module: Path) -> None:
    ids = [add(cli, "echo", text=str(number)) for number in range(4)]
    assert start("worker", "tasks", "--burst", "--processes", "2").code() == 0
    assert {state(cli, id)["state"] for id in ids} == {"done"}


TELLING = """
import os, pathlib
from redrive import Redrive

pathlib.Path(f"imported-{os.getpid()}").touch()
app = Redrive()
"""


def test_the_supervisor_imports_no_app(folder: Path, start: Start) -> None:
    """What the app does at import happens in the workers, never in the process that watches over them."""
    (folder / "telling.py").write_text(TELLING, encoding="utf-8")
    worker = start("worker", "telling", "--burst", "--processes", "2")
    assert worker.code() == 0
    importers = {int(path.name.partition("-")[2]) for path in folder.glob("imported-*")}
    assert len(importers) == 2
    assert worker.process.pid not in importers

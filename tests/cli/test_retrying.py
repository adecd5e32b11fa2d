"""`redrive dlq retry` with what it changes, what it foresees, and with the jobs run by its own process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.backoff import Delays, Fixed
from redrive.cli.driving import Speed, progress
from redrive.job import Job
from redrive.limits import Limits
from redrive.redrives import report
from redrive.store import Buried, Done, JobQuery, Plan
from redrive.testing.factories import a_failure, a_worker, added_many, claimed
from tests.cli.conftest import Answer, Cli, Shop
from tests.waiting import until

REFUSED = "cafe000000000000"


@pytest.fixture
def look(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The same store by an app that the environment names, so that the command does not run the jobs itself."""
    monkeypatch.setenv("REDRIVE_APP", "shop")
    return Cli()


async def letters(shop: Shop, n: int, **changes: object) -> list[Job]:
    """So many dead jobs."""
    await added_many(shop.store, n, **changes)
    jobs = await claimed(shop.store, n)
    failure = a_failure(at=shop.clock.now(), fingerprint=REFUSED, title="refused")
    await shop.store.jobs.settle([Buried(job=job, failure=failure) for job in jobs])
    return jobs


def plan_of(shop: Shop) -> Plan:
    """What was asked for last."""
    [redrive] = shop.do(shop.store.redrives.find(limit=1))
    return redrive.plan


# --- what is said otherwise -------------------------------------------------------------------------------------------


def test_what_is_said_otherwise_is_in_the_plan(shop: Shop, folder: Path) -> None:
    shop.do(letters(shop, 3))
    answer = shop.cli(
        "dlq", "retry", "--all", "--yes", "--detach", "--strategy", "fixed", "--base", "1s", "--timeout", "9s",
        "--priority", "high", "--order", "oldest", "--set", "payload.limit=5", "--set", "payload.to=ann",
    )  # fmt: skip
    assert answer.code == 0
    limits = Limits(backoff=Fixed(1_000_000), jitter="none", timeout=9_000_000)
    settings = ("payload.limit=5", "payload.to=ann")
    assert plan_of(shop) == Plan(limits=limits, priority=8, order="oldest", settings=settings)
    (folder / "patch.json").write_text('[{"op": "remove", "path": "/to"}]', encoding="utf-8")
    shop.cli("dlq", "retry", "--all", "--yes", "--detach", "--patch", "patch.json")
    assert plan_of(shop).patch == [{"op": "remove", "path": "/to"}]
    shop.cli("dlq", "retry", "--all", "--yes", "--detach", "--strategy", "delays", "--base", "5,30")
    assert plan_of(shop).limits == Limits(backoff=Delays((5_000_000, 30_000_000)), jitter="none", max_attempts=3)


def test_a_strategy_is_a_policy_of_the_project(shop: Shop, look: Cli, folder: Path) -> None:
    shop.do(letters(shop, 1))
    (folder / "redrive.toml").write_text('[retry.often]\nmax_attempts = 9\nbackoff = "immediate"\n', encoding="utf-8")
    assert look("dlq", "retry", "--all", "--yes", "--detach", "--strategy", "often").code == 0
    limits = plan_of(shop).limits
    assert limits is not None
    assert limits.max_attempts == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategy", "lazy"], "there are exponential, linear, fixed, immediate, delays"),
        (["--set", "limit=5"], "names no place"),
        (["--set", "payload.n=5", "--patch", "patch.json"], "exclude each other"),
        (["--patch", "nowhere.json"], "cannot be read"),
        (["--patch", "number.json"], "list of objects"),
        (["--priority", "urgent"], "priority"),
        (["--order", "newest"], "oldest"),
        (["--max-delay", "soon"], "max_delay"),
    ],
)
def test_a_wrong_wish_opens_nothing(shop: Shop, folder: Path, words: list[str], said: str) -> None:
    shop.do(letters(shop, 1))
    (folder / "patch.json").write_text("[]", encoding="utf-8")
    (folder / "number.json").write_text("5", encoding="utf-8")
    answer = shop.cli("dlq", "retry", "--all", "--yes", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert shop.do(shop.store.redrives.find()) == []


@pytest.mark.parametrize(("one", "other"), [(("--ramp", "1,5"), "--no-ramp"), (("--stop-at", "10%"), "--no-stop")])
def test_two_answers_to_one_question_are_refused(shop: Shop, one: tuple[str, str], other: str) -> None:
    """Neither is left out in silence."""
    shop.do(letters(shop, 1))
    answer = shop.cli("dlq", "retry", "--all", "--dry-run", *one, other)
    assert (answer.code, answer.err) == (2, f"redrive: {one[0]} and {other} exclude each other; give one of them\n")


def test_the_history_tells_what_was_said_otherwise(shop: Shop, look: Cli) -> None:
    """Secrets masked; a redrive that leaves everything as it is has nothing to tell."""
    shop.do(letters(shop, 1))
    look("dlq", "retry", "--all", "--yes", "--detach")
    assert look("redrives", "list", "--json").json[0]["options"] == {}
    look(
        "dlq", "retry", "--all", "--yes", "--detach", "--strategy", "delays", "--base", "5,30", "--timeout", "9s",
        "--priority", "8", "--to-queue", "slow", "--order", "oldest", "--set", "payload.password=hunter2",
        "--keep-attempts",
    )  # fmt: skip
    [shape] = look("redrives", "list", "--limit", "1", "--json").json
    assert {name: words for name, words in shape["options"].items() if name != "set"} == {
        "retry": "after 5.0s, 30.0s, at most 3 attempts, each at most 9.0s, attempts kept",
        "queue": "slow",
        "priority": "8",
        "order": "oldest",
    }
    shown = look("redrives", "show", shape["id"]).out
    look(
        "dlq", "retry", "--all", "--yes", "--detach", "--limit", "9", "--rate", "90/h", "--parallel", "2",
        "--ramp", "1,3", "--stop-at", "12.5%", "--stage-timeout", "5m", "--judge", "final",
        "--force", "--reason", "seen",
    )  # fmt: skip
    [paced] = look("redrives", "list", "--limit", "1", "--json").json
    assert paced["options"] == {
        "limit": "9",
        "rate": "1.5/m",
        "parallel": "2",
        "ramp": "1, 3",
        "stop_at": "12.5%",
        "stage_timeout": "5m",
        "judge": "final",
        "force": "also what needs review or has expired",
    }
    assert "  stop at       12.5%" in look("redrives", "show", paced["id"]).out
    assert "  retry         after 5.0s, 30.0s" in shown
    assert "hunter2" not in shown


# --- looking ahead ----------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_skipped_and_why(shop: Shop, look: Cli) -> None:
    """Held by another redrive, and where the change cannot be made."""
    [held, *_] = shop.do(letters(shop, 2, payload=b'{"to":"a"}'))
    shop.do(letters(shop, 3, payload=b'{"to":{"deep":{}}}'))
    look("dlq", "retry", held.id, "--yes", "--detach")
    redrive = shop.do(shop.store.redrives.find())[0]
    shop.do(shop.store.redrives.freeze(redrive.id, 10))
    answer = look("dlq", "retry", "--all", "--dry-run", "--set", "payload.to.deep.n=1")
    assert answer.code == 0
    assert "2 would be skipped:" in answer.out
    assert f"1  already in redrive {redrive.id[-8:]}" in answer.out
    assert "1  the patch cannot be done to it: --set 'payload.to.deep.n': there is nothing at 'deep'" in answer.out
    assert "changed on the way, such as letter" in answer.out
    assert '"n": 1' in answer.out
    [shape] = look("dlq", "retry", "--all", "--dry-run", "--json").json
    assert (shape["would_skip"], shape["looked_at"]) == ({f"already in redrive {redrive.id[-8:]}": 1}, 5)


def test_it_says_when_no_signature_is_known(folder: Path, fill: Callable[..., None]) -> None:
    """A change is made all the same, and workers look at it when they drive."""
    fill("mail", 1, '{"n": n}')
    said = "payloads are not checked against signatures here"
    changed = "dlq", "retry", "--all", "--dry-run", "--set", "payload.n=5"
    assert said in redrive(folder, *changed).err
    assert said not in redrive(folder, "--app", "shop:app", *changed).err
    assert said not in redrive(folder, *changed[:-2]).err


def test_a_dry_run_looks_at_those_that_it_would_take(shop: Shop, look: Cli) -> None:
    """Of the oldest when those come first."""
    [old] = shop.do(letters(shop, 1))
    shop.clock.advance(60)
    shop.do(letters(shop, 2))
    look("dlq", "retry", old.id, "--yes", "--detach")
    shop.do(shop.store.redrives.freeze(shop.do(shop.store.redrives.find())[0].id, 10))
    for order, skipped in (("oldest", 1), ("spread", 0)):
        [shape] = look("dlq", "retry", "--all", "--dry-run", "--limit", "2", "--order", order, "--json").json
        assert (sum(shape["would_skip"].values()), shape["looked_at"]) == (skipped, 2)


def test_a_dry_run_says_how_long_it_takes(shop: Shop, look: Cli) -> None:
    """From jobs that went well and the slots of who is alive; unknown where nothing is known."""
    shop.do(letters(shop, 10))
    unknown = look("dlq", "retry", "--all", "--dry-run", "--rate", "1/s")
    assert "how long it takes is unknown" in unknown.out
    assert "by its rate at least 10.0s" in unknown.out
    [task] = {job.task for job in shop.do(shop.store.jobs.find(JobQuery()))}

    async def one_goes_well() -> None:
        await added_many(shop.store, 1)
        await shop.store.jobs.settle([Done(job=(await claimed(shop.store))[0], duration=2_000_000)])
        await shop.store.workers.beat(a_worker(slots=5, tasks=(task,)), 60_000_000)

    shop.do(one_goes_well())
    known = look("dlq", "retry", "--all", "--dry-run")
    assert "it takes about 4.1s, without retries (1 runs that went well took 2.0s on average, 5 at once)" in known.out


def test_it_says_when_nobody_would_run_them(shop: Shop, look: Cli) -> None:
    """No worker, none for the queue, none that knows the task."""
    [job] = shop.do(letters(shop, 1, queue="email"))

    def told() -> str:
        return look("dlq", "retry", "--all", "--yes", "--detach").err

    assert "no worker is alive, and so nobody runs these jobs; start `redrive worker`, or run them here with" in told()
    shop.do(shop.store.workers.beat(a_worker(id="one", tasks=(job.task,), queues=("other",)), 60_000_000))
    assert "no worker that is alive serves queue email" in told()
    shop.do(shop.store.workers.beat(a_worker(id="two", tasks=("else",), queues=("email",)), 60_000_000))
    shop.do(shop.store.workers.leave("one"))
    assert f"no worker that is alive knows task {job.task}" in told()
    shop.do(shop.store.workers.beat(a_worker(id="three", tasks=(job.task,)), 60_000_000))
    assert "nobody runs" not in told()


# --- going on ---------------------------------------------------------------------------------------------------------


def test_one_that_was_paused_goes_on(shop: Shop) -> None:
    """As it was asked for; nothing can be asked otherwise beside it."""
    shop.do(letters(shop, 1))
    shop.cli("dlq", "retry", "--all", "--yes", "--detach")
    [redrive] = shop.do(shop.store.redrives.find())
    shop.cli("redrives", "pause", redrive.id)
    answer = shop.cli("dlq", "retry", "--resume", redrive.id[-8:], "--detach")
    assert answer.code == 0
    assert f"redrive {redrive.id[-8:]} is left to the workers" in answer.err
    assert shop.do(shop.store.redrives.find())[0].state == "freezing"
    for words in (["--all"], ["email"], ["--rate", "5/s"], ["--dry-run"]):
        refused = shop.cli("dlq", "retry", "--resume", redrive.id[-8:], *words)
        assert refused.code == 2
        assert f"leave out {words[0]}" in refused.err
    assert shop.cli("dlq", "retry", "--resume", "ffffffff").code == 5


def test_slots_without_an_app_are_refused(shop: Shop, look: Cli) -> None:
    shop.do(letters(shop, 1))
    look("dlq", "retry", "--all", "--yes", "--detach")
    answer = look("dlq", "retry", "--resume", shop.do(shop.store.redrives.find())[0].id, "--parallel", "3")
    assert answer.code == 2
    assert "give --app too" in answer.err


# --- how it goes ------------------------------------------------------------------------------------------------------


def test_the_speed_is_that_of_the_last_half_minute() -> None:
    """What ended before a pause says nothing of how long the rest takes."""
    speed = Speed()
    assert [speed.now(0, 0), speed.now(10, 100), speed.now(100, 100), speed.now(101, 120)] == [0, 10, 0, 20]


def test_what_stays_dead_is_not_waited_for(shop: Shop) -> None:
    """The line of progress counts the time until what goes on has ended, not the letters of a stopped group."""
    shop.do(letters(shop, 30))
    redrive = shop.do(shop.store.redrives.open(Plan(), "alice", ""))

    async def half_way(*, stop: bool) -> str:
        await shop.store.redrives.freeze(redrive.id, 100)
        await shop.store.redrives.release(redrive.id, 1, 10, 100)
        if stop:
            await shop.store.redrives.stop(redrive.id, [REFUSED], "alice")
        return progress(await report(shop.store, shop.clock, redrive.id), 2.0)

    assert shop.do(half_way(stop=False)).endswith("0/30, 0 done, 0 failed, 0 skipped, stage 1, 2.0/s, 15s left")
    assert shop.do(half_way(stop=True)).endswith("2.0/s, 5s left")


# --- running them here ------------------------------------------------------------------------------------------------

APP = """
import asyncio
import threading
from pathlib import Path

from redrive import Redrive, Retry

app = Redrive()
here = Path(__file__).parent


@app.task(name="mail", queue="email", retry=Retry(1))
async def mail(n: int) -> None:
    if not (here / "mended").exists():
        raise ConnectionError("refused")


@app.task(name="other", queue="other", retry=Retry(1))
def other() -> None:
    (here / "other ran").touch()


@app.task(name="wait", queue="slow", retry=Retry(1))
async def wait() -> None:
    if (here / "mended").exists():
        (here / "waits").touch()
        await asyncio.sleep(600)
    raise ConnectionError("refused")


@app.task(name="block", queue="slow", retry=Retry(1))
def block() -> None:
    if (here / "mended").exists():
        (here / "waits").touch()
        threading.Event().wait(600)
    raise ConnectionError("refused")
"""

FILL = "from shop import app; app.enqueue_many(app.job({task!r}, {payload}) for n in range({n})); app.drain()"


@pytest.fixture
def fill(folder: Path) -> Callable[..., None]:
    """Makes letters of a task of an app in the folder, and mends what they failed of."""
    (folder / "shop.py").write_text(APP, encoding="utf-8")

    def make(task: str, n: int, payload: str = "None") -> None:
        code = FILL.format(task=task, payload=payload, n=n)
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
        (folder / "mended").touch()

    return make


def redrive(folder: Path, *words: str) -> Answer:
    """A command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "redrive", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_it_runs_the_jobs_itself_when_an_app_is_named(folder: Path, fill: Callable[..., None]) -> None:
    """To the end of the redrive, without any worker; only the queues of its letters are served."""
    fill("mail", 30, '{"n": n}')
    code = "from shop import app; app.enqueue('other')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    answer = redrive(folder, "dlq", "retry", "--all", "--yes", "--app", "shop:app")
    assert answer.code == 0, answer.err
    assert "  successful         30" in answer.out.splitlines()
    assert "this process runs the jobs of queue email, 5 at a time" in answer.err
    assert not (folder / "other ran").exists()


def test_a_task_that_the_app_lacks_is_named(folder: Path, fill: Callable[..., None]) -> None:
    """Its jobs wait for a worker that knows it, and the others are run."""
    fill("mail", 1, '{"n": n}')
    (folder / "shop.py").write_text(APP.replace('"mail"', '"letters"'), encoding="utf-8")
    command = [sys.executable, "-m", "redrive", "dlq", "retry", "--all", "--yes", "--app", "shop:app"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = [process.stderr.readline(), process.stderr.readline()]
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
    assert "the app has no task mail; its jobs wait for a worker that knows it" in told[1]
    assert process.returncode == 143


@pytest.mark.parametrize("task", ["wait", "block"])
def test_ctrl_c_gives_back_what_runs(folder: Path, fill: Callable[..., None], task: str) -> None:
    """At once, whatever the handler does, and it says how to go on; somebody else can."""
    fill(task, 1)
    command = [sys.executable, "-m", "redrive", "dlq", "retry", "--all", "--yes", "--app", "shop:app"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: (folder / "waits").exists())
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "what ran here is given back" in err
    [row] = Answer(0, redrive(folder, "jobs", "list", "--json").out, "").json
    assert (row["state"], row["attempts"]) == ("ready", 0)
    [left] = Answer(0, redrive(folder, "redrives", "list", "--json").out, "").json
    assert f"--resume {left['id'][-8:]}" in err
    assert left["state"] == "running"


def test_one_that_was_left_is_ended_here(folder: Path, fill: Callable[..., None]) -> None:
    fill("mail", 3, '{"n": n}')
    assert redrive(folder, "dlq", "retry", "--all", "--yes", "--detach").code == 0
    [left] = Answer(0, redrive(folder, "redrives", "list", "--json").out, "").json
    answer = redrive(folder, "dlq", "retry", "--resume", left["id"], "--app", "shop:app", "--parallel", "2", "--json")
    assert answer.code == 0, answer.err
    [shape] = answer.json
    assert (shape["id"], shape["state"], shape["successful"]) == (left["id"], "finished", 3)

"""The fixture for users' own tests, used as they would use it: in a project of theirs, by a pytest of its own."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

APP = """
from redrive import Redrive, Retry, fixed

app = Redrive("sqlite:///must-not-appear.db")
sent = []

@app.task(queue="email", retry=Retry(3, backoff=fixed("10m"), jitter="none"))
def send_email(to, template="welcome"):
    sent.append(to)
    if template == "broken":
        raise ConnectionError("no mail server")
    return len(sent)

@app.task(isolation="process")
async def report(n):
    await send_email.aenqueue(f"{n}@b.c")

@app.task
def unkeepable():
    return object()
"""

USERS_TESTS = """
import asyncio

import mailing
import pytest
from mailing import app, report, send_email, unkeepable

AS_BEFORE = dict(clock=app.clock, random=app.random, store=app._store, isolates=app.isolates)


def test_what_was_enqueued_is_seen_and_run(redrive_test):
    jobs = redrive_test(app)
    send_email.enqueue("a@b.c")
    assert jobs.arguments(send_email) == [{"to": "a@b.c"}]
    assert jobs.states(send_email) == ["ready"]
    assert jobs.drain() == 1
    [job] = jobs.jobs_of("mailing.send_email")
    assert (job.state, job.queue, job.attempts, job.result, job.error) == ("done", "email", 1, 1, None)


def test_the_next_test_begins_anew(redrive_test):
    jobs = redrive_test(app)
    assert jobs.jobs == [] and jobs.letters == [] and jobs.drain() == 0


def test_retries_take_no_time(redrive_test):
    jobs = redrive_test(app)
    began = jobs.clock.now()
    send_email.enqueue("a@b.c", template="broken")
    jobs.drain()
    [letter] = jobs.letters
    [job] = jobs.jobs
    assert (letter.reason, letter.attempts) == ("network", 3)
    assert (job.state, job.error) == ("dead", "ConnectionError: no mail server")
    assert jobs.clock.now() - began == 20 * 60 * 1_000_000


def test_a_delay_passes_when_the_test_says(redrive_test):
    jobs = redrive_test(app)
    send_email.using(delay="1h").enqueue("a@b.c")
    assert jobs.states(send_email) == ["scheduled"]
    jobs.advance("1h")
    jobs.drain()
    assert jobs.states(send_email) == ["done"]


def test_isolated_tasks_run_where_the_test_can_reach_them(redrive_test, monkeypatch):
    told = []
    monkeypatch.setattr(mailing, "sent", told)
    jobs = redrive_test(app)
    report.enqueue(7)
    assert jobs.drain() == 2
    assert told == ["7@b.c"]
    assert jobs.arguments(send_email) == [{"to": "7@b.c"}]


def test_the_a_names(redrive_test):
    async def body():
        jobs = redrive_test(app)
        await send_email.aenqueue("a@b.c")
        assert jobs.states(send_email) == ["ready"]
        await jobs.adrain()
        assert jobs.states(send_email) == ["done"]
    asyncio.run(body())


def test_a_result_that_was_not_kept_is_no_obstacle(redrive_test):
    jobs = redrive_test(app)
    unkeepable.enqueue()
    jobs.drain()
    assert jobs.states(unkeepable) == ["done"]
    assert jobs.jobs[0].result is None


def test_that_fails(redrive_test):
    jobs = redrive_test(app)
    send_email.enqueue("a@b.c")
    assert app.clock is not jobs.clock


def test_everything_is_put_back_even_then():
    assert AS_BEFORE == dict(clock=app.clock, random=app.random, store=app._store, isolates=app.isolates)
    assert not app.events.wanted("job.enqueued")
"""

NAMES = [line[4:].partition("(")[0] for line in USERS_TESTS.splitlines() if line.startswith("def test_")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project, whose tests have been run once."""
    place = tmp_path_factory.mktemp("project")
    (place / "mailing.py").write_text(APP)
    (place / "test_mailing.py").write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=told.xml", "-Werror"]
    subprocess.run(command, cwd=place, capture_output=True, timeout=60, check=False)
    return place


@pytest.mark.parametrize("name", NAMES)
def test_a_users_test(project: Path, name: str) -> None:
    """Each passes, but the one that is meant to fail."""
    [case] = [case for case in ElementTree.parse(project / "told.xml").iter("testcase") if case.get("name") == name]
    faults = [fault.text for fault in case]
    assert bool(faults) == (name == "test_that_fails"), faults


def test_nothing_appears_on_the_disk(project: Path) -> None:
    """The app's own store is never opened."""
    assert not list(project.glob("must-not-appear*"))


def test_the_plugin_imports_little() -> None:
    """pytest loads it in every project of its environment, also in those that never use it."""
    script = "import sys, redrive.testing.plugin; print([name for name in sys.modules if name == 'redrive.app'])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "[]\n"

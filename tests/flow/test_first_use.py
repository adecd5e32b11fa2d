"""The first use of an app, wherever it happens: in many threads at once, or when the program ends."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from redrive import Redrive

CALLERS = 12


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_many_loops_that_use_an_app_first_at_the_same_time_share_its_store(engine: str, tmp_path: Path) -> None:
    """One store is opened, whoever comes first: a second one in memory would take jobs that nobody ever finds."""
    app = Redrive("memory://" if engine == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    together, stores = threading.Barrier(CALLERS, timeout=10), []

    def caller() -> None:
        together.wait()
        asyncio.run(app.aenqueue("elsewhere"))
        stores.append(app.store)

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    before = _writers()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(stores) == CALLERS
    assert [depth.ready for depth in asyncio.run(app.store.jobs.depth())] == [CALLERS]
    assert _writers() - before == (engine == "sqlite")
    app.close()


def _writers() -> int:
    return sum(thread.name == "redrive-writer" for thread in threading.enumerate())


def ran(folder: Path, program: str) -> tuple[str, str]:
    """What a program says that begins with an app of its own; one that stands still is an error."""
    text = 'from redrive import Redrive\napp = Redrive("sqlite:///jobs.db")\n' + dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_fork_during_the_first_use_is_no_harm(tmp_path: Path) -> None:
    """A child that found half of an imported engine would fail, or wait for ever for the rest of it."""
    program = """
        import os
        import threading

        adding = [threading.Thread(target=app.enqueue, args=("x",)) for _ in range(3)]
        for thread in adding:
            thread.start()
        children = []
        for _ in range(12):
            children.append(os.fork())
            if children[-1] == 0:
                app.enqueue("x")
                os._exit(0)
        for thread in adding:
            thread.join()
        print([os.waitpid(child, 0)[1] for child in children] == [0] * 12)
        app.close()
    """
    out, err = ran(tmp_path, program)
    assert (out, "Traceback" in err) == ("True\n", False), err


def test_a_program_may_close_its_app_when_it_ends(tmp_path: Path) -> None:
    """As `atexit` is for; the executor of the loop is gone by then."""
    out, err = ran(tmp_path, "import atexit\napp.enqueue('x')\natexit.register(app.close)")
    assert (out, "Traceback" in err) == ("", False), err
    assert [each.name for each in tmp_path.iterdir() if "-" in each.name] == ["jobs.db-redrive"]


@pytest.mark.parametrize("used_before", [True, False])
def test_a_job_enqueued_when_the_program_ends_is_accepted_or_refused_clearly(tmp_path: Path, used_before: bool) -> None:
    """Python 3.12 starts no thread then: an app that was not used before says so."""
    program = f"""
        import atexit
        from redrive import RedriveError

        if {used_before}:
            app.enqueue("x")

        @atexit.register
        def last():
            try:
                print(app.enqueue("y").created)
            except RedriveError as error:
                print(error)
    """
    out, _ = ran(tmp_path, program)
    assert out == "True\n" or (not used_before and "call it before the program ends" in out)


def test_a_job_enqueued_after_the_end_of_the_program_is_refused(tmp_path: Path) -> None:
    """By then no other thread runs: waiting for one would be for ever."""
    program = """
        class Late:
            def __del__(self):
                app.enqueue("y")

        late = Late()
        app.enqueue("x")
    """
    _, err = ran(tmp_path, program)
    assert "enqueue() comes too late: the program has ended; call it before" in err

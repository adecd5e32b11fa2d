"""Handlers in child processes: answers, deadlines, caps and deaths, each with real processes."""

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from redrive.outcome import Crashed, Interrupted, Lost
from redrive.runners.process import Answer, ChildPool, Died, Reply, StartFailed, TimedOut
from tests.processes import alive, open_files
from tests.waiting import auntil, until

pytestmark = pytest.mark.anyio

PROGRAMS = Path(__file__).with_name("programs")
MIB = 1024 * 1024


class Said:
    """What children have printed."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, lines: bytes) -> None:
        self.text += lines.decode()

    def numbers(self, word: str) -> list[int]:
        """The numbers in the last line that begins with this word."""
        found = re.findall(rf"^{word} ([\d ]+)$", self.text, re.MULTILINE)
        return [int(number) for number in found[-1].split()] if found else []


@asynccontextmanager
async def children(size: int = 1, hello: bytes = b"", **options: Any) -> AsyncIterator[ChildPool]:
    """A pool of obedient children, closed at the end."""
    pool = ChildPool([sys.executable, str(PROGRAMS / "obedient_child.py")], hello, size, **options)
    try:
        yield pool
    finally:
        await pool.close()
    assert pool.pids == []


async def obeyed(pool: ChildPool, order: str, **options: Any) -> Answer:
    """The answer to an order, within ten seconds unless told otherwise."""
    return await pool.run(order.encode(), **{"timeout": 10.0, **options})


async def answered(pool: ChildPool, order: str, **options: Any) -> str:
    """The text of a reply."""
    answer = await obeyed(pool, order, **options)
    assert isinstance(answer, Reply), answer
    return answer.frame.decode()


# answers and reuse ----------------------------------------------------------------------------------------------------


async def test_a_child_answers_and_is_given_the_next_job() -> None:
    """The same process, as long as it is sound."""
    async with children() as pool:
        assert await answered(pool, "echo:hello") == "hello"
        assert await answered(pool, "pid") == await answered(pool, "pid") == str(pool.pids[0])


async def test_a_job_that_must_be_alone_has_a_child_of_its_own() -> None:
    """It neither gets a used one nor leaves one."""
    async with children() as pool:
        first = await answered(pool, "pid")
        alone = await answered(pool, "pid", alone=True)
        assert alone != first
        await auntil(lambda: not alive(int(alone)))
        assert await answered(pool, "pid") == first


async def test_no_more_children_run_than_there_is_room_for() -> None:
    """The next job waits for a free one."""
    async with children(2) as pool:
        pids = await asyncio.gather(*(answered(pool, "pid") for _ in range(8)))
        assert len(set(pids)) <= 2


async def test_a_large_job_and_a_large_answer_go_through() -> None:
    """Frames are not bound by what a socket takes at once."""
    text = "x" * (4 * MIB)
    async with children() as pool:
        assert await answered(pool, f"echo:{text}") == text


async def test_an_idle_child_ends_after_a_while() -> None:
    """It costs memory that nobody uses."""
    async with children(idle=0.01) as pool:
        pid = int(await answered(pool, "pid"))
        await auntil(lambda: not alive(pid) and not pool.pids)


async def test_an_idle_child_that_was_killed_is_replaced() -> None:
    """Its death is no job's."""
    async with children() as pool:
        first = int(await answered(pool, "pid"))
        os.kill(first, signal.SIGKILL)
        await auntil(lambda: f"redrive-child-{first}" not in {thread.name for thread in threading.enumerate()})
        assert int(await answered(pool, "pid")) != first
        await auntil(lambda: len(pool.pids) == 1)


async def test_a_job_is_given_to_another_child_when_the_first_dies_before_taking_it() -> None:
    """A child that stands still and is then killed never began."""
    async with children() as pool:
        first = int(await answered(pool, "pid"))
        os.kill(first, signal.SIGSTOP)
        job = asyncio.create_task(answered(pool, "pid"))
        await turns()
        os.kill(first, signal.SIGKILL)
        assert int(await job) != first


async def test_a_handler_that_reads_its_input_finds_the_end() -> None:
    """It does not take what is typed for the worker."""
    async with children() as pool:
        assert await answered(pool, "read") == "''"


async def test_a_flood_of_output_does_not_block_a_job() -> None:
    """All of it is passed on, while the job runs."""
    said = Said()
    async with children(forward=said) as pool:
        assert await answered(pool, "flood:20000") == "flooded"
        await auntil(lambda: "line 19999 " in said.text)


async def test_cancelling_ends_the_child_and_interrupts_the_job() -> None:
    """Its worker stops, or its lease is lost; the reason comes along."""
    said = Said()
    async with children(forward=said) as pool:
        job = asyncio.create_task(obeyed(pool, "wait"))
        await auntil(lambda: said.numbers("waiting"))
        job.cancel("its lease was lost")
        assert await job == Interrupted("its lease was lost")
        await auntil(lambda: not alive(said.numbers("waiting")[0]))


async def test_closing_ends_idle_and_busy_children() -> None:
    """None survives its pool."""
    said = Said()
    async with children(2, forward=said) as pool:
        job = asyncio.create_task(obeyed(pool, "wait"))
        await auntil(lambda: said.numbers("waiting"))
        await answered(pool, "pid")
        pids = pool.pids
        await pool.close()
        assert not any(map(alive, pids))
        assert isinstance(await job, Died)


async def test_fifty_runs_leave_no_descriptor_and_no_thread_behind() -> None:
    """Replies, deaths, timeouts and failed starts alike."""
    async with children() as pool:
        inside = await answered(pool, "files")
    files, threads = open_files(), threading.active_count()
    async with children(2) as pool:
        orders = ["die:exit", "extend:9", *["echo:a"] * 23] * 2
        await asyncio.gather(*(obeyed(pool, order, timeout=0.2) for order in orders))
        assert await answered(pool, "files", alone=True) == inside
        assert await answered(pool, "files") == inside
    await auntil(lambda: open_files() <= files and threading.active_count() <= threads)


# deadlines ------------------------------------------------------------------------------------------------------------


async def test_a_child_is_killed_at_the_deadline() -> None:
    """The limit, what it printed last and its memory are told."""
    said = Said()
    async with children(forward=said) as pool:
        answer = await obeyed(pool, "wait", timeout=0.5)
        assert isinstance(answer, TimedOut)
        assert answer.limit == pytest.approx(0.5)
        assert answer.stderr.startswith("waiting ")
        assert answer.memory is not None
        assert answer.memory > MIB
        assert not alive(said.numbers("waiting")[0])


@pytest.mark.parametrize("how", ["wait", "wait,apart"])
async def test_what_a_job_has_started_is_killed_with_it(how: str) -> None:
    """Also a process that has left for a session of its own."""
    said = Said()
    async with children(forward=said) as pool:
        job = asyncio.create_task(obeyed(pool, f"spawn:{how}"))
        started = await auntil(lambda: said.numbers("spawned"))
        assert len(started) == 2
        assert all(map(alive, started))
        job.cancel()
        await job
        await auntil(lambda: not any(map(alive, started)))


async def test_a_job_can_move_its_deadline() -> None:
    """Later than the first one, also several times."""
    async with children() as pool:
        assert await answered(pool, "echo:ready")
        assert await answered(pool, "extend:30,0.4", timeout=0.2) == "done in time"
        assert await answered(pool, "extend:0.1,40,0.4", timeout=0.2) == "done in time"


async def test_a_job_can_move_its_deadline_nearer() -> None:
    """The limit told is what it had in all."""
    async with children() as pool:
        answer = await obeyed(pool, "extend:30,0.05,20", timeout=60)
        assert isinstance(answer, TimedOut)
        assert 0.05 <= answer.limit < 10


async def test_a_thread_left_by_one_job_does_not_move_the_deadline_of_the_next() -> None:
    """What it asks for between two jobs is not even sent."""
    async with children() as pool:
        await answered(pool, "late_extension:0")
        first = pool.pids
        await turns(0.1)
        assert await answered(pool, "extend:0.1", timeout=20) == "done in time"
        assert pool.pids == first


# what is left behind --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["leave", "leave,apart"])
async def test_processes_that_a_job_leaves_running_end_with_its_child(how: str) -> None:
    """That child is given no other job."""
    async with children() as pool:
        left = [int(pid) for pid in (await answered(pool, f"spawn:{how}")).split()]
        await auntil(lambda: not any(map(alive, left)))
        await auntil(lambda: not pool.pids)


async def test_a_job_that_waits_for_what_it_has_started_does_not_cost_its_child() -> None:
    """Nothing was left, so the process is used again."""
    async with children() as pool:
        assert await answered(pool, "finished") == await answered(pool, "finished")


async def test_what_a_job_has_started_ends_when_it_crashes() -> None:
    """The group of the dead is killed while its number is still taken."""
    said = Said()
    async with children(forward=said) as pool:
        assert isinstance(await obeyed(pool, "spawn:crash"), Died)
        await auntil(lambda: not any(map(alive, said.numbers("spawned"))))


# memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit data; there the child is killed")
async def test_a_job_over_its_cap_has_a_memory_error() -> None:
    """It can handle that; the next job is not bound by the cap of this one."""
    async with children() as pool:
        assert await answered(pool, "allocate:200", memory=100 * MIB) == "MemoryError"
        assert await answered(pool, "allocate:20", memory=100 * MIB) == "allocated"
        assert await answered(pool, "allocate:200") == "allocated"
        assert (await answered(pool, "limits")).split()[0] == "-1"


async def test_a_child_over_its_cap_is_killed() -> None:
    """When the limit of the process did not hold it; the cause says so, with the memory last seen."""
    async with children() as pool:
        answer = await obeyed(pool, "swell:200", memory=100 * MIB)
        assert isinstance(answer, Died)
        assert isinstance(answer.outcome, Crashed)
        assert answer.outcome.cause == "memory: over its cap of 100MiB"
        assert answer.outcome.memory is not None
        assert answer.outcome.memory > 100 * MIB


# deaths ---------------------------------------------------------------------------------------------------------------


async def died(pool: ChildPool, order: str) -> Died:
    answer = await obeyed(pool, order)
    assert isinstance(answer, Died), answer
    return answer


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("segfault", "signal SIGSEGV"),
        ("abort", "signal SIGABRT"),
        ("exit", "exit code 3"),
        ("sys.exit", "exit code 70"),
        ("SIGFPE", "signal SIGFPE"),
    ],
)
async def test_a_child_that_dies_by_itself_has_crashed(how: str, cause: str) -> None:
    """The cause, the last lines of stderr and the last memory are told, and no core file is left."""
    async with children() as pool:
        death = await died(pool, f"die:{how}")
        assert isinstance(death.outcome, Crashed)
        assert death.outcome.cause == cause
        assert f"dying of {how}" in death.outcome.stderr
        assert death.outcome.memory is not None
        assert death.outcome.memory > MIB
        assert death.fresh


async def test_a_crash_tells_where_it_happened() -> None:
    """The interpreter's own last words are among the last lines."""
    async with children() as pool:
        death = await died(pool, "die:segfault")
        assert isinstance(death.outcome, Crashed)
        assert "Segmentation fault" in death.outcome.stderr
        assert "obedient_child.py" in death.outcome.stderr


async def test_a_crash_after_other_jobs_is_marked() -> None:
    """An earlier job may have broken the process."""
    async with children() as pool:
        await answered(pool, "echo:first")
        assert not (await died(pool, "die:segfault")).fresh


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_kill_from_outside_convicts_nobody(number: signal.Signals) -> None:
    """An operator, or a container that stops."""
    said = Said()
    async with children(forward=said) as pool:
        job = asyncio.create_task(died(pool, "wait"))
        pid = (await auntil(lambda: said.numbers("waiting")))[0]
        os.kill(pid, number)
        assert (await job).outcome == Lost(f"killed from outside (signal {number.name})")


async def test_an_end_that_somebody_else_waited_for_convicts_nobody() -> None:
    """A host process that waits for any child takes the status away."""
    said = Said()
    async with children(forward=said) as pool:
        job = asyncio.create_task(died(pool, "wait"))
        pid = (await auntil(lambda: said.numbers("waiting")))[0]
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            os.kill(pid, signal.SIGKILL)
            assert isinstance((await job).outcome, Lost)
        finally:
            signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize(
    ("order", "cause"), [("close", "closed its channel"), ("nonsense", "wrote nonsense on its channel")]
)
async def test_a_child_that_breaks_its_channel_is_ended(
    order: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer could never come."""
    monkeypatch.setattr("redrive.runners.spawned._EXITING", 0.2)
    async with children() as pool:
        death = await died(pool, order)
        assert isinstance(death.outcome, Crashed)
        assert death.outcome.cause.startswith(cause)


async def test_no_core_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where core files are wanted, and they go to the working directory."""
    monkeypatch.chdir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        async with children() as pool:
            assert (await answered(pool, "limits")).split()[1] == "0"
            await died(pool, "die:segfault")
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a glance at a folder


# starts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hello", "sentence"),
    [
        ("raise:no module named nothing", "ImportError: no module named nothing"),
        ("exit:not today", "SystemExit: not today"),
        ("segfault", "the child process died while it started: signal SIGSEGV"),
        ("never", "the child process was not ready after 0.5s"),
    ],
)
async def test_a_child_that_cannot_start_says_why(hello: str, sentence: str) -> None:
    """No job was begun, and nothing is left of it."""
    async with children(hello=hello.encode(), start_patience=0.5 if hello == "never" else 10.0) as pool:
        answer = await obeyed(pool, "echo:a")
        assert isinstance(answer, StartFailed)
        assert answer.sentence == sentence
        await auntil(lambda: not pool.pids)


async def test_a_failed_start_has_its_traceback() -> None:
    """It leads to the line in the app."""
    async with children(hello=b"raise:x") as pool:
        answer = await obeyed(pool, "echo:a")
        assert isinstance(answer, StartFailed)
        assert "obedient_child.py" in answer.traceback


async def test_a_child_killed_while_it_starts_is_no_fault_of_the_app() -> None:
    """Nothing can be said against the job or its app."""
    async with children(hello=b"killed") as pool:
        answer = await obeyed(pool, "echo:a")
        assert isinstance(answer, Died)
        assert isinstance(answer.outcome, Lost)


async def test_a_program_that_does_not_exist_is_said() -> None:
    """With the reason of the system, and without leaking what was opened for it."""
    before = open_files()
    pool = ChildPool(["/nowhere/python"], b"", 1)
    answer = await obeyed(pool, "echo:a")
    assert isinstance(answer, StartFailed)
    assert "No such file" in answer.sentence
    assert open_files() == before


# parents --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keeping", "number"),
    [
        pytest.param(["spawn:wait"], signal.SIGKILL, id="killed"),
        pytest.param(["spawn:wait"], signal.SIGTERM, id="told to end"),
        pytest.param(["spin"], signal.SIGKILL, id="its child holds on to the interpreter"),
        pytest.param(["spawn:wait", "fork"], signal.SIGKILL, id="its own fork lives on"),
    ],
)
def test_a_child_and_what_it_has_started_die_with_their_parent(keeping: list[str], number: int) -> None:
    """However it ends; nobody is left to tell them."""
    command = [sys.executable, str(PROGRAMS / "keeper_of_a_child.py"), *keeping]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as keeper:
        try:
            assert keeper.stdout is not None
            told = [keeper.stdout.readline().split() for _ in range(2)]
            pids = [int(word) for line in told for word in line[1:]]
            assert len(pids) == (2 if keeping == ["spin"] else 3), told
            assert all(map(alive, pids))
            keeper.send_signal(number)
            keeper.wait(10)
            until(lambda: not any(map(alive, pids)))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(keeper.pid, signal.SIGKILL)


async def turns(seconds: float = 0.05) -> None:
    """Let the loop turn for a while."""
    reached = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, reached.set_result, None)
    await reached

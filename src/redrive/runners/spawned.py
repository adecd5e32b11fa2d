"""One child process as its parent sees it: started, given jobs, watched, ended, and its death understood."""

import asyncio
import os
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from redrive.outcome import Crashed, Lost
from redrive.runners.child import CHANNEL, LIFELINE, PARENT
from redrive.runners.deadlines import deadlines
from redrive.runners.death import cause_of_death
from redrive.runners.descendants import descendants, end
from redrive.runners.frames import CAP, BadFrame, Kind, packed, read_frame, seconds_in
from redrive.runners.oom import oom_kills
from redrive.runners.output import Forward, Output

T = TypeVar("T")

_WATCH = 0.25
_LAST_WORDS = 1.0
_EXITING = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The child answered; `last` when it is not fit for another job, because this one left processes running."""

    frame: bytes
    last: bool = False


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The child was killed at the job's deadline, with all it had started."""

    limit: float
    memory: int | None = None
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Died:
    """The child died with the job in its hands; `fresh` when it had run no other job before."""

    outcome: Crashed | Lost
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The child could not get ready, so that no job was begun: its app does not import, or it died on the way."""

    sentence: str
    traceback: str = ""


_held: "weakref.WeakSet[Spawned]" = weakref.WeakSet()


class Spawned:
    """A child process; it leads a session of its own, so that its descendants end with it."""

    def __init__(self, command: list[str], environment: Mapping[str, str], forward: Forward) -> None:
        self._loop = asyncio.get_running_loop()
        self._oom_before = oom_kills()
        self._fault: str | None = None
        self._taken = False
        self._memory: int | None = None
        self._expired: asyncio.Future[float] = self._loop.create_future()
        self._writer: asyncio.StreamWriter | None = None
        self.jobs = 0
        self.died: asyncio.Future[int | None] = self._loop.create_future()
        with ExitStack() as undone, ExitStack() as given:  # ends of ours, closed if it cannot start; ends of its own
            self._ours, channel = socket.socketpair()
            undone.callback(self._ours.close)
            given.callback(channel.close)
            printed, printing = os.pipe()
            undone.callback(os.close, printed)
            given.callback(os.close, printing)
            lifeline, held = os.pipe()
            self._lifeline = undone.enter_context(os.fdopen(held, "wb", buffering=0))
            given.callback(os.close, lifeline)
            self._process = _popen(command, environment, channel.fileno(), printing, lifeline)
            undone.pop_all()
        _held.add(self)
        self.pid = self._process.pid
        self._output = Output(printed, forward)
        threading.Thread(target=self._reap, name=f"redrive-child-{self.pid}", daemon=True).start()

    async def start(self, hello: bytes, patience: float) -> StartFailed | Died | None:
        """Bring it up; None when it is ready for jobs."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._ours)
        self._send(packed(Kind.HELLO, hello))
        try:
            kind, body = await self._within(patience, read_frame(self._reader))
        except _Overdue:
            await self._killed()
            return StartFailed(f"the child process was not ready after {patience:g}s", self._output.tail())
        except (EOFError, OSError, BadFrame) as fault:
            return self._stillborn(await self._end_of(fault))
        if kind is Kind.READY:
            return None
        sentence, _, trace = body.decode("utf-8", "replace").partition("\0")
        return StartFailed(sentence, trace)

    def _stillborn(self, returncode: int | None) -> StartFailed | Died:
        outcome = self._autopsy(returncode)
        if isinstance(outcome, Lost):
            return Died(outcome)
        return StartFailed(f"the child process died while it started: {outcome.cause}", outcome.stderr)

    async def work(self, frame: bytes, limit: float | None, cap: int | None) -> Reply | TimedOut | Died | None:
        """Give it a job; None when it died before it took the job, which then has done nothing."""
        fresh = not self.jobs
        self.jobs += 1
        self._output.mark()
        self._taken = False
        self._memory = self._resident()  # before it can die of the job
        self._oom_before = oom_kills()
        self._send(packed(Kind.JOB, CAP.pack(cap or 0) + frame))
        watch = asyncio.ensure_future(self._watch(cap))
        try:
            return await self._within(limit, self._answer())
        except _Overdue as overdue:
            await self._killed()
            return TimedOut(overdue.limit, self._memory, self._output.tail())
        except (EOFError, OSError, BadFrame) as fault:
            returncode = await self._end_of(fault)
            return Died(self._autopsy(returncode), fresh) if self._taken else None
        finally:
            watch.cancel()

    async def _answer(self) -> Reply:
        kind, body = await read_frame(self._reader)
        while kind in (Kind.TAKEN, Kind.EXTEND):
            self._taken = True
            if kind is Kind.EXTEND:
                deadlines().move(self, seconds_in(body))
            kind, body = await read_frame(self._reader)
        if kind not in (Kind.REPLY, Kind.LAST):
            raise BadFrame(f"{kind.name} where a reply was due")
        return Reply(body, last=kind is Kind.LAST)

    def expire(self, limit: float) -> None:
        """The deadline has come."""
        if not self._expired.done():
            self._expired.set_result(limit)

    async def _within(self, limit: float | None, reading: Coroutine[Any, Any, T]) -> T:
        """What was read, unless it dies or its time is over before; a deadline may move while it is waited for."""
        expired = self._expired = self._loop.create_future()
        if limit is not None:
            deadlines().add(self, limit)
        answer = asyncio.ensure_future(reading)
        try:
            await asyncio.wait((answer, self.died, expired), return_when=asyncio.FIRST_COMPLETED)
            if self.died.done():
                await asyncio.wait((answer,), timeout=_LAST_WORDS)
            if answer.done():
                return answer.result()
            raise EOFError if self.died.done() else _Overdue(expired.result())
        finally:
            deadlines().remove(self)
            answer.cancel()

    async def _end_of(self, fault: Exception) -> int | None:
        """It closed its channel, spoke nonsense, or is dead already: in each case it ends now."""
        if isinstance(fault, BadFrame):
            self._fault = f"wrote nonsense on its channel ({fault})"
            self.kill()
        await asyncio.wait((self.died,), timeout=_EXITING)
        if self._alive:
            self._fault = self._fault or "closed its channel to the worker"
        return await self._killed()

    async def _killed(self) -> int | None:
        self.kill()
        return await asyncio.shield(self.died)

    async def _watch(self, cap: int | None) -> None:
        while memory := self._resident():
            self._memory = memory
            if cap is not None and memory > cap:
                self._fault = f"memory: over its cap of {_size(cap)}"
                self.kill()
                return
            await asyncio.sleep(_WATCH)

    def _resident(self) -> int | None:
        """Its memory in bytes; none when it is dead, waited for or not."""
        try:
            return psutil.Process(self.pid).memory_info().rss or None
        except psutil.Error:
            return None

    def _autopsy(self, returncode: int | None) -> Crashed | Lost:
        return cause_of_death(
            returncode,
            killed_by_us=self._fault,
            oom_before=self._oom_before,
            oom_after=oom_kills(),
            memory=self._memory,
            stderr=self._output.tail(),
        )

    def kill(self) -> None:
        """End it and all it has started, at once."""
        if self._alive:
            started = descendants(self.pid)
            _kill_group(self.pid)
            end(started)  # those that have left the group

    def dismiss(self) -> None:
        """Ask it to end in peace."""
        if self._alive:
            self._send(packed(Kind.GOODBYE))

    async def gone(self, patience: float) -> None:
        """Wait until it has ended, and see to it that it does."""
        await asyncio.wait((self.died,), timeout=patience)
        await self._killed()
        self._lifeline.close()
        if self._writer is None:
            self._ours.close()
            return
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def let_go(self) -> None:
        """Close our ends without a word, as a forked process must: a child does not live on for its sake."""
        self._lifeline.close()
        self._ours.close()

    def _send(self, frame: bytes) -> None:
        if self._writer is not None:
            with suppress(OSError):  # a dead child is learned of by its death
                self._writer.write(frame)

    @property
    def _alive(self) -> bool:
        """Whether its number is certainly still its own."""
        return self._process.returncode is None

    def _reap(self) -> None:
        returncode = _waited(self.pid)
        self._process.returncode = returncode or 0
        self._output.finish(_LAST_WORDS)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            self._loop.call_soon_threadsafe(self._buried, returncode)

    def _buried(self, returncode: int | None) -> None:
        if not self.died.done():
            self.died.set_result(returncode)


class _Overdue(Exception):
    def __init__(self, limit: float) -> None:
        self.limit = limit


def _popen(
    command: list[str], environment: Mapping[str, str], channel: int, printing: int, lifeline: int
) -> subprocess.Popen[bytes]:
    # Called on the loop's thread: the kernel ends a child when the *thread* that started it ends.
    return subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=printing,
        stderr=printing,
        env={**environment, CHANNEL: str(channel), LIFELINE: str(lifeline), PARENT: str(os.getpid())},
        pass_fds=[channel, lifeline],
        start_new_session=True,
    )


def _waited(pid: int) -> int | None:
    """How a child ended; None when somebody else in this process took that away, or nobody may know it."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            _kill_group(pid)  # while the dead leader still holds its number
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return None
    if not hasattr(os, "waitid"):
        _kill_group(pid)
    return os.waitstatus_to_exitcode(status)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses when only the dead leader is left
        os.killpg(leader, signal.SIGKILL)


def _let_go_of_all() -> None:
    for child in list(_held):
        child.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)


def _size(count: int) -> str:
    whole, rest = divmod(count, 1024 * 1024)
    return f"{count:,} bytes" if rest else f"{whole}MiB"

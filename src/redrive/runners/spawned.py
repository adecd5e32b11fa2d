"""One child process as its parent sees it: started, given jobs, watched, ended, and its death understood."""

import asyncio
import math
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from redrive.outcome import Crashed, Lost
from redrive.runners.child import CHANNEL, PARENT
from redrive.runners.death import cause_of_death
from redrive.runners.frames import CAP, SECONDS, BadFrame, Kind, packed, read_frame
from redrive.runners.oom import oom_kills
from redrive.runners.output import Forward, Output

T = TypeVar("T")

_WATCH_CAPPED = 0.25
_WATCH = 1.0
_LAST_WORDS = 1.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The child answered."""

    frame: bytes


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


class Spawned:
    """A child process; it leads a session of its own, so that its descendants end with it."""

    def __init__(self, command: list[str], environment: Mapping[str, str], forward: Forward) -> None:
        self._loop = asyncio.get_running_loop()
        self._oom_before = oom_kills()
        self._fault: str | None = None
        self._taken = False
        self._memory: int | None = None
        self._deadline = math.inf
        self.jobs = 0
        self.died: asyncio.Future[int] = self._loop.create_future()
        self._ours, theirs = socket.socketpair()
        printed, printing = os.pipe()
        try:
            self._process = _popen(command, environment, theirs, printing)
        except BaseException:
            os.close(printed)
            self._ours.close()
            raise
        finally:
            os.close(printing)
            theirs.close()
        self.pid = self._process.pid
        self._output = Output(printed, forward)
        threading.Thread(target=self._reap, name=f"redrive-child-{self.pid}", daemon=True).start()

    async def start(self, hello: bytes, patience: float) -> StartFailed | Died | None:
        """Bring it up; None when it is ready for jobs."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._ours)
        self._send(packed(Kind.HELLO, hello))
        try:
            kind, body = await self._within(patience, read_frame(self._reader))
        except TimeoutError:
            await self._killed()
            return StartFailed(f"the child process was not ready after {patience:g}s", self._output.tail())
        except (EOFError, OSError, BadFrame) as fault:
            return self._stillborn(await self._end_of(fault))
        if kind is Kind.READY:
            return None
        sentence, _, trace = body.decode("utf-8", "replace").partition("\0")
        return StartFailed(sentence, trace)

    def _stillborn(self, returncode: int) -> StartFailed | Died:
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
        self._oom_before = oom_kills()
        self._send(packed(Kind.JOB, CAP.pack(cap or 0) + frame))
        watch = asyncio.ensure_future(self._watch(cap))
        try:
            return Reply(await self._within(limit, self._answer()))
        except TimeoutError:
            await self._killed()
            return TimedOut(limit or 0.0, self._memory, self._output.tail())
        except (EOFError, OSError, BadFrame) as fault:
            returncode = await self._end_of(fault)
            return Died(self._autopsy(returncode), fresh) if self._taken else None
        finally:
            watch.cancel()

    async def _answer(self) -> bytes:
        kind, body = await read_frame(self._reader)
        while kind in (Kind.TAKEN, Kind.EXTEND):
            self._taken = True
            if kind is Kind.EXTEND:
                self._extend(SECONDS.unpack(body)[0])
            kind, body = await read_frame(self._reader)
        if kind is not Kind.REPLY:
            raise BadFrame(f"{kind.name} where a reply was due")
        return body

    async def _within(self, limit: float | None, reading: Coroutine[Any, Any, T]) -> T:
        answer = asyncio.ensure_future(reading)
        try:
            await asyncio.wait((answer, self.died), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self.died.done():
                await asyncio.wait((answer,), timeout=_LAST_WORDS)
            if answer.done():
                return answer.result()
            raise EOFError if self.died.done() else TimeoutError
        finally:
            answer.cancel()

    async def _end_of(self, fault: Exception) -> int:
        """It closed its channel, spoke nonsense, or is dead already: in each case it ends now."""
        if isinstance(fault, BadFrame):
            self._fault = f"wrote nonsense on its channel ({fault})"
            self.kill()
        await asyncio.wait((self.died,), timeout=_LAST_WORDS)
        if not self.died.done():
            self._fault = self._fault or "closed its channel to the worker"
        return await self._killed()

    async def _killed(self) -> int:
        self.kill()
        return await asyncio.shield(self.died)

    async def _watch(self, cap: int | None) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            while not self.died.done():
                self._memory = process.memory_info().rss
                if cap is not None and self._memory > cap:
                    self._fault = f"memory: over its cap of {_size(cap)}"
                    self.kill()
                    return
                await asyncio.sleep(_WATCH_CAPPED if cap else _WATCH)

    def _autopsy(self, returncode: int) -> Crashed | Lost:
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
        if not self.died.done():
            _kill_group(self.pid)

    def dismiss(self) -> None:
        """Ask it to end in peace."""
        if not self.died.done():
            self._send(packed(Kind.GOODBYE))

    async def gone(self, patience: float) -> None:
        """Wait until it has ended, and see to it that it does."""
        await asyncio.wait((self.died,), timeout=patience)
        await self._killed()
        if hasattr(self, "_writer"):
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        else:
            self._ours.close()

    def _send(self, frame: bytes) -> None:
        with suppress(OSError):  # a dead child is learned of by its death
            self._writer.write(frame)

    def _reap(self) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            _kill_group(self.pid)  # while the dead leader still holds its number
            returncode = self._process.wait()
        else:
            returncode = self._process.wait()
            _kill_group(self.pid)
        self._output.finish(_LAST_WORDS)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            self._loop.call_soon_threadsafe(self._buried, returncode)

    def _buried(self, returncode: int) -> None:
        if not self.died.done():
            self.died.set_result(returncode)


def _popen(
    command: list[str], environment: Mapping[str, str], channel: socket.socket, printing: int
) -> subprocess.Popen[bytes]:
    # Called on the loop's thread: the kernel ends a child when the *thread* that started it ends.
    return subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=printing,
        stderr=printing,
        env={**environment, CHANNEL: str(channel.fileno()), PARENT: str(os.getpid())},
        pass_fds=[channel.fileno()],
        start_new_session=True,
    )


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses when only the dead leader is left
        os.killpg(leader, signal.SIGKILL)


def _size(count: int) -> str:
    whole, rest = divmod(count, 1024 * 1024)
    return f"{count:,} bytes" if rest else f"{whole}MiB"

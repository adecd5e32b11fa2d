"""Handlers that run in child processes: a pool that starts, reuses, ends and replaces them."""

import asyncio
import os
from collections.abc import Mapping

from redrive.outcome import Interrupted, Lost
from redrive.runners.deadlines import interrupted
from redrive.runners.output import Forward, to_stderr
from redrive.runners.spawned import Died, Reply, Spawned, StartFailed, TimedOut

__all__ = ["Answer", "ChildPool", "Died", "Reply", "StartFailed", "TimedOut"]

Answer = Reply | TimedOut | Died | StartFailed | Interrupted

_TRIES = 3


class ChildPool:
    """Runs frames in at most `size` child processes, each started when first needed and reused while it is sound."""

    def __init__(
        self,
        command: list[str],
        hello: bytes,
        size: int,
        *,
        environment: Mapping[str, str] | None = None,
        forward: Forward = to_stderr,
        idle: float = 60.0,
        start_patience: float = 60.0,
        farewell: float = 5.0,
    ) -> None:
        self.size = size
        self._command = command
        self._hello = hello
        self._environment = environment
        self._forward = forward
        self._idle_limit = idle
        self._start_patience = start_patience
        self._farewell = farewell
        self._slots = asyncio.Semaphore(size)
        self._children: set[Spawned] = set()
        self._idle: dict[Spawned, asyncio.TimerHandle] = {}
        self._endings: dict[Spawned, asyncio.Task[None]] = {}

    @property
    def pids(self) -> list[int]:
        """The process ids of all children alive."""
        return [child.pid for child in self._children]

    async def run(
        self, frame: bytes, *, timeout: float | None, memory: int | None = None, alone: bool = False
    ) -> Answer:
        """Have a frame answered by a child; when this task is cancelled the child is killed and the job Interrupted."""
        try:
            async with self._slots:
                return await self._run(frame, timeout, memory, alone)
        except asyncio.CancelledError as cancelled:
            return interrupted(cancelled)

    async def _run(self, frame: bytes, timeout: float | None, memory: int | None, alone: bool) -> Answer:
        for _ in range(_TRIES):
            child = await self._child(alone)
            if not isinstance(child, Spawned):
                return child
            answer: Answer | None = None
            try:
                answer = await child.work(frame, timeout, memory)
            finally:
                fit = isinstance(answer, Reply) and not answer.last
                self._after(child, sound=isinstance(answer, Reply), keep=fit and not alone)
            if answer is not None:
                return answer
        return Died(Lost("its child process ended each time before it took the job"))

    async def _child(self, alone: bool) -> Spawned | StartFailed | Died:
        while self._idle and not alone:
            child, timer = self._idle.popitem()
            timer.cancel()
            if not child.died.done():
                return child
            self._see_off(child)
        return await self._spawn()

    async def _spawn(self) -> Spawned | StartFailed | Died:
        try:
            child = Spawned(self._command, self._environment or os.environ, self._forward)
        except OSError as error:
            return StartFailed(f"the child process could not be started: {error}")
        self._children.add(child)
        ready = False
        try:
            failure = await child.start(self._hello, self._start_patience)
            ready = failure is None
        finally:
            if not ready:
                self._after(child, sound=False, keep=False)
        return failure or child

    def _after(self, child: Spawned, *, sound: bool, keep: bool) -> None:
        if sound and keep and not child.died.done():
            self._idle[child] = asyncio.get_running_loop().call_later(self._idle_limit, self._dismiss, child)
        elif sound:
            self._dismiss(child)
        else:
            child.kill()
            self._see_off(child)

    def _dismiss(self, child: Spawned) -> None:
        timer = self._idle.pop(child, None)
        if timer is not None:
            timer.cancel()
        child.dismiss()
        self._see_off(child)

    def _see_off(self, child: Spawned) -> None:
        if child not in self._endings:
            self._endings[child] = asyncio.ensure_future(self._gone(child))

    async def _gone(self, child: Spawned) -> None:
        try:
            await child.gone(self._farewell)
        finally:
            self._children.discard(child)
            del self._endings[child]

    async def close(self) -> None:
        """End every child: the idle ones in peace, the busy ones at once."""
        for child in list(self._children):
            if child in self._idle:
                self._dismiss(child)
            elif child not in self._endings:
                child.kill()
                self._see_off(child)
        while self._endings:
            await asyncio.wait(set(self._endings.values()))

"""The child's side of an isolated job: imports the app, runs each job it is given, answers with what follows."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from redrive import calls
from redrive.attempt import attempt
from redrive.bench import Bench, Identity
from redrive.clock import SystemClock
from redrive.reference import find_app
from redrive.runners.child import Parent, serve
from redrive.runners.thread import ThreadRunner


class ParentsClock(SystemClock):
    """What time it is for the parent: told with each job, and moved on by the machine's own clock."""

    def __init__(self) -> None:
        self._ahead = 0

    def set(self, now: int) -> None:
        """It is now this late."""
        self._ahead = now - super().now()

    def now(self) -> int:
        return super().now() + self._ahead


async def start(hello: bytes, parent: Parent, stack: AsyncExitStack) -> Callable[[bytes], Awaitable[bytes]]:
    """Import the app, begin its lifespan, and answer what handles a job."""
    told = calls.decode_hello(hello)
    sys.path += [place for place in told.path if place not in sys.path]
    app = find_app(told.app, told.config, in_child=True)
    app.events.silence()
    app.clock = clock = ParentsClock()
    state = await stack.enter_async_context(app.hooks.lifespan(app))
    threads = ThreadRunner(1)
    stack.callback(threads.close)
    bench = Bench(app, Identity(told.worker), state, threads=threads, parent=parent.extend)

    async def handle(frame: bytes) -> bytes:
        call = calls.decode(frame)
        clock.set(call.now)
        return calls.encode_settlement(await attempt(bench, call.job))

    return handle


def main() -> None:
    """Serve the parent until it says goodbye."""
    stack = AsyncExitStack()
    serve(lambda hello, parent: start(hello, parent, stack), stack.aclose)


if __name__ == "__main__":
    main()

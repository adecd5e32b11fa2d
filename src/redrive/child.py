"""The child's side of an isolated job: imports the app, runs each job it is given, answers with what follows."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from redrive import calls
from redrive.app import find_app
from redrive.attempt import Bench, Identity, attempt
from redrive.runners.child import Parent, serve
from redrive.runners.thread import ThreadRunner


async def start(hello: bytes, parent: Parent, stack: AsyncExitStack) -> Callable[[bytes], Awaitable[bytes]]:
    """Import the app, begin its lifespan, and answer what handles a job."""
    told = calls.decode_hello(hello)
    app = find_app(told.app)
    app.events.silence()
    state = await stack.enter_async_context(app.hooks.lifespan(app))
    bench = Bench(app, Identity(told.worker), state, threads=ThreadRunner(1), parent=parent.extend)

    async def handle(frame: bytes) -> bytes:
        return calls.encode_settlement(await attempt(bench, calls.decode(frame)))

    return handle


def main() -> None:
    """Serve the parent until it says goodbye."""
    stack = AsyncExitStack()
    serve(lambda hello, parent: start(hello, parent, stack), stack.aclose)


if __name__ == "__main__":
    main()

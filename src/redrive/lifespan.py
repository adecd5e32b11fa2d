"""What an app sets up once per process: entered by the first worker of a loop, left by the last."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

Make = Callable[[], AbstractAsyncContextManager[Any]]


class Lives:
    """The lifespans under way; one for each loop, because pools and clients belong to the loop they were made on."""

    def __init__(self) -> None:
        self._of_loop: dict[asyncio.AbstractEventLoop, _Life] = {}

    async def enter(self, make: Make) -> Any:
        """The state that the lifespan gives, set up by whoever comes first."""
        loop = asyncio.get_running_loop()
        life = self._of_loop.get(loop)
        if life is None:
            life = self._of_loop[loop] = _Life(make)
        life.users += 1
        try:
            return await asyncio.shield(life.state)
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """The last one out waits until it has ended."""
        loop = asyncio.get_running_loop()
        life = self._of_loop[loop]
        life.users -= 1
        if life.users:
            return
        del self._of_loop[loop]
        life.over.set()
        if not life.state.done():
            life.task.cancel()
        await asyncio.wait({life.task})
        if life.state.done() and not life.state.exception():
            life.task.result()


class _Life:
    """Entered and left in one task of its own, as cancel scopes and context variables demand."""

    def __init__(self, make: Make) -> None:
        self.users = 0
        self.over = asyncio.Event()
        self.state: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._live(make))

    async def _live(self, make: Make) -> None:
        try:
            async with make() as state:
                self.state.set_result(state)
                await self.over.wait()
        except BaseException as error:
            if self.state.done():
                raise
            self.state.set_exception(error)
            self.state.exception()  # whoever waited has gone; it is told all the same

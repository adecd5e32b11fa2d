"""An outage as a wrapper round the real store: away, or doing what it was asked and losing the answer."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from redrive.errors import StoreUnavailable
from redrive.store import Check, Jobs, Journal, Letters, Operations, Redrives, Store, Traits, Workers


class FlakyStore:
    """A store that can be taken away and brought back while others work with it."""

    def __init__(self, store: Store) -> None:
        self.real = store
        self.down = False
        """Whether every call is refused."""
        self.calls: list[str] = []
        """What was asked for, refused calls included."""
        self._lose: dict[str, int] = {}
        self._raise: dict[str, list[Exception]] = {}

    def lose_answers(self, call: str, times: int = 1) -> None:
        """The next calls of this name (`jobs.add`) are carried out, and then their answer does not arrive."""
        self._lose[call] = times

    def raise_once(self, call: str, error: Exception) -> None:
        """The next call of this name raises this instead of being carried out."""
        self._raise.setdefault(call, []).append(error)

    # the store ------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.real.url

    @property
    def traits(self) -> Traits:
        return self.real.traits

    @property
    def home(self) -> str | None:
        return self.real.home

    @property
    def jobs(self) -> Jobs:
        return cast("Jobs", _Facet(self, "jobs"))

    @property
    def letters(self) -> Letters:
        return cast("Letters", _Facet(self, "letters"))

    @property
    def operations(self) -> Operations:
        return cast("Operations", _Facet(self, "operations"))

    @property
    def redrives(self) -> Redrives:
        return cast("Redrives", _Facet(self, "redrives"))

    @property
    def workers(self) -> Workers:
        return cast("Workers", _Facet(self, "workers"))

    @property
    def journal(self) -> Journal:
        return cast("Journal", _Facet(self, "journal"))

    async def open(self) -> None:
        await self.passed("open", self.real.open)

    async def close(self) -> None:
        await self.real.close()

    async def wait(self, listener: str, timeout: float) -> bool:
        return bool(await self.passed("wait", self.real.wait, listener, timeout))

    async def check(self) -> list[Check]:
        return await self.real.check()

    async def passed(self, call: str, method: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """Pass a call on, unless the plan for it says otherwise."""
        self.calls.append(call)
        if self.down:
            raise StoreUnavailable("the store is away")
        if planned := self._raise.get(call):
            raise planned.pop(0)
        answer = await method(*args, **kwargs)
        if self._lose.get(call, 0):
            self._lose[call] -= 1
            raise StoreUnavailable("the connection was lost before the answer")
        return answer


class _Facet:
    def __init__(self, store: FlakyStore, name: str) -> None:
        self._store = store
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        real = getattr(getattr(self._store.real, self._name), method)
        return lambda *args, **kwargs: self._store.passed(f"{self._name}.{method}", real, *args, **kwargs)

"""Who is there to run jobs, and who does which duty."""

from typing import Literal, Protocol

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker as the store knows it."""

    id: str
    host: str
    boot: str
    pid: int
    started_at: int
    beat_at: int = 0
    lock_device: int = 0
    lock_inode: int = 0
    release: str | None = None
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()  # empty: every queue
    slots: int = 0
    stuck: int = 0
    running: tuple[str, ...] = ()  # job ids
    state: Literal["running", "draining"] = "running"
    order: Literal["drain"] | None = None


class Workers(Protocol):
    """Who is there to run jobs."""

    async def beat(self, worker: Worker, lease: int) -> Literal["drain"] | None:
        """Say that this worker lives for `lease` microseconds more; answers the order left for it."""
        ...

    async def leave(self, worker: str) -> None:
        """This worker ends in peace; its duties are free."""
        ...

    async def find(self) -> list[Worker]:
        """The workers whose last beat still counts, and those that still hold leases."""
        ...

    async def tell(self, worker: str, order: Literal["drain"], actor: str) -> bool:
        """Leave an order for a worker; False when there is none of that id."""
        ...

    async def duty(self, name: str, holder: str, lease: int) -> bool:
        """Take or keep a duty for `lease` microseconds; False while somebody else has it."""
        ...

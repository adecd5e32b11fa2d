"""Redrives: a frozen selection of letters, given a new epoch in stages."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from redrive.limits import Limits

RedriveState = Literal["freezing", "waiting", "running", "paused", "finished", "cancelled"]
OPEN_REDRIVES: tuple[RedriveState, ...] = ("freezing", "waiting", "running", "paused")

ItemState = Literal["pending", "released", "succeeded", "recurred", "otherwise", "skipped", "discarded"]
"""Of a letter in a redrive: `recurred` failed as it did before, `otherwise` failed of something new."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a redrive is to do, as it was asked for."""

    filter: str = ""  # of open letters, relative times count from its opening
    limit: int | None = None  # so many letters at the most: those that failed last, or first when `oldest` goes first
    stages: tuple[int, ...] | None = None  # empty: everything at once; None: careful when there are many
    stop_at: float | Literal["never"] | None = None
    stage_timeout: int = 600_000_000  # microseconds
    rate: float | None = None  # letters a second
    parallel: int | None = None  # released and not ended
    judge: Literal["first", "final"] = "first"
    keep_attempts: bool = False
    max_attempts: int | None = None
    queue: str | None = None  # where its jobs go instead of their own
    limits: Limits | None = None  # what its jobs carry in this epoch instead of their own
    priority: int | None = None
    order: Literal["spread", "oldest"] = "spread"
    settings: tuple[str, ...] = ()  # values set at places of each payload: `payload.limit=5`
    patch: list[Any] | None = None  # a JSON Patch of each payload
    force: bool = False  # also letters that need a person, and jobs that have expired
    when_release: str | None = None  # begins when a worker reports such a release

    @property
    def reshapes(self) -> bool:
        """Whether its letters are given other payloads on the way."""
        return bool(self.settings) or self.patch is not None

    @property
    def instead(self) -> Limits | None:
        """What its jobs carry instead of their own; None when they keep theirs."""
        if self.max_attempts is None:
            return self.limits
        return msgspec.structs.replace(self.limits or Limits(), max_attempts=self.max_attempts)


class Redrive(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A durable bulk operation that gives a frozen selection of letters a new epoch."""

    id: str
    plan: Plan
    actor: str
    reason: str
    state: RedriveState
    opened_at: int
    version: int = 1
    frozen_at: int | None = None
    begun_at: int | None = None  # of one that waits for a release
    ended_at: int | None = None
    total: int = 0  # letters in it
    stage: int = 0
    stage_left: int = 0  # to be released in this stage
    stage_at: int = 0
    why: str = ""  # it is paused or was cancelled


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the letters of one cause do in a redrive: where they are now, and the first answer that each has given.

    Without a second thought: who has `relapsed` at its first attempt may still have `succeeded` at a later one.
    """

    cause: str
    title: str = ""
    total: int = 0
    skipped: int = 0
    released: int = 0
    succeeded: int = 0
    recurred: int = 0
    otherwise: int = 0
    discarded: int = 0
    passed: int = 0
    relapsed: int = 0
    strayed: int = 0
    dropped: int = 0
    stopped: int | None = None  # in which stage

    @property
    def left(self) -> int:
        """Not released."""
        return self.total - self.skipped - self.released

    @property
    def running(self) -> int:
        """Released, and not ended."""
        return self.released - self.succeeded - self.recurred - self.otherwise - self.discarded


class Stage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the letters of one stage have answered first."""

    number: int
    at: int
    released: int = 0
    passed: int = 0
    relapsed: int = 0
    strayed: int = 0
    dropped: int = 0


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A letter in a redrive; `why` is the reason of a skip, or the group that a failure belongs to."""

    id: str
    cause: str
    state: ItemState
    stage: int = 0
    why: str = ""
    at: int = 0


class Pattern(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Items that ended alike: skipped for one reason, or failed of one cause."""

    state: ItemState
    why: str
    n: int
    sample: str
    title: str = ""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """What a release has done."""

    released: int = 0
    skipped: int = 0
    left: int = 0  # to be released in this stage


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A letter that may be released next, as it is in this version, with what its job was given."""

    id: str
    version: int
    task: str
    payload: bytes


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a letter in this version is released with: another payload, its own (None), or `why` it cannot be."""

    id: str
    version: int
    payload: bytes | None = None
    why: str = ""


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """What a redrive of letters would meet: why it would skip some, and if asked what was given to the others."""

    skipped: dict[str, str]
    due: list[Due]


class Redrives(Protocol):
    """Redrives: open, freeze, release in stages, watch."""

    async def open(self, plan: Plan, actor: str, reason: str, *, sole: bool = False) -> Redrive:
        """Begin one; letters that die from here on are not in it. `sole`: unless this actor has an open one, which is
        answered then."""
        ...

    async def freeze(self, id: str, limit: int) -> bool:
        """Take in up to `limit` more of its letters; whether it is frozen, and may release."""
        ...

    async def due(self, id: str, stage: int, size: int, limit: int) -> list[Due]:
        """What `release` with the same words would bring back, as far as the payloads are few megabytes together."""
        ...

    async def release(self, id: str, stage: int, size: int, limit: int, given: Sequence[Given] = ()) -> Chunk:
        """Give up to `limit` letters a new epoch: of a stage that runs, or of the next one, which has `size` of them.

        Does nothing when the redrive does not run, or is in another stage than the caller believes. The causes take
        turns, or the oldest letter comes first; one that is not open any more, or is another death, is skipped. Where
        payloads are to be others, only letters are released whose payload is given for the version that they have; the
        old one is kept as it is by an edit.
        """
        ...

    async def weigh(self, ids: Sequence[str], plan: Plan) -> Weighed:
        """What a redrive would do now with these open letters, without doing it."""
        ...

    async def stop(self, id: str, causes: Sequence[str], actor: str) -> list[str]:
        """Release nothing more of these causes; answers which were not stopped yet."""
        ...

    async def change(self, id: str, version: int, state: RedriveState, actor: str, why: str = "") -> Redrive | None:
        """Pause, resume (`running`), cancel or finish; None when it has another version or cannot become that."""
        ...

    async def get(self, id: str) -> Redrive | None:
        """One redrive."""
        ...

    async def find(
        self, states: Sequence[RedriveState] = (), limit: int = 50, actor: str | None = None
    ) -> list[Redrive]:
        """Redrives in these states, or all of them, or all that an actor has opened; the newest first."""
        ...

    async def places(self, id: str) -> list[tuple[str, str]]:
        """In which queue its letters that are not released yet would run, and as which task."""
        ...

    async def tally(self, id: str) -> list[Tally]:
        """How each cause does, most letters first."""
        ...

    async def stages(self, id: str) -> list[Stage]:
        """The stages so far."""
        ...

    async def patterns(self, id: str) -> list[Pattern]:
        """Why letters were skipped, and of what they failed; most of them first."""
        ...

    async def items(
        self, id: str, states: Sequence[ItemState] = (), after: str | None = None, limit: int = 100
    ) -> list[Item]:
        """A page of its letters in the order of their ids; only those in these states if any are named."""
        ...


def becomes(redrive: Redrive, wanted: RedriveState) -> RedriveState | None:
    """What a redrive is when somebody wants it to be that; None when it cannot."""
    match redrive.state, wanted:
        case ("freezing" | "waiting" | "running", "paused"):
            return wanted
        case ("freezing" | "waiting" | "running" | "paused", "cancelled"):
            return wanted
        case ("paused", "running"):
            return "freezing" if redrive.frozen_at is None else "waiting" if waits(redrive) else "running"
        case ("waiting", "running") | ("running", "finished"):
            return wanted
    return None


def waits(redrive: Redrive) -> bool:
    """Whether it has not begun, because no worker has reported the release that it waits for."""
    return redrive.plan.when_release is not None and redrive.begun_at is None


def stage_left(redrive: Redrive, stage: int, size: int) -> int | None:
    """How many of a stage are to be released; None when it is not its turn."""
    if redrive.stage == stage:
        return redrive.stage_left or None
    return size if redrive.stage == stage - 1 and not redrive.stage_left else None

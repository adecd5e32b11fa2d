"""Dead letters and their groups: found, counted, changed, ended."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from redrive.disposal import NEVER
from redrive.job import Job
from redrive.letter import Failure, Group, GroupState, Letter
from redrive.query.tree import Tree
from redrive.retention import Notice
from redrive.store.jobs import Accepted, Existing

Mark = tuple[int, str]
"""A place among letters: when the last one before it failed, and its id."""


class Page(msgspec.Struct, frozen=True):
    """Letters without payload and failures, and where the next page begins; it may be short before the end."""

    letters: list[Letter]
    after: Mark | None = None
    passed: int = 0  # letters that were looked at and are not meant


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """How many open letters there are of a kind."""

    queue: str
    task: str
    priority: int
    reason: str
    n: int
    review: int = 0  # so many of them need a person


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All open letters, counted by kind, and when those failed that have waited longest and shortest."""

    kinds: list[Total]
    oldest: int | None = None
    newest: int | None = None


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a filter means, seen from afar."""

    n: int
    groups: int = 0
    oldest: int | None = None  # when those failed last that have waited longest and shortest
    newest: int | None = None


class Disposed(msgspec.Struct, frozen=True):
    """The letters that were dealt with, and why the others were left."""

    ids: list[str]
    left: dict[str, str] = {}


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """A dead job from elsewhere: what it was given, how often it was tried, and every failure that is known."""

    job: Job  # with the id, the attempts and the epoch that it shall have here
    failures: tuple[Failure, ...]  # at least one, oldest first
    first_failed_at: int
    version: int = 1
    review: str | None = None  # why it needs a person
    returns: int = 0  # how often in a row it came back with the same cause
    rule: str | None = None  # the rule that has dealt with it since it died


class Edit(msgspec.Struct, frozen=True):
    """Another payload for the job of a letter that was read in this version."""

    id: str
    version: int
    payload: bytes


class Letters(Protocol):
    """Dead letters and their groups."""

    async def take_in(self, letters: Sequence[Foreign], actor: str) -> list[Accepted | Existing]:
        """Make each a dead job with its open letter; what is there already, or was purged, stays as it is."""
        ...

    async def get(self, id: str) -> Letter | None:
        """One letter with its payload and every failure of every epoch."""
        ...

    async def find(self, query: Tree, after: Mark | None = None, limit: int = 50) -> Page:
        """A page of the letters that a filter means, the last failure first."""
        ...

    async def whole(self, ids: Sequence[str]) -> list[Letter]:
        """These letters as `get` answers them, in order; those that are gone are left out."""
        ...

    async def count(self, query: Tree) -> int:
        """How many letters a filter means."""
        ...

    async def totals(self) -> Totals:
        """How many open letters there are of each kind, without looking at them."""
        ...

    async def groups(self, query: Tree | None = None, limit: int = 100) -> list[Group]:
        """Groups, most letters first; with a filter, of the letters it means, counted among them."""
        ...

    async def revive(self, ids: Sequence[str], actor: str, reason: str) -> list[str]:
        """Give dead jobs a new epoch: dead to ready, epoch + 1, attempts from zero. Answers who was."""
        ...

    # their end; whoever asks for many sends at most a few thousand at once

    async def outline(self, query: Tree) -> Outline:
        """How many letters a filter means, in how many groups, and between which times they failed last."""
        ...

    async def discard(
        self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER, *, rule: str | None = None
    ) -> Disposed:
        """End dead jobs and their open letters, of those that failed last at `upto` or before.

        Those that a rule ends are its own from then on: it leaves alone what a person restores.
        """
        ...

    async def restore(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Undo discards of `upto` or before: dead again, with an open letter in its group."""
        ...

    async def purge(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """Remove letters with their failures, notes and jobs; a tombstone keeps their ids from being added again."""
        ...

    async def edit(self, edits: Sequence[Edit], actor: str, reason: str) -> Disposed:
        """Give dead jobs other payloads; a letter that has changed since it was read is left as it is."""
        ...

    # open ones whose time is over

    async def notices(self) -> list[Notice]:
        """The removals of open letters that were announced, by queue."""
        ...

    async def announce(self, notices: Sequence[Notice], actor: str) -> None:
        """Let these be all that is announced; the journal has each that is new, and each that is withdrawn."""
        ...

    # what people say of them

    async def named(self, prefix: str, limit: int = 5) -> list[Group]:
        """The groups whose names begin so, with their notes."""
        ...

    async def set_groups(
        self,
        groups: Sequence[str],
        state: GroupState,
        actor: str,
        *,
        reason: str = "",
        until: int | None = None,
        release: str | None = None,
    ) -> list[str]:
        """Mute groups until a moment, close them in a release, or open them; answers which there are."""
        ...

    async def assign(self, owner: str | None, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Say who looks after groups and letters, None for nobody; answers how many there are."""
        ...

    async def note(self, text: str, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Write something about groups and letters that outlives their retries; answers how many there are."""
        ...

    async def review(self, ids: Sequence[str], why: str | None, actor: str, *, rule: str | None = None) -> Disposed:
        """Say why open letters need a person, or with None that they need none any more, and count returns anew."""
        ...

    async def notify(self, ids: Sequence[str], rule: str, actor: str) -> list[str]:
        """Write a line for each group of open letters that no rule has dealt with since they died; answers which."""
        ...

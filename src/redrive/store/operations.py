"""Bulk operations that outlive who began them."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from redrive.query.tree import Tree
from redrive.store.letters import Edit, Mark

OperationVerb = Literal["discard", "restore", "purge", "edit", "undo", "regroup"]
OperationState = Literal["running", "finished", "cancelled"]


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operation needs to know beyond its letters."""

    settings: tuple[str, ...] = ()  # of an edit: values at places
    patch: list[dict[str, Any]] | None = None  # of an edit: a JSON Patch
    force: bool = False  # of an edit: also payloads that do not fit the task
    checked: tuple[str, ...] = ()  # of an edit: the tasks that payloads are checked against, whoever carries it on
    undo: str = ""  # of an undo: the edit that is taken back
    rules: tuple[dict[str, Any], ...] = ()  # of a regroup: the rules that were in force


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is done to many letters, a chunk at a time, by whoever is there to go on."""

    id: str
    verb: OperationVerb
    query: Tree  # its letters; those that fail after it was opened are not in it
    actor: str
    state: OperationState
    opened_at: int
    filter: str = ""  # which letters, as it was asked for
    reason: str = ""
    change: Change = Change()
    mark: Mark | None = None  # how far it has come
    moved_at: int = 0  # when it last did; 0 while nobody has begun
    ended_at: int | None = None
    done: int = 0
    left: dict[str, int] = {}  # how many were left, by why


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A letter that belongs to another group than the one that it was read in."""

    id: str
    failed_at: int  # as it was read
    before: str
    group: str
    title: str
    plain: str = ""  # the group without rules, when it is another one, and its title
    plain_title: str = ""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What the next chunk of an operation is, and how far it comes with that."""

    mark: Mark | None  # None: to the end
    ids: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    moves: tuple[Move, ...] = ()
    left: dict[str, str] = {}  # letters that whoever looked at them has left, and why


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters of a group an operation has dealt with, and where it has moved them to."""

    group: str
    n: int
    into: str = ""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of many letters as a group remembers it, and how those of its letters do that it has given a payload."""

    operation: Operation
    edited: int
    untouched: int = 0  # edited, and not brought back since
    running: int = 0
    succeeded: int = 0
    again: int = 0  # brought back, and dead again
    discarded: int = 0


class Operations(Protocol):
    """Bulk operations that outlive who began them: each step is one transaction, and knows where it continues."""

    async def open(
        self,
        verb: OperationVerb,
        query: Tree,
        actor: str,
        reason: str,
        *,
        filter: str = "",
        change: Change | None = None,
    ) -> Operation:
        """Begin one; letters that fail from here on are not in it."""
        ...

    async def step(self, id: str, after: Mark | None, share: Share) -> Operation | None:
        """Do a share of it that was chosen behind `after`; answers how it stands then, None when there is none.

        Nothing happens when it is not running, or when somebody else has brought it further meanwhile.
        """
        ...

    async def members(self, id: str, after: Mark | None, limit: int) -> list[str]:
        """The letters that still have the payload of this edit behind them, in the order of their ids."""
        ...

    async def cancel(self, id: str, actor: str) -> Operation | None:
        """Let it go no further; what it has done stays. None when there is none that runs."""
        ...

    async def get(self, id: str) -> Operation | None:
        """One operation."""
        ...

    async def find(self, states: Sequence[OperationState] = (), limit: int = 50) -> list[Operation]:
        """Operations in these states, or all of them; the newest first."""
        ...

    async def parts(self, id: str) -> list[Part]:
        """What an edit or a regroup has done to which groups, most letters first."""
        ...

    async def recipes(self, group: str, limit: int = 10) -> list[Recipe]:
        """The edits of many letters that a group has seen, the newest first."""
        ...

    async def last_edits(self, groups: Sequence[str]) -> dict[str, str]:
        """The newest edit of many letters that each of these groups has seen, of those that have."""
        ...

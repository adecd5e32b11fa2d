"""The store: what holds the truth, as small contracts that every engine keeps.

A method takes and returns whole batches and is one transaction; it writes the journal rows, the counters and the
group rows of what it does in that same transaction. Every write of a worker names the fence of the lease it holds;
one that comes too late changes nothing and is reported.
"""

# size: the whole contract, with the values that it speaks of, in one piece
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from redrive.disposal import NEVER
from redrive.job import Job, State
from redrive.ledger import Noted, Proof, Tell, unheard
from redrive.letter import Failure, Group, GroupState, Letter
from redrive.limits import Limits
from redrive.query.tree import Tree
from redrive.retention import FOR_EVER, Notice

# --- adding ---------------------------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True):
    """The job is durable."""

    id: str


class Existing(msgspec.Struct, frozen=True):
    """A job with this id or this idempotency key is already there; nothing was added."""

    id: str
    state: State | Literal["purged"]


class Refused(msgspec.Struct, frozen=True):
    """Not accepted: the queue is at its depth limit, or the store is sealed."""

    why: str
    retry_after: float | None = None


Added = Accepted | Existing | Refused

# --- claiming and settling ------------------------------------------------------------------------------------------


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker could start now: at most `limit` jobs, for each queue at most its free slots."""

    worker: str
    limit: int
    lease: int  # microseconds
    queues: Mapping[str, int] | None = None  # None: every queue
    suspects: bool = True  # False: leave the suspects, no slot to run one alone is free
    without: tuple[str, ...] = ()  # tasks whose runner has no free slot


class Settlement(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What follows from an attempt. `job` is the job as it was claimed, its fence names the lease."""

    job: Job
    duration: int = 0
    ran: bool = True  # the handler was started: its duration is counted
    note: str | None = None  # what went wrong while this was decided: a backoff function that raised


class Done(Settlement, frozen=True, kw_only=True, tag="done"):
    """Finished well."""

    result: bytes | None = None


class Retried(Settlement, frozen=True, kw_only=True, tag="retried"):
    """Failed, and will be tried again at `at`; spends an attempt unless `spend` is 0.

    `crashed` and `lost` say which of the other counts goes up; `suspect` is written as given.
    """

    at: int
    failure: Failure
    spend: int = 1
    crashed: int = 0
    lost: int = 0
    suspect: int = 0


class Snoozed(Settlement, frozen=True, kw_only=True, tag="snoozed"):
    """Asked to be run later; spends no attempt."""

    until: int
    why: str = ""


class Buried(Settlement, frozen=True, kw_only=True, tag="buried"):
    """Given up on: becomes a letter in the group of its failure's fingerprint."""

    failure: Failure
    why: str = ""  # reads on: `exhausted 3 attempts`
    spend: int = 1
    crashed: int = 0
    lost: int = 0


class Discarded(Settlement, frozen=True, kw_only=True, tag="discarded"):
    """Ended on purpose without success; no letter."""

    reason: str
    why: str = ""


class Released(Settlement, frozen=True, kw_only=True, tag="released"):
    """Given back at `at` without spending an attempt: the worker drains, lacks the task, or its process died.

    `suspect` is written as given: above zero the job runs next alone in a child process.
    """

    at: int
    why: str
    suspect: int = 0
    unknown_task: bool = False  # no handler here: the store keeps since when, for the grace


BOUNDS = tuple(n * 1_000 for n in (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000))
"""Where the histogram of durations is cut, in microseconds."""

_LASTED = (*(f"lasted_{bound // 1_000}ms" for bound in BOUNDS), "lasted_longer")


def lasted(duration: int) -> str:
    """The counter of the histogram that a run of this duration belongs to: `lasted_30ms` is up to 30 ms."""
    return _LASTED[bisect_left(BOUNDS, duration)]


AnySettlement = Done | Retried | Snoozed | Buried | Discarded | Released


class Turn(msgspec.Struct, frozen=True):
    """The answer to a turn: the ids that were settled too late, the jobs claimed, and when the next one is due."""

    late: frozenset[str]
    jobs: list[Job]
    next_due: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """The right to run a job, as its holder names it."""

    id: str
    fence: int


class Orphan(msgspec.Struct, frozen=True):
    """A job taken over from a holder that is gone; `job.fence` is the reaper's own lease on it now."""

    job: Job
    holder: str  # worker id
    why: Literal["worker gone", "lease ended", "other boot"]
    alone: bool  # it was the only job its holder had


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a queue are in each state, in O(1)."""

    queue: str
    scheduled: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0
    oldest_ready: int | None = None  # due_at of the first in line


class Gate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can hold claims back (closed), or refuse jobs beyond a depth."""

    kind: Literal["queue", "dependency", "task"]
    key: str
    state: Literal["open", "closed", "trial"] = "open"
    reason: str | None = None
    until: int | None = None  # opens again by itself then
    depth_limit: int | None = None  # of a queue: `add` refuses at this many waiting jobs
    changed_at: int = 0
    actor: str | None = None


class Finished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The narrow row that a done job leaves."""

    id: str
    task: str
    queue: str
    ended_at: int
    attempts: int
    epoch: int
    key: str | None = None
    result: bytes | None = None
    duration: int = 0


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """A job that went well, kept to compare failures with."""

    at: int
    size: int  # of the payload
    host: str = ""
    release: str | None = None
    payload: bytes | None = None  # None when it was too long to be kept


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything the store knows of one job."""

    job: Job | None = None  # while it lives, and when dead or discarded
    finished: Finished | None = None  # once it is done
    failures: tuple[Failure, ...] = ()
    worker: str | None = None  # who holds it
    lease_left: int | None = None  # microseconds
    unknown_since: int | None = None
    ended_at: int | None = None  # when it became dead or discarded
    end_reason: str | None = None


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; newest first."""

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    before: str | None = None  # an id: the page ends before it
    limit: int = 50


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a listing, without payload."""

    id: str
    task: str
    queue: str
    state: State
    priority: int = 5
    attempts: int = 0
    epoch: int = 1
    at: int = 0  # due, ended or died
    error: str | None = None


class Jobs(Protocol):
    """Jobs and the gates before them."""

    async def add(self, jobs: Sequence[Job]) -> list[Added]:
        """Make these jobs durable, each once; answers in order."""
        ...

    async def claim(self, want: Want) -> list[Job]:
        """Lease the first in line: priority descending, due_at, id."""
        ...

    async def settle(self, settlements: Sequence[AnySettlement]) -> frozenset[str]:
        """End leases; the ids whose lease was no longer held come back and are unchanged."""
        ...

    async def turn(self, settlements: Sequence[AnySettlement], want: Want | None) -> Turn:
        """Settle and claim the next in one round trip."""
        ...

    async def extend(self, leases: Sequence[Lease], lease: int) -> frozenset[str]:
        """Keep these leases for `lease` microseconds from now; the ids no longer held come back."""
        ...

    async def lease_ends(self) -> int | None:
        """In how many microseconds the first lease ends; none is left where it has, None when nobody holds one."""
        ...

    async def reap(self, reaper: str, gone: Sequence[str], limit: int, lease: int) -> list[Orphan]:
        """Take over leases that have ended, and those of the workers named `gone`; counts no start."""
        ...

    async def cancel(self, ids: Sequence[str], actor: str) -> list[str]:
        """Discard jobs that have not ended, with reason `cancelled`; a leased one loses its lease. Answers who was."""
        ...

    async def depth(self, queues: Sequence[str] | None = None) -> list[Depth]:
        """How deep the queues are; all of them for None."""
        ...

    async def gate(self, gate: Gate, actor: str) -> Gate:
        """Set a gate; answers what is in force."""
        ...

    async def gates(self) -> list[Gate]:
        """Every gate that was ever set."""
        ...

    async def move(self, queue: str, to: str, actor: str, limit: int) -> int:
        """Move up to `limit` waiting jobs to another queue; answers how many."""
        ...

    async def purge(self, queue: str, actor: str, limit: int) -> int:
        """Discard up to `limit` waiting jobs of a queue with reason `purged`; answers how many."""
        ...

    async def get(self, id: str) -> Record | None:
        """Everything about one job."""
        ...

    async def resolve(self, suffix: str, limit: int = 3) -> list[str]:
        """The ids that end like this, at most `limit`."""
        ...

    async def successes(self, task: str) -> list[Success]:
        """A few successes of a task, chosen by chance among the last ones."""
        ...

    async def find(self, query: JobQuery) -> list[Listed]:
        """A page of jobs, newest first."""
        ...

    async def prune(self, limit: int) -> int:
        """Forget finished and discarded rows whose time is over; answers how many."""
        ...


# --- letters (more verbs come with triage) ----------------------------------------------------------------------------

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

    async def discard(self, ids: Sequence[str], actor: str, reason: str, upto: int = NEVER) -> Disposed:
        """End dead jobs and their open letters, of those that failed last at `upto` or before."""
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

    async def ruled(self, ids: Sequence[str], rule: str) -> None:
        """Remember which rule has dealt with these deaths."""
        ...

    async def notify(self, ids: Sequence[str], rule: str, actor: str) -> list[str]:
        """Write a line for each group of open letters that no rule has dealt with since they died; answers which."""
        ...


# --- operations -------------------------------------------------------------------------------------------------------

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


# --- redrives ---------------------------------------------------------------------------------------------------------

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


# --- workers ----------------------------------------------------------------------------------------------------------


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


# --- journal ----------------------------------------------------------------------------------------------------------


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened off the happy path."""

    seq: int
    at: int
    event: str
    job: str | None = None
    task: str | None = None
    queue: str | None = None
    epoch: int | None = None
    attempt: int | None = None
    reason: str | None = None
    worker: str | None = None
    actor: str | None = None
    text: str | None = None


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened in a minute."""

    minute: int  # microseconds of UTC at which it starts
    queue: str
    task: str
    name: str
    n: int


class Journal(Protocol):
    """What happened."""

    async def events(self, after: int = 0, limit: int = 100, job: str | None = None) -> list[Entry]:
        """Entries after a sequence number, oldest first; of one job if named."""
        ...

    async def latest(self, limit: int) -> list[Entry]:
        """The last entries, oldest first."""
        ...

    async def counters(self, since: int = 0) -> list[Count]:
        """Counts per minute, queue, task and name, workers and priorities added up."""
        ...

    async def note(
        self, event: str, *, actor: str | None = None, worker: str | None = None, text: str | None = None
    ) -> None:
        """Write an entry that belongs to no job."""
        ...

    async def sample(self) -> None:
        """Write down how deep each queue is in this minute, and how many letters it has; the last word counts.

        The counters are `depth_scheduled`, `depth_ready`, `depth_leased` and `letters_open`, of no task.
        """
        ...

    async def merge(self, limit: int) -> int:
        """Fold up to `limit` counts of minutes that are over into one per minute, queue, task and name; sums stay.

        Answers how many rows went away; fewer than `limit` when there are no more.
        """
        ...

    # the ledger and the trail

    async def prove(self, named: int = 20, noted: Noted | None = None, tell: Tell = unheard) -> Proof:
        """Add everything up at one moment, beside whoever works; of each kind of flaw `named` are named.

        `noted` is a seal that somebody has written down elsewhere: the trail must still have it.
        """
        ...

    async def seal(self, limit: int) -> int:
        """Put up to `limit` entries that have an actor under a seal, if their order can no longer change.

        Each of them bears the number of its seal; a seal holds what they say and the seal before it. Answers how many.
        """
        ...


# --- the whole --------------------------------------------------------------------------------------------------------


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How engines differ, declared."""

    engine: str
    durable: str  # what an acknowledged write survives, as a phrase
    shared: Literal["process", "host", "network"]  # who may open it together
    wakeups: str
    transactions: bool = False


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How long a queue keeps what has ended, where it says so itself."""

    done: int | None = None
    closed: int | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine needs to know of the configuration."""

    done_retention: int = 24 * 3_600_000_000
    key_lifetime: int = 24 * 3_600_000_000
    closed_retention: int = 30 * 24 * 3_600_000_000
    redrive_retention: int = 90 * 24 * 3_600_000_000
    journal_retention: int = FOR_EVER
    of_queues: Mapping[str, Keep] = {}
    journal: Literal["events", "all"] = "events"
    max_epochs: int = 5  # a letter that comes back so often in a row with the same cause needs a person; 0: never
    busy_timeout: float = 30.0
    force: bool = False  # open it although the file system or engine is not fit

    def keeps_done(self, queue: str) -> int:
        """How long a queue keeps the rows of finished jobs: for the longer of its own time and their keys'."""
        own = self.of_queues.get(queue)
        return max(self.done_retention if own is None or own.done is None else own.done, self.key_lifetime)

    def keeps_closed(self, queue: str) -> int:
        """How long it keeps letters that are closed or discarded, and discarded jobs."""
        own = self.of_queues.get(queue)
        return self.closed_retention if own is None or own.closed is None else own.closed


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the doctor looked at."""

    name: str
    ok: bool
    found: str
    advice: str | None = None


class Store(Protocol):
    """One namespace of jobs and all that belongs to them."""

    @property
    def url(self) -> str:
        """Where it is, without secrets, absolute."""
        ...

    @property
    def traits(self) -> Traits: ...

    @property
    def home(self) -> str | None:
        """A folder on this host where workers keep their lock files; None when no other process can share the store."""
        ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def letters(self) -> Letters: ...

    @property
    def operations(self) -> Operations: ...

    @property
    def redrives(self) -> Redrives: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def journal(self) -> Journal: ...

    async def open(self) -> None:
        """Connect, migrate if need be, and refuse what cannot be worked with."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go."""
        ...

    async def wait(self, listener: str, timeout: float) -> bool:
        """Rest until a hint says that jobs may be ready, at most `timeout` seconds; polling is the truth."""
        ...

    async def check(self) -> list[Check]:
        """What the doctor wants to know of this engine."""
        ...

"""Redrives in memory."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence

import msgspec

from redrive.eligibility import why_held
from redrive.job import State, new_id
from redrive.letter import Letter, LetterState
from redrive.limits import MAX_ATTEMPTS, carried, limits_of
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.ramp import paced, room, shared, turn_by_age, turn_of
from redrive.store import (
    OPEN_REDRIVES,
    Chunk,
    Due,
    Given,
    Item,
    ItemState,
    Pattern,
    Plan,
    Redrive,
    RedriveState,
    Stage,
    Tally,
    Weighed,
    becomes,
    stage_left,
    waits,
)
from redrive.stores.memory.disposing import end_letter
from redrive.stores.memory.editing import replace
from redrive.stores.memory.letters import FRESH, with_job
from redrive.stores.memory.marking import reopen
from redrive.stores.memory.rows import Held, Memory, Redriving, Row

TOGETHER = 4 * 1024 * 1024
"""Payloads of about so many bytes are handed out at once."""

_TOLD = ("skipped", "recurred", "otherwise", "discarded")


class MemoryRedrives:
    """Redrives: open, freeze, release in stages, watch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def open(self, plan: Plan, actor: str, reason: str, *, sole: bool = False) -> Redrive:
        """Begin one; letters that die from here on are not in it."""
        parse(plan.filter, 0)
        with self._rows.lock:
            opened = [each.row for each in self._rows.redrives.values() if each.row.state in OPEN_REDRIVES]
            there = next((row for row in opened if row.actor == actor), None)
            if sole and there is not None:
                return there
            row = Redrive(
                id=new_id(),
                plan=plan,
                actor=actor,
                reason=reason,
                state="freezing",
                opened_at=self._memory.clock.now(),
            )
            self._rows.redrives[row.id] = Redriving(row, self._rows.written)
            self._note("redrive.opened", row.id, actor, reason)
            return row

    async def freeze(self, id: str, limit: int) -> bool:
        """Take in up to `limit` more of its letters; whether it is frozen, and may release."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            if driven is None or driven.row.state != "freezing":
                return driven is not None and driven.row.frozen_at is not None
            return self._freeze(driven, limit)

    async def due(self, id: str, stage: int, size: int, limit: int) -> list[Due]:
        """What `release` with the same words would bring back, as far as the payloads are few megabytes together."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            left = stage_left(driven.row, stage, size) if driven is not None and driven.row.state == "running" else None
            if driven is None or left is None:
                return []
            ids = [held.item.id for held in self._turns(driven, min(limit, left))]
            dead = [id for id in ids if id in self._rows.jobs and self._rows.jobs[id].job.state is State.DEAD]
            return self._handed([id for id in dead if self._rows.letters[id].state is LetterState.OPEN])

    def _handed(self, ids: Sequence[str]) -> list[Due]:
        found: list[Due] = []
        length = 0
        for id in ids:
            job, letter = self._rows.jobs[id].job, self._rows.letters[id]
            length += len(job.payload)
            if found and length > TOGETHER:
                break
            found.append(Due(id=id, version=letter.version, task=job.task, payload=job.payload))
        return found

    async def release(self, id: str, stage: int, size: int, limit: int, given: Sequence[Given] = ()) -> Chunk:
        """Give up to `limit` letters of a stage a new epoch."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            left = stage_left(driven.row, stage, size) if driven is not None and driven.row.state == "running" else None
            if driven is None or left is None:
                return Chunk()
            if driven.row.stage != stage:
                driven.stages.append(Stage(number=stage, at=self._memory.clock.now()))
            return self._release(driven, stage, left, limit, {each.id: each for each in given})

    async def weigh(self, ids: Sequence[str], plan: Plan) -> Weighed:
        """What a redrive would do now with these open letters, without doing it."""
        skipped: dict[str, str] = {}
        with self._rows.lock:
            for id in ids:
                row, holder = self._rows.jobs.get(id), self._holder(id)
                why = holder or self._unfit(id, row, row.job.epoch if row else 0) or self._held(plan, id, row)
                if why:
                    skipped[id] = why
            asked = [id for id in ids if plan.reshapes and id not in skipped]
            return Weighed(skipped=skipped, due=self._handed(asked))

    async def stop(self, id: str, causes: Sequence[str], actor: str) -> list[str]:
        """Release nothing more of these causes; answers which were not stopped yet."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            if driven is None or driven.row.state not in ("running", "paused"):
                return []
            tallies = (driven.causes[each] for each in dict.fromkeys(causes) if each in driven.causes)
            stopped = [tally for tally in tallies if tally.stopped is None]
            for tally in stopped:
                driven.causes[tally.cause] = msgspec.structs.replace(tally, stopped=driven.row.stage)
                text = f"group {tally.cause[:8]} recurs, stopped in stage {driven.row.stage}"
                self._note("redrive.stopped", id, actor, text)
                reopen(self._memory, tally.cause, f"recurs in redrive {id[-8:]}", actor)
            return [tally.cause for tally in stopped]

    async def change(self, id: str, version: int, state: RedriveState, actor: str, why: str = "") -> Redrive | None:
        """Pause, resume (`running`), cancel or finish; None when it has another version or cannot become that."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            after = becomes(driven.row, state) if driven is not None and driven.row.version == version else None
            if driven is None or after is None:
                return None
            resumed = driven.row.state == "paused" and after in ("freezing", "waiting", "running")
            now = self._memory.clock.now()
            begun = driven.row.state == "waiting" and after == "running"
            ended_at = now if after in ("finished", "cancelled") else None
            stage_at = now if driven.row.state == "paused" else driven.row.stage_at
            changes = {"state": after, "why": why, "ended_at": ended_at, "stage_at": stage_at, "version": version + 1}
            if begun:
                changes |= {"begun_at": now, "stage_at": now}
            driven.row = msgspec.structs.replace(driven.row, **changes)
            self._note(f"redrive.{'resumed' if resumed else 'begun' if begun else after}", id, actor, why)
            return driven.row

    async def get(self, id: str) -> Redrive | None:
        """One redrive."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            return driven.row if driven else None

    async def find(
        self, states: Sequence[RedriveState] = (), limit: int = 50, actor: str | None = None
    ) -> list[Redrive]:
        """Redrives in these states, or all of them, or all that an actor has opened; the newest first."""
        with self._rows.lock:
            rows = [each.row for each in self._rows.redrives.values() if not states or each.row.state in states]
        rows = [row for row in rows if actor is None or row.actor == actor]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

    async def places(self, id: str) -> list[tuple[str, str]]:
        """In which queue its letters that are not released yet would run, and as which task."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            pending = [held.item.id for held in driven.items.values() if held.item.state == "pending"] if driven else []
            to = driven.row.plan.queue if driven else None
            letters = [self._rows.letters[each] for each in pending if each in self._rows.letters]
            return sorted({(to or letter.queue, letter.task) for letter in letters})

    async def tally(self, id: str) -> list[Tally]:
        """How each cause does, most letters first."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            tallies = [self._titled(each) for each in driven.causes.values()] if driven else []
        return sorted(tallies, key=lambda each: (-each.total, each.cause))

    async def stages(self, id: str) -> list[Stage]:
        """The stages so far."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            return list(driven.stages) if driven else []

    async def patterns(self, id: str) -> list[Pattern]:
        """Why letters were skipped, and of what they failed; most of them first."""
        items = [item for item in self._items(id) if item.state in _TOLD]
        counts = Counter((item.state, item.why) for item in items)
        samples = {(item.state, item.why): item.id for item in sorted(items, key=lambda item: item.id, reverse=True)}
        with self._rows.lock:
            patterns = [
                Pattern(state=state, why=why, n=n, sample=samples[state, why], title=self._title(why))
                for (state, why), n in counts.items()
            ]
        return sorted(patterns, key=lambda each: (-each.n, each.why))

    async def items(
        self, id: str, states: Sequence[ItemState] = (), after: str | None = None, limit: int = 100
    ) -> list[Item]:
        """A page of its letters in the order of their ids; only those in these states if any are named."""
        items = [item for item in self._items(id) if (not states or item.state in states) and item.id > (after or "")]
        return sorted(items, key=lambda item: item.id)[:limit]

    # --- the steps, under the lock ----------------------------------------------------------------------------------

    def _items(self, id: str) -> list[Item]:
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            return [held.item for held in driven.items.values()] if driven else []

    def _title(self, cause: str) -> str:
        group = self._rows.groups.get(cause)
        return group.title if group else ""

    def _titled(self, tally: Tally) -> Tally:
        return msgspec.structs.replace(tally, title=self._title(tally.cause))

    def _freeze(self, driven: Redriving, limit: int) -> bool:
        row = driven.row
        most = limit if row.plan.limit is None else min(limit, row.plan.limit - row.total)
        fits = matcher(parse(row.plan.filter, row.opened_at))
        open_letters = [each for each in self._rows.letters.values() if each.state is LetterState.OPEN]
        meant = [each for each in open_letters if fits(Subject.of(with_job(self._memory, each)))]
        oldest, mark = row.plan.order == "oldest", driven.mark
        page = [each for each in meant if mark is None or (mark < _place(each) if oldest else _place(each) < mark)]
        page = sorted(page, key=_place, reverse=not oldest)[:most]
        taken = [each for each in page if self._rows.died[each.id] <= driven.cut]
        for letter in taken:
            self._hold(driven, letter)
        driven.row = msgspec.structs.replace(driven.row, total=row.total + len(taken))
        if page:
            driven.mark = (page[-1].failed_at, page[-1].id)
        if len(page) == most and driven.row.total != row.plan.limit:
            return False
        now = self._memory.clock.now()
        state: RedriveState = "waiting" if waits(row) else "running"
        driven.row = msgspec.structs.replace(
            driven.row, state=state, frozen_at=now, stage_at=now, version=row.version + 1
        )
        self._note("redrive.frozen", row.id, row.actor, f"{driven.row.total:,} letters")
        return True

    def _hold(self, driven: Redriving, letter: Letter) -> None:
        why = self._holder(letter.id)
        item = Item(
            id=letter.id,
            cause=letter.group,
            state="skipped" if why else "pending",
            why=why,
            at=self._memory.clock.now(),
        )
        by_age = driven.row.plan.order == "oldest"
        turn = turn_by_age(letter.failed_at) if by_age else turn_of(driven.row.id.encode(), letter.id.encode())
        driven.items[letter.id] = Held(item, letter.epochs, turn)
        tally = driven.causes.get(letter.group) or Tally(cause=letter.group)
        driven.causes[letter.group] = msgspec.structs.replace(
            tally, total=tally.total + 1, skipped=tally.skipped + bool(why)
        )

    def _holder(self, letter: str) -> str:
        """Why a letter cannot be in another redrive; nothing when it can."""
        holder = next((each.row.id for each in self._rows.redrives.values() if _holds(each, letter)), None)
        return f"already in redrive {holder[-8:]}" if holder else ""

    def _turns(self, driven: Redriving, n: int) -> list[Held]:
        """Whose turn it is: at most so many, as far as the pace leaves room."""
        plan, now = driven.row.plan, self._memory.clock.now()
        running = sum(tally.running for tally in driven.causes.values())
        free = room(plan.rate, plan.parallel, running, now, driven.paced_at)
        n = n if free is None else min(n, free)
        going = {tally.cause: tally for tally in driven.causes.values() if tally.stopped is None}
        if plan.order == "oldest":
            return _next(driven, going, n)
        waiting = {cause: (each.released + each.skipped, each.left) for cause, each in going.items()}
        return [one for cause, k in shared(waiting, n).items() for one in _next(driven, (cause,), k)]

    def _release(self, driven: Redriving, stage: int, left: int, limit: int, given: Mapping[str, Given]) -> Chunk:
        row, now = driven.row, self._memory.clock.now()
        rest = sum(tally.left for tally in driven.causes.values() if tally.stopped is None)
        done = Counter(self._release_one(driven, one, stage, given) for one in self._turns(driven, min(limit, left)))
        released, skipped = done["released"], done["skipped"]
        left = 0 if released + skipped >= rest else left - released
        at = now if released or stage != row.stage else row.stage_at
        driven.row = msgspec.structs.replace(row, stage=stage, stage_left=left, stage_at=at)
        driven.paced_at = paced(row.plan.rate, released, now, driven.paced_at)
        driven.stages[-1] = msgspec.structs.replace(driven.stages[-1], released=driven.stages[-1].released + released)
        if released or skipped:
            also = f", {skipped:,} skipped" if skipped else ""
            self._note("redrive.released", row.id, row.actor, f"stage {stage}: {released:,} released{also}")
        return Chunk(released=released, skipped=skipped, left=left)

    def _release_one(self, driven: Redriving, held: Held, stage: int, given: Mapping[str, Given]) -> ItemState:
        """What becomes of it; pending while it has no payload for this epoch."""
        now, item, new = self._memory.clock.now(), held.item, given.get(held.item.id)
        job = self._rows.jobs.get(item.id)
        why = self._unfit(item.id, job, held.epoch) or self._held(driven.row.plan, item.id, job)
        tally = driven.causes[item.cause]
        if not why and driven.row.plan.reshapes:
            if new is None or new.version != self._rows.letters[item.id].version:
                return "pending"
            why = new.why
        if why or job is None:
            held.item = msgspec.structs.replace(item, state="skipped", why=why, at=now)
            driven.causes[item.cause] = msgspec.structs.replace(tally, skipped=tally.skipped + 1)
            return "skipped"
        if new is not None and new.payload is not None:
            replace(self._memory, item.id, new.payload, driven.row.actor, f"redrive {driven.row.id[-8:]}")
        self._redrive(driven.row, job, stage)
        held.epoch += 1
        held.item = msgspec.structs.replace(item, state="released", stage=stage, at=now)
        driven.causes[item.cause] = msgspec.structs.replace(tally, released=tally.released + 1)
        return "released"

    def _unfit(self, id: str, row: Row | None, epoch: int) -> str:
        """Why a letter cannot be released; nothing when it can."""
        letter = self._rows.letters.get(id)
        if letter is None or letter.state is LetterState.DISCARDED:
            return "purged meanwhile" if letter is None else "discarded meanwhile"
        job = row.job if row is not None else None
        if letter.state is not LetterState.OPEN or job is None or job.state is not State.DEAD or job.epoch != epoch:
            return "brought back meanwhile"
        holder = self._rows.keys.get(job.key) if job.key is not None else None
        if holder is None or holder == id or self._is_free(holder):
            return ""
        return f"superseded by job {holder[-8:]}, which took its idempotency key"

    def _held(self, plan: Plan, id: str, row: Row | None) -> str:
        """Why a redrive that is not forced leaves it alone."""
        if plan.force or row is None:
            return ""
        return why_held(self._rows.letters[id].review, row.job.expires, self._memory.clock.now()) or ""

    def _is_free(self, holder: str) -> bool:
        """Whether the job that had a key last has been done for longer than a key counts."""
        row = self._rows.jobs.get(holder)
        if row is None:
            return True
        over = (row.ended_at or 0) + self._memory.settings.key_lifetime <= self._memory.clock.now()
        return row.finished is not None and over

    def _redrive(self, redrive: Redrive, row: Row, stage: int) -> None:
        plan, now, job = redrive.plan, self._memory.clock.now(), row.job
        row.ended_at = row.end_reason = row.unknown_since = None
        if plan.queue not in (None, job.queue):
            self._memory.count(job, "moved_out")
            self._memory.count_of(plan.queue or job.queue, job.task, "moved_in")
        job = self._memory.wait_for_turn(
            row,
            now,
            **(FRESH | _carried(plan, job.attempts, job.policy)),
            epoch=job.epoch + 1,
            epoch_at=now,
            redrive=redrive.id,
            queue=plan.queue or job.queue,
            priority=job.priority if plan.priority is None else plan.priority,
            expires=None if job.expires is not None and job.expires <= now else job.expires,
        )
        end_letter(self._memory, job.id, LetterState.REDRIVEN)
        self._memory.count(job, "redriven")
        self._memory.record("job.redriven", job, attempt=0, text=f"redrive {redrive.id[-8:]}, stage {stage}")

    def _note(self, event: str, id: str, actor: str, text: str) -> None:
        self._memory.note(event, actor=actor, text=f"redrive {id[-8:]}: {text}" if text else f"redrive {id[-8:]}")


def _place(letter: Letter) -> tuple[int, str]:
    return letter.failed_at, letter.id


def _holds(driven: Redriving, letter: str) -> bool:
    """Whether an open redrive will still release this letter."""
    held = driven.items.get(letter)
    if held is None or driven.row.state not in OPEN_REDRIVES or held.item.state != "pending":
        return False
    return driven.causes[held.item.cause].stopped is None


def _next(driven: Redriving, causes: Container[str], n: int) -> list[Held]:
    pending = [held for held in driven.items.values() if held.item.cause in causes and held.item.state == "pending"]
    return sorted(pending, key=lambda held: (held.turn, held.item.id))[:n]


def _carried(plan: Plan, attempts: int, policy: bytes | None) -> dict[str, object]:
    """The attempts and limits of a job in its new epoch, where they are not those of a fresh one."""
    policy = carried(policy, plan.instead)
    most = limits_of(policy).max_attempts or max(MAX_ATTEMPTS, attempts)
    found: dict[str, object] = {"attempts": min(attempts, most - 1)} if plan.keep_attempts else {}
    return found | {"policy": policy}

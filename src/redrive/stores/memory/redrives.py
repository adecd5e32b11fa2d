"""Redrives in memory."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from redrive.job import State, new_id
from redrive.letter import Letter, LetterState
from redrive.limits import MAX_ATTEMPTS, encode_limits, limits_of
from redrive.query.matching import Subject, matcher
from redrive.query.parsing import parse
from redrive.ramp import paced, room, shared, turn_of
from redrive.store import (
    OPEN_REDRIVES,
    Chunk,
    Item,
    ItemState,
    Pattern,
    Plan,
    Redrive,
    RedriveState,
    Stage,
    Tally,
    becomes,
)
from redrive.stores.memory.disposing import end_letter
from redrive.stores.memory.letters import FRESH, with_job
from redrive.stores.memory.rows import Held, Memory, Redriving, Row

_TOLD = ("skipped", "recurred", "otherwise", "discarded")


class MemoryRedrives:
    """Redrives: open, freeze, release in stages, watch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def open(self, plan: Plan, actor: str, reason: str) -> Redrive:
        """Begin one; letters that die from here on are not in it."""
        parse(plan.filter, 0)
        with self._rows.lock:
            row = Redrive(
                id=new_id(),
                plan=plan,
                actor=actor,
                reason=reason,
                state="freezing",
                opened_at=self._memory.clock.now(),
            )
            self._rows.redrives[row.id] = Redriving(row, len(self._rows.entries))
            self._note("redrive.opened", row.id, actor, reason)
            return row

    async def freeze(self, id: str, limit: int) -> bool:
        """Take in up to `limit` more of its letters; whether it is frozen, and may release."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            if driven is None or driven.row.state != "freezing":
                return driven is not None and driven.row.frozen_at is not None
            return self._freeze(driven, limit)

    async def release(self, id: str, stage: int, size: int, limit: int) -> Chunk:
        """Give up to `limit` letters of a stage a new epoch."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            if driven is None or driven.row.state != "running":
                return Chunk()
            left = self._stage_left(driven, stage, size)
            return Chunk() if left is None else self._release(driven, stage, left, limit)

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
            return [tally.cause for tally in stopped]

    async def change(self, id: str, version: int, state: RedriveState, actor: str, why: str = "") -> Redrive | None:
        """Pause, resume (`running`), cancel or finish; None when it has another version or cannot become that."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            after = becomes(driven.row, state) if driven is not None and driven.row.version == version else None
            if driven is None or after is None:
                return None
            resumed = driven.row.state == "paused" and after in ("freezing", "running")
            now = self._memory.clock.now()
            ended_at = now if after in ("finished", "cancelled") else None
            stage_at = now if driven.row.state == "paused" else driven.row.stage_at
            changes = {"state": after, "why": why, "ended_at": ended_at, "stage_at": stage_at, "version": version + 1}
            driven.row = msgspec.structs.replace(driven.row, **changes)
            self._note(f"redrive.{'resumed' if resumed else after}", id, actor, why)
            return driven.row

    async def get(self, id: str) -> Redrive | None:
        """One redrive."""
        with self._rows.lock:
            driven = self._rows.redrives.get(id)
            return driven.row if driven else None

    async def find(self, states: Sequence[RedriveState] = (), limit: int = 50) -> list[Redrive]:
        """Redrives in these states, or all of them; the newest first."""
        with self._rows.lock:
            rows = [each.row for each in self._rows.redrives.values() if not states or each.row.state in states]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

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
        page = [each for each in meant if driven.mark is None or (each.failed_at, each.id) < driven.mark]
        page = sorted(page, key=lambda each: (each.failed_at, each.id), reverse=True)[:most]
        taken = [each for each in page if self._rows.died[each.id] <= driven.cut]
        for letter in taken:
            self._hold(driven, letter)
        driven.row = msgspec.structs.replace(driven.row, total=row.total + len(taken))
        if page:
            driven.mark = (page[-1].failed_at, page[-1].id)
        if len(page) == most and driven.row.total != row.plan.limit:
            return False
        now = self._memory.clock.now()
        driven.row = msgspec.structs.replace(
            driven.row, state="running", frozen_at=now, stage_at=now, version=row.version + 1
        )
        self._note("redrive.frozen", row.id, row.actor, f"{driven.row.total:,} letters")
        return True

    def _hold(self, driven: Redriving, letter: Letter) -> None:
        holder = next((each.row.id for each in self._rows.redrives.values() if _holds(each, letter.id)), None)
        why = f"already in redrive {holder[-8:]}" if holder else ""
        item = Item(
            id=letter.id,
            cause=letter.group,
            state="skipped" if holder else "pending",
            why=why,
            at=self._memory.clock.now(),
        )
        driven.items[letter.id] = Held(item, letter.epochs, turn_of(driven.row.id.encode(), letter.id.encode()))
        tally = driven.causes.get(letter.group) or Tally(cause=letter.group)
        driven.causes[letter.group] = msgspec.structs.replace(
            tally, total=tally.total + 1, skipped=tally.skipped + bool(holder)
        )

    def _stage_left(self, driven: Redriving, stage: int, size: int) -> int | None:
        """How many of the stage are to be released; None when it is not its turn."""
        row = driven.row
        if row.stage == stage:
            return row.stage_left or None
        if row.stage != stage - 1 or row.stage_left:
            return None
        driven.stages.append(Stage(number=stage, at=self._memory.clock.now()))
        return size

    def _release(self, driven: Redriving, stage: int, left: int, limit: int) -> Chunk:
        row, now = driven.row, self._memory.clock.now()
        running = sum(tally.running for tally in driven.causes.values())
        free = room(row.plan.rate, row.plan.parallel, running, now, driven.paced_at)
        n = min(limit, left) if free is None else min(limit, left, free)
        going = [tally for tally in driven.causes.values() if tally.stopped is None]
        waiting = {each.cause: (each.released + each.skipped, each.left) for each in going}
        held = [one for cause, k in shared(waiting, n).items() for one in _next(driven, cause, k)]
        released = sum(self._release_one(driven, one, stage) for one in held)
        left = 0 if len(held) >= sum(rest for _, rest in waiting.values()) else left - released
        at = now if released or stage != row.stage else row.stage_at
        driven.row = msgspec.structs.replace(row, stage=stage, stage_left=left, stage_at=at)
        driven.paced_at = paced(row.plan.rate, released, now, driven.paced_at)
        driven.stages[-1] = msgspec.structs.replace(driven.stages[-1], released=driven.stages[-1].released + released)
        if held:
            skipped = f", {len(held) - released:,} skipped" if len(held) > released else ""
            self._note("redrive.released", row.id, row.actor, f"stage {stage}: {released:,} released{skipped}")
        return Chunk(released=released, skipped=len(held) - released, left=left)

    def _release_one(self, driven: Redriving, held: Held, stage: int) -> bool:
        now, item = self._memory.clock.now(), held.item
        job = self._rows.jobs.get(item.id)
        why = self._unfit(item.id, job, held.epoch)
        tally = driven.causes[item.cause]
        if why or job is None:
            held.item = msgspec.structs.replace(item, state="skipped", why=why, at=now)
            driven.causes[item.cause] = msgspec.structs.replace(tally, skipped=tally.skipped + 1)
            return False
        self._redrive(driven.row, job, stage)
        held.epoch += 1
        held.item = msgspec.structs.replace(item, state="released", stage=stage, at=now)
        driven.causes[item.cause] = msgspec.structs.replace(tally, released=tally.released + 1)
        return True

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

    def _is_free(self, holder: str) -> bool:
        """Whether the job that had a key last has been done for longer than a key counts."""
        row = self._rows.jobs.get(holder)
        if row is None:
            return True
        over = (row.ended_at or 0) + self._memory.settings.key_lifetime <= self._memory.clock.now()
        return row.finished is not None and over

    def _redrive(self, redrive: Redrive, row: Row, stage: int) -> None:
        plan, now, job = redrive.plan, self._memory.clock.now(), row.job
        carried = _carried(plan, job.attempts, job.policy)
        row.ended_at = row.end_reason = row.unknown_since = None
        job = self._memory.wait_for_turn(
            row,
            now,
            **(FRESH | carried),
            epoch=job.epoch + 1,
            epoch_at=now,
            redrive=redrive.id,
            queue=plan.queue or job.queue,
        )
        end_letter(self._memory, job.id, LetterState.REDRIVEN)
        self._memory.count(job, "redriven")
        self._memory.record("job.redriven", job, attempt=0, text=f"redrive {redrive.id[-8:]}, stage {stage}")

    def _note(self, event: str, id: str, actor: str, text: str) -> None:
        self._memory.note(event, actor=actor, text=f"redrive {id[-8:]}: {text}" if text else f"redrive {id[-8:]}")


def _holds(driven: Redriving, letter: str) -> bool:
    """Whether an open redrive will still release this letter."""
    held = driven.items.get(letter)
    if held is None or driven.row.state not in OPEN_REDRIVES or held.item.state != "pending":
        return False
    return driven.causes[held.item.cause].stopped is None


def _next(driven: Redriving, cause: str, n: int) -> list[Held]:
    pending = [held for held in driven.items.values() if held.item.cause == cause and held.item.state == "pending"]
    return sorted(pending, key=lambda held: held.turn)[:n]


def _carried(plan: Plan, attempts: int, policy: bytes | None) -> dict[str, object]:
    """The attempts and limits of a job in its new epoch, where they are not those of a fresh one."""
    limits = limits_of(policy)
    most = plan.max_attempts or limits.max_attempts or max(MAX_ATTEMPTS, attempts)
    found: dict[str, object] = {"attempts": min(attempts, most - 1)} if plan.keep_attempts else {}
    if plan.max_attempts is not None:
        found["policy"] = encode_limits(msgspec.structs.replace(limits, max_attempts=most))
    return found

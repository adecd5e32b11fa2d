"""What people say of groups and letters in memory: who looks after them, what was found out, what is muted or fixed."""

from collections.abc import Sequence

import msgspec

from redrive.letter import Group, GroupState, Letter, LetterState, Note
from redrive.stores.memory.rows import Memory

_EVENTS = {GroupState.MUTED: "group.muted", GroupState.CLOSED: "group.closed"}


def tell_reopened(memory: Memory, group: Group, letter: Letter) -> None:
    """Say in the journal that a closed group has a new letter."""
    where = f" in release {group.closed_in}" if group.closed_in else ""
    text = f"group {group.fingerprint}, which was closed{where}, has a new letter"
    memory.record("group.reopened", memory.rows.jobs[letter.id].job, text=text)


def reopen(memory: Memory, cause: str, what: str, actor: str) -> None:
    """Open a closed group without a new letter, and say in the journal what has happened to it."""
    group = memory.rows.groups[cause]
    if group.state is GroupState.CLOSED:
        memory.rows.groups[cause] = msgspec.structs.replace(group, state=GroupState.REOPENED)
        where = f" in release {group.closed_in}" if group.closed_in else ""
        text = f"group {cause}, which was closed{where}, {what}"
        memory.note("group.reopened", task=group.task, actor=actor, text=text)


class MemoryMarks:
    """The verbs that change no job."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows = memory.rows

    async def named(self, prefix: str, limit: int = 5) -> list[Group]:
        """The groups whose names begin so, with their notes."""
        with self._rows.lock:
            names = sorted(name for name in self._rows.groups if name.startswith(prefix))[:limit]
            return [
                msgspec.structs.replace(self.now_of(self._rows.groups[name]), notes=self._notes_of("", name))
                for name in names
            ]

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
        with self._rows.lock:
            found = self._groups(groups)
            for group in found:
                self._rows.groups[group.fingerprint] = msgspec.structs.replace(
                    group, state=state, muted_until=until, closed_in=release
                )
                where = f" in release {release}" if release else ""
                why = f": {reason}" if reason else ""
                self._tell(_EVENTS.get(state, "group.opened"), group, actor, f"{where}{why}")
            return [group.fingerprint for group in found]

    async def assign(self, owner: str | None, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Say who looks after groups and letters, None for nobody; answers how many there are."""
        with self._rows.lock:
            found, letters = self._groups(groups), self._letters(ids)
            for group in found:
                self._rows.groups[group.fingerprint] = msgspec.structs.replace(group, owner=owner)
                self._tell("group.assigned", group, actor, f" to {owner or 'nobody'}")
            for letter in letters:
                self._rows.letters[letter.id] = msgspec.structs.replace(letter, owner=owner)
                self.tell_letter("letter.assigned", letter, actor, f"to {owner or 'nobody'}")
            return len(found) + len(letters)

    async def note(self, text: str, actor: str, groups: Sequence[str] = (), ids: Sequence[str] = ()) -> int:
        """Write something about groups and letters that outlives their retries; answers how many there are."""
        with self._rows.lock:
            found, letters = self._groups(groups), self._letters(ids)
            note = Note(at=self._memory.clock.now(), actor=actor, text=text)
            for group in found:
                self._rows.notes.append((group.fingerprint, msgspec.structs.replace(note, group=True)))
                self._tell("group.noted", group, actor, f": {text}")
            for letter in letters:
                self._rows.notes.append((letter.id, note))
                self.tell_letter("letter.noted", letter, actor, text)
            return len(found) + len(letters)

    # --- the steps, under the lock ----------------------------------------------------------------------------------

    def now_of(self, group: Group) -> Group:
        """A group as it is now: one whose time to be muted is over is open, its sample is an open letter if it can."""
        group = msgspec.structs.replace(group, sample=self._sample_of(group))
        until = group.muted_until
        over = group.state is GroupState.MUTED and until is not None and until <= self._memory.clock.now()
        return msgspec.structs.replace(group, state=GroupState.OPEN, muted_until=None) if over else group

    def _sample_of(self, group: Group) -> str:
        def fits(letter: Letter | None) -> bool:
            return letter is not None and letter.state is LetterState.OPEN and letter.group == group.fingerprint

        letters = self._rows.letters
        if fits(letters.get(group.sample)):
            return group.sample
        fit = [(each.failed_at, each.id) for each in letters.values() if fits(each)]
        return max(fit, default=(0, group.sample))[1]

    def tell_letter(self, event: str, letter: Letter, actor: str, text: str | None) -> None:
        """Write an entry about the job of a letter."""
        about: dict[str, str | int] = {"job": letter.id, "task": letter.task, "queue": letter.queue}
        self._memory.note(event, **about, epoch=letter.epochs, attempt=letter.attempts, actor=actor, text=text)

    def _tell(self, event: str, group: Group, actor: str, text: str) -> None:
        self._memory.note(event, task=group.task, actor=actor, text=f"{group.fingerprint}{text}")

    def _groups(self, names: Sequence[str]) -> list[Group]:
        return [self._rows.groups[name] for name in dict.fromkeys(names) if name in self._rows.groups]

    def _letters(self, ids: Sequence[str]) -> list[Letter]:
        return [self._rows.letters[id] for id in dict.fromkeys(ids) if id in self._rows.letters]

    def _notes_of(self, id: str, group: str) -> tuple[Note, ...]:
        return tuple(note for about, note in self._rows.notes if about in (id, group))

    def _marked(self, letter: Letter) -> Letter:
        """With what was said of it and of its group."""
        owner = letter.owner or self._rows.groups[letter.group].owner
        return msgspec.structs.replace(letter, owner=owner, notes=self._notes_of(letter.id, letter.group))

"""`redrive dlq assign`, `note`, `mute` and `close`: what people say of groups and letters."""

import click

from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import counted, emit, say
from redrive.cli.session import Session, actor
from redrive.cli.shapes import of_group
from redrive.cli.times import at_and_beside, read_end
from redrive.errors import UsageError
from redrive.letter import GroupState
from redrive.store import Store
from redrive.targets import Targets, kept, note_of, targets

reason_option = click.option("--reason", metavar="TEXT", help="Why, for the journal.")
what_argument = click.argument("what", metavar="WHAT...", nargs=-1, required=True)
groups_argument = click.argument("groups", metavar="GROUP...", nargs=-1, required=True)


@click.command("assign", cls=Verb, short_help="Say who looks after groups and letters.")
@what_argument
@click.option("--to", "owner", metavar="WHO", help="Who looks after them from now on.")
@click.option("--nobody", is_flag=True, help="Nobody does any more.")
@json_option
@pass_session
def assign(session: Session, what: tuple[str, ...], owner: str | None, nobody: bool, as_json: bool) -> None:
    """Say who looks after groups (by the beginning of their names) and letters (by the end of their ids).

    A letter's own owner goes before that of its group. Filters find them: owner = alice.
    """
    if nobody == (owner is not None):
        raise UsageError("say either --to WHO or --nobody")
    session.run(_assign(session, what, None if owner is None else kept(owner), as_json))


async def _assign(session: Session, what: tuple[str, ...], owner: str | None, as_json: bool) -> None:
    async with session.opened() as store:
        found = await targets(store, what)
        await store.letters.assign(owner, actor(), found.groups, found.letters)
        _told(found, {"owner": owner}, f"{_spoken(found)} assigned to {owner or 'nobody'}", as_json)


@click.command("note", cls=Verb, short_help="Write a note on groups and letters.")
@what_argument
@click.option("--text", metavar="TEXT", required=True, help="What to keep in mind.")
@json_option
@pass_session
def note(session: Session, what: tuple[str, ...], text: str, as_json: bool) -> None:
    """Write a note on groups and letters; it outlives their retries, and filters look into it: note ~ relay."""
    session.run(_note(session, what, note_of(text), as_json))


async def _note(session: Session, what: tuple[str, ...], text: str, as_json: bool) -> None:
    async with session.opened() as store:
        found = await targets(store, what)
        await store.letters.note(text, actor(), found.groups, found.letters)
        _told(found, {"note": text}, f"noted on {_spoken(found)}", as_json)


def _told(found: Targets, shape: dict[str, str | None], sentence: str, as_json: bool) -> None:
    if as_json:
        emit({"groups": list(found.groups), "letters": list(found.letters)} | shape)
    else:
        say(sentence)


def _spoken(found: Targets) -> str:
    parts = [counted(len(names), word) for names, word in ((found.groups, "group"), (found.letters, "letter")) if names]
    return " and ".join(parts)


@click.command("mute", cls=Verb, short_help="Leave groups out of `dlq groups` for a while.")
@groups_argument
@click.option("--for", "length", metavar="TIME", help="For this long: 10m, 2h, 7d.")
@click.option("--until", metavar="TIME", help="Until this time: 2026-01-31T14:30, local or with a zone.")
@click.option("--off", is_flag=True, help="Show them again.")
@reason_option
@json_option
@pass_session
def mute(
    session: Session,
    groups: tuple[str, ...],
    length: str | None,
    until: str | None,
    off: bool,
    reason: str | None,
    as_json: bool,
) -> None:
    """Leave groups out of `dlq groups`, until a moment or until `--off`; new letters do not change that."""
    now = session.clock.now()
    end = read_end(until, length, now)
    if off and end is not None:
        raise UsageError("--off shows groups again; leave out --for and --until")
    state = GroupState.OPEN if off else GroupState.MUTED
    session.run(_set(session, groups, state, as_json, now, reason=reason or "", until=end))


@click.command("close", cls=Verb, short_help="Say that the cause of groups is fixed.")
@groups_argument
@click.option("--release", metavar="RELEASE", help="The release of your code that fixed it.")
@click.option("--reopen", is_flag=True, help="It is not fixed: open them again.")
@reason_option
@json_option
@pass_session
def close(
    session: Session, groups: tuple[str, ...], release: str | None, reopen: bool, reason: str | None, as_json: bool
) -> None:
    """Say that the cause of groups is fixed. A new letter of that cause reopens its group and says so in the journal.

    Letters that are there stay as they are: bring them back, or discard them.
    """
    if reopen and release is not None:
        raise UsageError("--reopen opens groups; leave out --release")
    state = GroupState.OPEN if reopen else GroupState.CLOSED
    fixed_in = None if release is None else kept(release, "release")
    session.run(_set(session, groups, state, as_json, session.clock.now(), reason=reason or "", release=fixed_in))


async def _set(
    session: Session,
    words: tuple[str, ...],
    state: GroupState,
    as_json: bool,
    now: int,
    *,
    reason: str,
    until: int | None = None,
    release: str | None = None,
) -> None:
    async with session.opened() as store:
        found = await targets(store, words, letters=False)
        await store.letters.set_groups(found.groups, state, actor(), reason=reason, until=until, release=release)
        for name in found.groups:
            await _tell(store, name, now, as_json)


async def _tell(store: Store, name: str, now: int, as_json: bool) -> None:
    [group] = await store.letters.named(name, 1)
    until = f" until {at_and_beside(group.muted_until, now)}" if group.muted_until else ""
    release = f" in release {group.closed_in}" if group.closed_in else ""
    if as_json:
        emit(of_group(group))
    else:
        say(f"group {name} is {group.state}{until}{release}; it has {counted(group.count, 'open letter')}")

"""`redrive dlq discard`, `restore` and `purge`: the end of letters, one or thousands at a time."""

from collections.abc import Callable
from typing import Any

import click

from redrive.bulk import Tally, Verb, chosen, disposed
from redrive.cli.asking import confirm
from redrive.cli.cause import of_causes, show_causes, tell_causes
from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.looking import looked_over
from redrive.cli.operating import DONE, concluded, detach_option
from redrive.cli.options import Verb as Command
from redrive.cli.options import filter_option, json_option, pass_session, yes_option
from redrive.cli.output import counted, emit, say
from redrive.cli.session import Session, actor
from redrive.cli.times import beside, read_duration
from redrive.clock import iso
from redrive.job import priority_of
from redrive.query.tree import Both, Compare, Tree
from redrive.store import Store
from redrive.survey import Survey
from redrive.targets import targets


def _which(command: Callable[..., int]) -> Callable[..., int]:
    """The options that say which letters are meant, and how it is done."""
    for option in (
        pass_session,
        json_option,
        yes_option,
        detach_option,
        click.option("--dry-run", is_flag=True, help="Only say what would be touched."),
        click.option("--reason", metavar="TEXT", default="", help="Why, for the journal."),
        click.option("--all", "every", is_flag=True, help="All that it can be done to."),
        filter_option,
        click.argument("what", metavar="[WHAT]...", nargs=-1),
    ):
        command = option(command)
    return command


@click.command("discard", cls=Command, short_help="End letters whose jobs are not worth doing.")
@_which
def discard(session: Session, **given: Any) -> int:
    """End open letters and their jobs: letters or groups by name, those of a filter, or all. `restore` undoes it."""
    return session.run(_bulk(session, "discard", **given))


@click.command("restore", cls=Command, short_help="Undo a discard.")
@_which
def restore(session: Session, **given: Any) -> int:
    """Undo discards: the jobs are dead again, with an open letter in its group."""
    return session.run(_bulk(session, "restore", **given))


@click.command("purge", cls=Command, short_help="Remove letters for good.")
@click.option("--older-than", metavar="TIME", help="Only those that failed last so long ago: 7d, 12h.")
@click.option("--priority", metavar="LEVEL", help="Only those of a priority: low, normal, high or 0 to 9.")
@_which
def purge(session: Session, older_than: str | None, priority: str | None, **given: Any) -> int:
    """Remove letters with their failures and jobs for good; jobs of the same ids are not accepted again.

    Open ones, unless the filter speaks of the state: 'state = discarded'. There is no way back.
    """
    more: list[Tree] = []
    if older_than is not None:
        more.append(Compare("failed_at", "<=", session.clock.now() - read_duration(older_than, "--older-than")))
    if priority is not None:
        more.append(Compare("priority", "=", priority_of(priority)))
    return session.run(_bulk(session, "purge", more=tuple(more), **given))


async def _bulk(
    session: Session,
    verb: Verb,
    *,
    what: tuple[str, ...],
    filter: str,
    every: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    detach: bool,
    more: tuple[Tree, ...] = (),
) -> int:
    """Say what is meant, ask, and do it in chunks."""
    now = session.clock.now()
    named = bool(what)
    if not named:
        chosen(verb, filter, None, now, all=every or bool(more and not filter.strip()))
    async with session.opened() as store:
        found = await targets(store, what) if named else None
        tree = Both((chosen(verb, filter, found, now, all=every or bool(more and not filter and not named)), *more))
        survey = await looked_over(store, tree)
        sentence = f"{spoken(survey, now)} of {store.url} to {verb}"
        if dry_run:
            return _told_only(survey, sentence, as_json)
        if not yes:
            tell_causes(survey.groups)
        if survey.letters and not confirm(
            sentence, f"{verb.capitalize()} {counted(survey.letters, 'letter')}?", yes=yes
        ):
            say("nothing was changed")
            return EXIT_FAULT
        if found is not None and not found.groups and not detach:
            return await _done(store, verb, tree, reason, now, as_json)
        words = asked(what, filter, more)
        operation = await store.operations.open(verb, tree, actor(), reason, filter=words)
        return await concluded(session, store, operation, survey.letters, detach=detach, as_json=as_json)


def asked(what: tuple[str, ...], filter: str, more: tuple[Tree, ...] = ()) -> str:
    """Which letters, in the words that were typed."""
    limits = [f"{each.field} {each.order} {each.value}" for each in more if isinstance(each, Compare)]
    return " and ".join(filter_ for filter_ in (" ".join(what), filter.strip(), *limits) if filter_)


def spoken(survey: Survey, now: int) -> str:
    """How many letters, in how many groups, from when to when."""
    letters = counted(survey.letters, "letter")
    if survey.oldest is None or survey.newest is None:
        return letters
    times = f"failed between {beside(survey.oldest, now)} and {beside(survey.newest, now)}"
    return f"{letters} in {counted(len(survey.groups), 'group')}, {times},"


def _told_only(survey: Survey, sentence: str, as_json: bool) -> int:
    if as_json:
        times = {"oldest": survey.oldest, "newest": survey.newest}
        emit(
            {"letters": survey.letters, "groups": of_causes(survey.groups)}
            | {name: at and iso(at) for name, at in times.items()}
        )
    else:
        show_causes(survey.groups)
        say(f"{sentence}; nothing was changed")
    return 0


async def _done(store: Store, verb: Verb, tree: Tree, reason: str, now: int, as_json: bool) -> int:
    """The few letters that were named, at once."""
    tally = Tally()
    async for chunk in disposed(store, verb, tree, actor(), reason, now):
        tally.add(chunk)
    if as_json:
        emit({DONE[verb]: tally.done, "left": dict(tally.left)})
    else:
        say(f"{DONE[verb]} {counted(tally.done, 'letter')}")
        for why, n in tally.left.most_common():
            say(f"left {counted(n, 'letter')}: {why}")
    return EXIT_PARTLY if tally.left else 0

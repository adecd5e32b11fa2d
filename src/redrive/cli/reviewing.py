"""`redrive dlq review`: hold letters for a person, and say that one has looked."""

import click

from redrive.bulk import Tally
from redrive.cli.asking import confirm
from redrive.cli.disposing import spoken
from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.looking import looked_over
from redrive.cli.options import Verb, filter_option, json_option, pass_session, yes_option
from redrive.cli.output import counted, emit, say
from redrive.cli.session import Session, actor
from redrive.errors import UsageError
from redrive.reviews import reviewed, to_review, why_of
from redrive.targets import targets


@click.command("review", cls=Verb, short_help="Hold letters for a person, or say that one has looked.")
@click.argument("what", metavar="[WHAT]...", nargs=-1)
@filter_option
@click.option("--all", "every", is_flag=True, help="Every open letter; with --done every one that needs review.")
@click.option("--reason", metavar="TEXT", help="What a person has to look at.")
@click.option("--done", is_flag=True, help="A person has looked: they may be brought back.")
@yes_option
@json_option
@pass_session
def command(
    session: Session,
    what: tuple[str, ...],
    filter: str,
    every: bool,
    reason: str | None,
    done: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Hold open letters until a person has looked: letters or groups by name, those of a filter, or all.

    Redrives and rules leave them alone and say why, unless they are forced. They are found by 'review is not null';
    --done lets them go, and counts anew how often they come back.
    """
    if done == (reason is not None):
        raise UsageError("say either --reason, what a person has to look at, or --done")
    why = None if reason is None else why_of(reason)
    return session.run(_review(session, what, filter, every, why, yes, as_json))


async def _review(
    session: Session, what: tuple[str, ...], filter: str, every: bool, why: str | None, yes: bool, as_json: bool
) -> int:
    now, tally = session.clock.now(), Tally()
    if not what:
        to_review(filter, None, now, held=why is None, all=every)
    async with session.opened() as store:
        named = await targets(store, what) if what else None
        tree = to_review(filter, named, now, held=why is None, all=every)
        survey = await looked_over(store, tree)
        word = "hold for review" if why else "let go"
        if survey.letters and not what and not confirm(f"{spoken(survey, now)} to {word}", "Do it?", yes=yes):
            say("nothing was changed")
            return EXIT_FAULT
        async for chunk in reviewed(store, tree, why, actor()):
            tally.add(chunk)
    if as_json:
        emit({"letters": tally.done, "review": why, "left": dict(tally.left)})
    else:
        say(f"{counted(tally.done, 'letter')} {_become(tally.done, why)}")
    return EXIT_PARTLY if tally.left else 0


def _become(n: int, why: str | None) -> str:
    need = "needs" if n == 1 else "need"
    return f"{need} review: {why}" if why else f"{need} no review any more"

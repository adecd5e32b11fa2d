"""`redrive dlq stats`: how many dead letters there are, of what kinds, since when, and how well retries heal."""

from collections import Counter
from collections.abc import Callable, Iterator

import click

from redrive.cli.faults import EXIT_FAULT
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import clean, counted, emit, paint, say, show, width
from redrive.cli.session import Session
from redrive.cli.times import at_and_beside
from redrive.clock import SECOND, iso
from redrive.job import PRIORITIES
from redrive.store import Count, Total, Totals

DAY = 24 * 3_600 * SECOND
SHOWN = 10
"""So many kinds of each sort are shown; --json has all."""

_NAMES = 16
_PRIORITY = {number: f"{number} ({name})" for name, number in PRIORITIES.items()}
_SORTS: dict[str, Callable[[Total], str]] = {
    "queue": lambda kind: kind.queue,
    "task": lambda kind: kind.task,
    "reason": lambda kind: kind.reason,
    "priority": lambda kind: _PRIORITY.get(kind.priority, str(kind.priority)),
}


@click.command("stats", cls=Verb, short_help="Count letters by queue, task, reason and priority.")
@click.option("--fail-over", type=at_least(0), metavar="N", help="End with code 1 when there are more than N.")
@json_option
@pass_session
def command(session: Session, fail_over: int | None, as_json: bool) -> int:
    """Count open letters by queue, task, reason and priority, and say how well retries healed in the last 24 hours."""
    return session.run(_stats(session, fail_over, as_json))


async def _stats(session: Session, fail_over: int | None, as_json: bool) -> int:
    now = session.clock.now()
    async with session.opened() as store:
        totals = await store.letters.totals()
        healed, buried = _retries(await store.journal.counters(now - DAY))
    total = sum(kind.n for kind in totals.kinds)
    if as_json:
        emit(_shape(totals, total, healed, buried))
    elif not total:
        say(f"there are no open letters in {store.url}")
    else:
        _page(totals, total, healed, buried, now)
    if fail_over is not None and total > fail_over:
        say(f"{counted(total, 'open letter')}, more than {fail_over:,}")
        return EXIT_FAULT
    return 0


def _retries(counts: list[Count]) -> tuple[int, int]:
    """How many jobs a retry has healed, and how many were given up on."""
    sums: Counter[str] = Counter()
    for count in counts:
        sums[count.name] += count.n
    return sums["done_on_retry"], sums["buried"]


def _held(totals: Totals) -> int:
    """How many open letters need a person."""
    return sum(kind.review for kind in totals.kinds)


def _by(totals: Totals, sort: str) -> list[tuple[str, int]]:
    """Most letters first."""
    sums: Counter[str] = Counter()
    for kind in totals.kinds:
        sums[_SORTS[sort](kind)] += kind.n
    return sorted(sums.items(), key=lambda line: (-line[1], line[0]))


def _shape(totals: Totals, total: int, healed: int, buried: int) -> dict[str, object]:
    return {
        "letters": total,
        "eligible": total - _held(totals),
        "needs_review": _held(totals),
        **{f"by_{sort}": dict(_by(totals, sort)) for sort in _SORTS},
        "oldest": iso(totals.oldest) if totals.oldest else None,
        "newest": iso(totals.newest) if totals.newest else None,
        "healed_by_retry_24h": healed,
        "buried_24h": buried,
    }


def _page(totals: Totals, total: int, healed: int, buried: int, now: int) -> None:
    show(counted(total, "open letter"), bold=True)
    for at, word in ((totals.oldest, "oldest"), (totals.newest, "newest")):
        if at:
            show(f"  {word:<{_NAMES}}{at_and_beside(at, now)}")
    held = _held(totals)
    show(f"  {'eligible':<{_NAMES}}{total - held:,}{f', {held:,} need review' if held else ''}")
    if healed + buried:
        share = f"{100 * healed / (healed + buried):.0f} % of what failed in the last 24 hours"
        show(f"  {'retries':<{_NAMES}}healed {share} ({healed:,} of {healed + buried:,})")
    for sort in _SORTS:
        show()
        show(f"by {sort}", bold=True)
        for line in _lines(_by(totals, sort), total):
            show(line)


def _lines(rows: list[tuple[str, int]], total: int) -> Iterator[str]:
    """A count, a bar and a name for each."""
    digits = len(f"{rows[0][1]:,}")
    room = max(5, min(30, width() - digits - 34))
    for name, n in rows[:SHOWN]:
        bar = "█" * max(1, round(room * n / total))
        yield f"  {n:>{digits},}  {paint(f'{bar:<{room}}', colour='red')}  {clean(name)}"
    if len(rows) > SHOWN:
        yield f"  … {len(rows) - SHOWN} more; --json has them all"

"""`redrive dlq analyze`: the causes, the reasons, when it was, what is new, and what the failures share."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import click

from redrive.analysis import DAY, HOUR, THERE, Bar, Case, Pick, Shared, Times, shared
from redrive.cli.looking import causes_of, sought
from redrive.cli.options import Verb, filter_option, json_option, pass_session
from redrive.cli.output import Column, clean, counted, emit, paint, say, show, table, width
from redrive.cli.session import Session
from redrive.cli.times import roughly_beside
from redrive.clock import iso
from redrive.letter import Group
from redrive.query.tree import Tree
from redrive.redact import MASK, is_secret, redact_text
from redrive.sampling import PAYLOAD_LIMIT
from redrive.store import Store
from redrive.triage import meant

LOOKED_AT = 100_000
"""So many letters are looked at, the last ones."""

TASKS = 5
"""So many tasks are compared with their successes, those with the most letters."""

GROUPS = 1_000
AT_ONCE = 20
SHOWN = 10
_CAUSES = (
    Column("GROUP"),
    Column("LETTERS", right=True),
    Column("LAST"),
    Column("SAMPLE"),
    Column("CAUSE", shrink=True),
)
_SHARED = (Column("FAILED", right=True), Column("SUCCEEDED", right=True), Column("WHAT", shrink=True))


@dataclass(slots=True)
class Findings:
    """What was found in the letters that were looked at."""

    groups: list[Group] = field(default_factory=list)
    seen: int = 0
    more: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    times: Times = field(default_factory=Times)
    picks: dict[str, Pick] = field(default_factory=dict)
    shares: list["Shares"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Shares:
    """What the failures of a task share, and with how many successes they were compared."""

    task: str
    failed: int
    succeeded: int
    found: list[Shared]


@click.command("analyze", cls=Verb, short_help="See patterns: causes, times, what is new, what failures share.")
@filter_option
@json_option
@pass_session
def command(session: Session, filter: str, as_json: bool) -> None:
    """Show the causes with counts, the reasons, when the failures were, which causes are new since yesterday, and what
    failures share that succeeded jobs of the same task do not: places in the payload, host, release, hour and size.
    """
    session.run(_analyze(session, filter, as_json))


async def _analyze(session: Session, filter: str, as_json: bool) -> None:
    now = session.clock.now()
    async with session.opened() as store:
        findings = await _look(store, meant(filter, now))
        findings.groups = await causes_of(store, filter, now, GROUPS)
        busiest = sorted(findings.picks.items(), key=lambda pick: (-pick[1].seen, pick[0]))[:TASKS]
        findings.shares = [await _compared(store, task, pick) for task, pick in busiest]
        if as_json:
            emit(_shape(findings, now))
        elif not findings.seen:
            say(f"there are no such letters in {store.url}")
        else:
            _page(findings, now)


async def _look(store: Store, tree: Tree) -> Findings:
    """At the last letters, each once and without its payload."""
    findings = Findings()
    async for letter in sought(store, tree, LOOKED_AT + 1):
        if findings.seen == LOOKED_AT:
            findings.more = True
            break
        findings.seen += 1
        findings.reasons[letter.reason] += 1
        findings.times.add(letter.failed_at)
        findings.picks.setdefault(letter.task, Pick()).add(letter.id)
    return findings


async def _compared(store: Store, task: str, pick: Pick) -> Shares:
    bad = [case async for case in _cases(store, pick.ids)]
    successes = await store.jobs.successes(task)
    good = [
        Case(at=one.at, host=one.host, release=one.release, size=one.size, payload=one.payload) for one in successes
    ]
    return Shares(task, len(bad), len(good), shared(bad, good))


async def _cases(store: Store, ids: Sequence[str]) -> AsyncIterator[Case]:
    """A few letters at a time; as of successes, a long payload counts by its size only."""
    for begin in range(0, len(ids), AT_ONCE):
        for letter in await store.letters.whole(ids[begin : begin + AT_ONCE]):
            size = None if letter.payload is None else len(letter.payload)
            payload = letter.payload if size is not None and size <= PAYLOAD_LIMIT else None
            yield Case(at=letter.failed_at, host=letter.host, release=letter.release, size=size, payload=payload)


def _is_new(group: Group, now: int) -> bool:
    return group.first_seen > now - DAY


# as JSON --------------------------------------------------------------------------------------------------------------


def _shape(findings: Findings, now: int) -> dict[str, object]:
    length, bars = findings.times.bars()
    return {
        "letters": findings.seen,
        "more": findings.more,
        "groups": [_group(group, now) for group in findings.groups],
        "reasons": dict(findings.reasons.most_common()),
        "failures_by": "hour" if length == HOUR else "day",
        "failures": [{"at": iso(bar.at), "letters": bar.n} for bar in bars],
        "shares": [
            {
                "task": each.task,
                "failed": each.failed,
                "succeeded": each.succeeded,
                "traits": [
                    {"name": one.name, "value": _masked(one), "failed": one.failed, "succeeded": one.succeeded}
                    for one in each.found
                ],
            }
            for each in findings.shares
        ],
    }


def _group(group: Group, now: int) -> dict[str, object]:
    return {
        "group": group.fingerprint,
        "letters": group.count,
        "task": group.task,
        "reason": group.reason,
        "cause": group.title,
        "sample": group.sample,
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "new": _is_new(group, now),
    }


def _masked(trait: Shared) -> str:
    """A value of a place whose name says that it is a secret is not shown."""
    return MASK if is_secret(trait.name.rpartition(".")[2]) and trait.value != THERE else redact_text(trait.value)


# as a page ------------------------------------------------------------------------------------------------------------


def _page(findings: Findings, now: int) -> None:
    last = f"the last {findings.seen:,} letters; there are more" if findings.more else counted(findings.seen, "letter")
    show(last, bold=True)
    _title("causes")
    table(_CAUSES, [_cause(group, now) for group in findings.groups[:SHOWN]])
    if len(findings.groups) > SHOWN:
        show(f"… {len(findings.groups) - SHOWN:,} more; --json has them all")
    new = [group for group in findings.groups if _is_new(group, now)]
    _title("new since yesterday")
    if new:
        table(_CAUSES, [_cause(group, now) for group in new[:SHOWN]])
    else:
        show("  nothing")
    _title("by reason")
    for line in _bars(findings.reasons.most_common(SHOWN)):
        show(line)
    length, bars = findings.times.bars()
    _title("failures by hour, UTC" if length == HOUR else "failures by day, UTC")
    for line in _bars([(_stamp(bar, length), bar.n) for bar in bars]):
        show(line)
    for each in findings.shares:
        _title(f"what failures of {clean(each.task)} share")
        _show_shares(each)


def _title(text: str) -> None:
    show()
    show(text, bold=True)


def _cause(group: Group, now: int) -> list[str]:
    last = roughly_beside(group.last_seen, now)
    return [group.fingerprint[:8], f"{group.count:,}", last, group.sample[-8:], f"{group.task}: {group.title}"]


def _stamp(bar: Bar, length: int) -> str:
    return f"{iso(bar.at)[:10]} {iso(bar.at)[11:16]}" if length == HOUR else iso(bar.at)[:10]


def _bars(rows: Sequence[tuple[str, int]]) -> Iterator[str]:
    """A name, a bar and a count for each; what is not nothing is seen."""
    most = max((n for _, n in rows), default=1)
    names, digits = max(len(clean(name)) for name, _ in rows), len(f"{most:,}")
    room = max(5, min(40, width() - names - digits - 6))
    for name, n in rows:
        bar = "█" * (max(1, round(room * n / most)) if n else 0)
        yield f"  {clean(name):<{names}}  {n:>{digits},}  {paint(bar, colour='red')}".rstrip()


def _show_shares(shares: Shares) -> None:
    if not shares.succeeded:
        show("  no job of this task has succeeded here yet, so there is nothing to compare with")
    elif not shares.found:
        show(f"  nothing that {counted(shares.succeeded, 'succeeded job')} of it would not have too")
    else:
        table(_SHARED, [_trait(one) for one in shares.found])


def _trait(one: Shared) -> list[str]:
    what = f"{one.name} {one.value}" if one.value == THERE else f"{one.name} = {_masked(one)}"
    return [_share(one.failed, one.of_failed), _share(one.succeeded, one.of_succeeded), what]


def _share(n: int, of: int) -> str:
    return f"{100 * n / of:.0f} % ({n:,}/{of:,})"

"""`redrive prove`: adds up what came, what went and what is there, and looks at the seals on what people did."""

import sys
from itertools import count
from typing import Any

import click

from redrive.cli.faults import EXIT_FAULT
from redrive.cli.line import Line
from redrive.cli.options import Verb, at_least, json_option, pass_session
from redrive.cli.output import Column, clean, counted, emit, folded, say, show, table, width
from redrive.cli.session import Session
from redrive.cli.times import beside
from redrive.clock import iso
from redrive.ledger import FLAWS, Account, Flaw, Proof, Trail, narrowed, noted_seal

_COLUMNS = (
    Column("QUEUE", shrink=True),
    Column("CAME", right=True),
    Column("DONE", right=True),
    Column("DISCARDED", right=True),
    Column("PURGED", right=True),
    Column("MOVED ON", right=True),
    Column("LIVE", right=True),
    Column("DEAD", right=True),
    Column("OFF", right=True),
)
_STEPS = len(FLAWS) + 3


@click.command("prove", cls=Verb)
@click.argument("queues", metavar="[QUEUE]...", nargs=-1)
@click.option("--limit", metavar="N", type=at_least(1), default=20, show_default=True, help="Name so many of a kind.")
@click.option("--seal", metavar="SEAL", help="A seal that was noted elsewhere, such as 12:3f2a9c04d1b7e855.")
@json_option
@pass_session
def command(session: Session, queues: tuple[str, ...], limit: int, seal: str | None, as_json: bool) -> int:
    """Add up what came, what went and what is there, per queue, and name what does not fit.

    What came (enqueued, imported, restored, moved here) must be what went (done, discarded, purged, moved on) and what
    is there. Rows that contradict each other are named, of every queue; what left no row is counted only. The journal's
    acts of people are held against their seals. It works beside running workers and changes nothing. Exit code 0:
    everything adds up; 1: something does not.
    """
    noted = None if seal is None else noted_seal(seal)

    async def proven() -> Proof:
        async with session.opened() as store:
            with Line() as line:
                steps = count(1)

                def tell(step: str) -> None:
                    line.write(f"adding up, {next(steps)} of {_STEPS}: {step}")

                return narrowed(await store.journal.prove(limit, noted, tell), queues)

    proof = session.run(proven())
    if as_json:
        emit(of_proof(proof))
    else:
        _show(proof, session.clock.now())
    return 0 if proof.adds_up else EXIT_FAULT


# for a person -------------------------------------------------------------------------------------------------------


def _show(proof: Proof, now: int) -> None:
    if proof.accounts:
        table(_COLUMNS, [_row(account) for account in proof.accounts])
    for account in proof.off:
        _tell(_of_account(account))
    for flaw in proof.flaws:
        _show_flaw(flaw)
    say(_verdict(proof, now))
    say(_of_trail(proof.trail))


def _row(account: Account) -> list[str]:
    numbers = (account.came, account.done, account.discarded, account.dead_purged, account.moved_out)
    off = f"{abs(account.missing):,} {'missing' if account.missing > 0 else 'too many'}" if account.missing else ""
    return [account.queue, *(f"{n:,}" for n in (*numbers, account.live, account.dead)), off]


def _of_account(account: Account) -> str:
    came, gone, here = f"{account.came:,} came", f"{account.went:,} went", f"{account.here:,} are there"
    if account.missing > 0:
        why = f"{counted(account.missing, 'job')} left no trace: rows were deleted behind the store's back"
    else:
        why = f"{-account.missing:,} more than came: counts were lost, or rows were put in behind the store's back"
    return f"queue {account.queue}: {came}, {gone}, {here}; {why}; counted only, no row names them"


def _show_flaw(flaw: Flaw) -> None:
    _tell(f"{flaw.kind}, {flaw.n:,} of them: {flaw.what}")
    for name in flaw.names:
        show(f"  {clean(name)}")
    if flaw.n > len(flaw.names):
        show(f"  and {flaw.n - len(flaw.names):,} more")


def _tell(text: str) -> None:
    """A sentence, folded for a terminal; a pipe gets one line."""
    for line in folded(clean(text), width()) if sys.stdout.isatty() else [clean(text)]:
        show(line, bold=True)


def _verdict(proof: Proof, now: int) -> str:
    came = sum(account.came for account in proof.accounts)
    carried = "" if proof.since is None else f" (the books were opened {beside(proof.since, now)}, with what was there)"
    if not proof.off and not proof.flaws:
        return f"the ledger adds up: {counted(came, 'job')} came, each is accounted for{carried}"
    off = f"{counted(len(proof.off), 'queue')} off" if proof.off else "the numbers do, but not the rows"
    kinds = f", {counted(len(proof.flaws), 'kind')} of rows that do not fit" if proof.flaws else ""
    return f"the ledger does not add up: {off}{kinds}{carried}"


def _of_trail(trail: Trail) -> str:
    waiting = f"{counted(trail.unsealed, 'act')} not sealed yet" if trail.unsealed else "nothing waits for a seal"
    if trail.broken is not None:
        entry = f"entry {trail.broken.entry} " if trail.broken.entry is not None else ""
        return f"the trail does not hold: seal {trail.broken.seal}: {entry}{trail.broken.why}; {waiting}"
    if trail.last is None:
        return f"the trail has no seal yet: {waiting}; a worker seals what people did every few seconds"
    acts = f"{counted(trail.sealed, 'act')} under {counted(trail.last.number, 'seal')}"
    acts += f" ({trail.forgotten:,} of them forgotten, their seals are kept)" if trail.forgotten else ""
    return f"the trail holds: {acts}, the last one {trail.last.name} of {iso(trail.last.at)}; {waiting}"


# for a program ------------------------------------------------------------------------------------------------------


def of_proof(proof: Proof) -> dict[str, Any]:
    """Everything as JSON."""
    trail = proof.trail
    return {
        "adds_up": proof.adds_up,
        "since": None if proof.since is None else iso(proof.since),
        "queues": [_of_queue(account) for account in proof.accounts],
        "flaws": [{"kind": flaw.kind, "what": flaw.what, "n": flaw.n, "names": flaw.names} for flaw in proof.flaws],
        "trail": {
            "holds": trail.broken is None,
            "sealed": trail.sealed,
            "forgotten": trail.forgotten,
            "unsealed": trail.unsealed,
            "seal": trail.last and trail.last.name,
            "sealed_at": trail.last and iso(trail.last.at),
            "broken": trail.broken,
        },
    }


def _of_queue(account: Account) -> dict[str, Any]:
    names = [name for name in account.__struct_fields__ if name != "queue"]
    sums = {"queue": account.queue, "came": account.came, "went": account.went, "here": account.here}
    return sums | {"missing": account.missing} | {name: getattr(account, name) for name in names}

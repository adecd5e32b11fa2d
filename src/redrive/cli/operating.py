"""A bulk operation on the terminal: carried on while it tells how far it is, or left to the workers."""

from collections import Counter
from typing import Any

import click

from redrive.cli.faults import EXIT_FAULT, EXIT_PARTLY
from redrive.cli.finding import digits_of
from redrive.cli.line import Line
from redrive.cli.output import counted, emit, say
from redrive.cli.session import Session
from redrive.clock import iso
from redrive.errors import NotFound, UsageError
from redrive.operations import carried_on, partly, workshop_of
from redrive.repair import Workshop
from redrive.store import Operation, Store

DONE = {
    "discard": "discarded",
    "restore": "restored",
    "purge": "purged",
    "edit": "edited",
    "undo": "undone",
    "regroup": "regrouped",
}
KNOWN = 10_000
detach_option = click.option("--detach", is_flag=True, help="Leave it to the workers.")


def workshop(session: Session) -> Workshop:
    """Payloads are checked against the app that is named, if one is."""
    return workshop_of(session.app()) if session.named_app else Workshop()


async def concluded(
    session: Session, store: Store, operation: Operation, total: int | None, *, detach: bool, as_json: bool
) -> int:
    """Carry it to its end and tell how it ended; or leave it to the workers. Answers the exit code."""
    if detach:
        await _leave(store, operation, as_json=as_json)
        return 0
    return told(await _driven(session, store, operation, total), as_json=as_json)


async def _leave(store: Store, operation: Operation, *, as_json: bool) -> None:
    """Tell who goes on, and how to see it."""
    short = operation.id[-8:]
    if as_json:
        emit(of_operation(operation))
    else:
        say(f"operation {short} is left to the workers; `redrive operations show {short}` tells how far it is")
    if not await store.workers.find():
        say(f"no worker runs yet; start one with `redrive worker`, or go on with `redrive operations resume {short}`")


async def _driven(session: Session, store: Store, operation: Operation, total: int | None) -> Operation:
    with Line() as line:

        def look(now: Operation) -> None:
            nonlocal operation
            operation = now
            if line.is_due:
                line.write(progress(now, total))

        try:
            return await carried_on(store, operation, workshop(session), look)
        except BaseException:
            line.clear()
            say(
                f"interrupted after {counted(operation.done, 'letter')}: operation {operation.id[-8:]} goes on with "
                f"the next worker, or here with `redrive operations resume {operation.id[-8:]}`; `cancel` ends it"
            )
            raise


def progress(operation: Operation, total: int | None) -> str:
    """How far it is, in one line."""
    seen = operation.done + sum(operation.left.values())
    share = f" of {total:,}" if total else ""
    left = f", {seen - operation.done:,} left" if seen > operation.done else ""
    return f"{seen:,}{share} letters, {operation.done:,} {DONE[operation.verb]}{left}"


def told(operation: Operation, *, as_json: bool) -> int:
    """How it ended, and the exit code for that."""
    if as_json:
        emit(of_operation(operation))
    else:
        say(f"{DONE[operation.verb]} {counted(operation.done, 'letter')}")
        for why, n in Counter(operation.left).most_common():
            say(f"left {counted(n, 'letter')}: {why}")
        if operation.state == "cancelled":
            say(f"operation {operation.id[-8:]} was cancelled")
    return outcome(operation)


def outcome(operation: Operation) -> int:
    """Zero when nothing was left that somebody may have wanted to change."""
    if operation.state == "cancelled":
        return EXIT_FAULT
    return EXIT_PARTLY if partly(operation.left) else 0


def of_operation(operation: Operation) -> dict[str, Any]:
    """An operation as JSON; a count is named by what was done."""
    return {
        "operation": operation.id,
        "verb": operation.verb,
        "state": operation.state,
        "filter": operation.filter,
        "actor": operation.actor,
        "reason": operation.reason,
        "opened_at": iso(operation.opened_at),
        "ended_at": iso(operation.ended_at) if operation.ended_at else None,
        DONE[operation.verb]: operation.done,
        "left": operation.left,
    }


async def find_operation(store: Store, typed: str) -> Operation:
    """The one operation whose id ends like this."""
    digits = digits_of(typed)
    known = await store.operations.find(limit=KNOWN)
    found = [each for each in known if each.id.replace("-", "").endswith(digits)]
    if not found:
        raise NotFound(f"no operation ends with {typed}; `redrive operations list` shows the last ones")
    if len(found) > 1:
        ids = ", ".join(sorted(each.id for each in found))
        raise UsageError(f"several operations end with {typed}: {ids}; type more of the id")
    return found[0]

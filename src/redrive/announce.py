"""Tells subscribers what became of an attempt, once the store has it."""

from redrive.events import Events
from redrive.retry import attempts_of
from redrive.store import AnySettlement, Buried, Discarded, Done, Released, Retried, Snoozed

NAMES = {
    Done: "job.succeeded",
    Retried: "job.retried",
    Snoozed: "job.snoozed",
    Buried: "job.buried",
    Discarded: "job.discarded",
    Released: "job.released",
}


def announce(events: Events, settlement: AnySettlement, now: int) -> None:
    """Emit the event of a settlement that has been written."""
    name = NAMES[type(settlement)]
    if not events.wanted(name):
        return
    job = settlement.job
    limit = attempts_of(job)
    match settlement:
        case Done(duration=duration):
            events.emit(name, job, attempt=job.attempts + 1, duration=duration, note=settlement.note)
        case Retried(failure=failure, at=at):
            events.emit(name, job, failure=failure, limit=limit, delay=max(0, at - now), note=settlement.note)
        case Buried(failure=failure):
            events.emit(name, job, failure=failure, limit=limit, why=settlement.why, note=settlement.note)
        case Snoozed(until=until, why=why):
            events.emit(name, job, delay=max(0, until - now), why=why)
        case Discarded(reason=reason, why=why):
            events.emit(name, job, reason=reason, why=why)
        case Released(at=at, why=why):
            events.emit(name, job, delay=max(0, at - now), why=why)

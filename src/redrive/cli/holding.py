"""What a redrive will leave alone or wait for, told before it begins."""

from redrive.cli.output import counted, say
from redrive.query.tree import Both
from redrive.reviews import HELD
from redrive.store import Plan, Redrive, Store, waits
from redrive.triage import meant
from redrive.waiting import sentence


async def tell_held(store: Store, plan: Plan, now: int) -> None:
    """How many of the letters need review, unless they are forced."""
    held = 0 if plan.force else await store.letters.count(Both((meant(plan.filter, now), HELD)))
    if held:
        need = "needs" if held == 1 else "need"
        say(
            f"{counted(held, 'letter')} of these {need} review and will be skipped; `redrive dlq list --filter "
            f"'review is not null'` shows why, and --force with --reason brings them back too"
        )


def tell_waiting(redrive: Redrive) -> None:
    """What it waits for before its first stage."""
    if waits(redrive) and redrive.state in ("freezing", "waiting"):
        say(f"redrive {redrive.id[-8:]} {sentence(redrive)}")

"""`redrive migrate`: brings the store to the schema of this version."""

import click

from redrive.cli.examining import Migrating
from redrive.cli.faults import EXIT_FAULT
from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import clean, emit, say, show
from redrive.cli.session import Session
from redrive.store import Store


@click.command("migrate", cls=Verb)
@click.option("--check", "--dry-run", "check", is_flag=True, help="Only list what is pending; exit code 1 if any is.")
@json_option
@pass_session
def command(session: Session, check: bool, as_json: bool) -> int:
    """Bring the store to the schema of this version; a new store is made.

    Opening a store migrates it, so a worker does it too; this does it before one starts. Several at once wait for
    each other.
    """
    store = session.store()
    pending = store.pending() if isinstance(store, Migrating) else []
    if not check:
        session.run(_open(session))
        pending_now = store.pending() if isinstance(store, Migrating) else []
        pending = [name for name in pending if name not in pending_now]
    _tell(store, pending, "pending" if check else "applied", as_json)
    return EXIT_FAULT if check and pending else 0


async def _open(session: Session) -> None:
    async with session.opened(make=True):
        pass


def _tell(store: Store, names: list[str], what: str, as_json: bool) -> None:
    for name in names:
        if as_json:
            emit({"migration": name, "state": what})
        else:
            show(clean(f"{what} {name}"))
    if not names:
        say(f"the store {store.url} has the schema of this version; nothing {what if what == 'pending' else 'to do'}")

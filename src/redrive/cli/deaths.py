"""Deaths of worker processes, written to the journal by a process of their own: the supervisor opens no store."""

import subprocess
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from redrive.cli.options import Verb, pass_session
from redrive.cli.session import Session

if TYPE_CHECKING:
    from redrive.config import Config
    from redrive.supervisor import Death

PATIENCE = 5.0


class Deaths:
    """Hands each death to a short-lived process; waits for the last of them at the end."""

    def __init__(self, session: Session, config: "Config") -> None:
        named = ["--app", config.app] if config.app and config.sources["url"] == "default" else []
        self._command = [sys.executable, "-m", "redrive", *session.arguments(), *named, "note-death"]
        self._writers: list[subprocess.Popen[bytes]] = []

    def report(self, death: "Death") -> None:
        """Write it down, without keeping the supervisor from its work."""
        self._writers = [writer for writer in self._writers if writer.poll() is None]
        command = [*self._command, str(death.pid), death.sentence]
        self._writers.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - our own command
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers:
            try:
                writer.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                writer.kill()
                writer.wait()


@click.command("note-death", cls=Verb, hidden=True)
@click.argument("pid", type=int)
@click.argument("sentence")
@pass_session
def command(session: Session, pid: int, sentence: str) -> None:
    """Write the death of a worker process to the journal."""
    session.run(_note(session, pid, sentence))


async def _note(session: Session, pid: int, sentence: str) -> None:
    import socket

    async with session.opened() as store:
        here = [worker for worker in await store.workers.find() if worker.pid == pid]
        found = [worker.id for worker in here if worker.host == socket.gethostname()]
        await store.journal.note("worker.died", worker=found[0] if found else None, text=sentence)

"""The program itself: its global options, and the commands by name."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

import redrive
from redrive.cli.faults import Unread, concluded
from redrive.cli.lazy import LazyGroup
from redrive.cli.options import global_options
from redrive.cli.session import Session

COMMANDS = {
    "demo": ("redrive.cli.demo", "See the product in half a minute, without any set-up."),
    "worker": ("redrive.cli.worker", "Run the jobs of an app."),
    "workers": ("redrive.cli.workers", "See who runs jobs, and have them leave."),
    "enqueue": ("redrive.cli.enqueue", "Add a job, or one for each line of a file."),
    "jobs": ("redrive.cli.jobs", "List jobs, see why one does not run, cancel it."),
    "queues": ("redrive.cli.queues", "See how deep queues are; pause, limit, move or purge them."),
    "dlq": ("redrive.cli.dlq", "Find dead letters, read them, bring them back in stages."),
    "redrives": ("redrive.cli.redrives", "See how redrives stand; pause, resume or cancel one."),
    "operations": ("redrive.cli.operations", "See what was done to many letters; carry one on, or end it."),
    "prove": ("redrive.cli.prove", "Add up what came, what went and what is there."),
    "events": ("redrive.cli.events", "Read what happened."),
    "doctor": ("redrive.cli.doctor", "Look for what is wrong, and say what to do."),
    "migrate": ("redrive.cli.migrate", "Bring the store to the schema of this version."),
    "config": ("redrive.cli.config", "Print the settings in force and where each comes from."),
    "completions": ("redrive.cli.completions", "Print the completion script of a shell."),
}
"""Every command with its module and its line of help."""

HIDDEN = {"note-death": "redrive.cli.deaths"}
"""What only our own processes call."""


class Root(LazyGroup):
    """Ends every command with one sentence at the worst, and the right exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        extra.setdefault("obj", Session(given))
        main = super().main
        sys.exit(
            concluded(
                lambda: main(given, prog_name or "redrive", complete_var, standalone_mode=False, **extra),
                debug="--debug" in given,
            )
        )

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _heard():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _heard():
            return super().invoke(ctx)


@contextmanager
def _heard() -> Iterator[None]:
    """Click would end a broken pipe with code 1."""
    try:
        yield
    except BrokenPipeError as error:
        raise Unread from error


@click.group(
    cls=Root,
    sections={"Commands": COMMANDS},
    hidden=HIDDEN,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(redrive.__version__, prog_name="redrive", message="%(prog)s %(version)s")
def root() -> None:
    """Background jobs that are not lost when they fail."""


root.params += global_options()

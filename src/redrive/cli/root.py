"""The program itself: its global options, and the commands by name."""

import sys
from collections.abc import Sequence
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
    "events": ("redrive.cli.events", "Read what happened."),
    "doctor": ("redrive.cli.doctor", "Look for what is wrong, and say what to do."),
    "migrate": ("redrive.cli.migrate", "Bring the store to the schema of this version."),
    "config": ("redrive.cli.config", "Print the settings in force and where each comes from."),
    "completions": ("redrive.cli.completions", "Print the completion script of a shell."),
}
"""Every command with its module and its line of help."""

HIDDEN = {"note-death": ("redrive.cli.deaths", "Write the death of a worker process to the journal.")}
"""What only our own processes call."""


class Root(LazyGroup):
    """Ends every command with one sentence at the worst, and the right exit code."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in HIDDEN:
            from redrive.cli.deaths import command  # lazily, as all commands

            return command
        return super().get_command(ctx, cmd_name)

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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise Unread from error  # click would end this with code 1


@click.group(
    cls=Root,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(redrive.__version__, prog_name="redrive", message="%(prog)s %(version)s")
def root() -> None:
    """Background jobs that are not lost when they fail."""


root.params += global_options()

"""`redrive completions`: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from redrive.cli.options import Verb
from redrive.errors import UsageError

VARIABLE = "_REDRIVE_COMPLETE"


@click.command("completions", cls=Verb)
@click.argument("shell", metavar="SHELL", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: bash, zsh or fish.

    \b
    bash: eval "$(redrive completions bash)" in ~/.bashrc
    zsh:  eval "$(redrive completions zsh)" in ~/.zshrc, after compinit
    fish: redrive completions fish > ~/.config/fish/completions/redrive.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there are no completions for {shell}; choose bash, zsh or fish")
    script = kind(ctx.find_root().command, {}, "redrive", VARIABLE)
    click.echo(script.source_template % script.source_vars())

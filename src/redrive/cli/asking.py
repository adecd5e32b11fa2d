"""Asking before much is changed at once."""

import sys

import click

from redrive.errors import UsageError


def confirm(what: str, question: str, *, yes: bool) -> bool:
    """Say what will be touched and ask; without a terminal only `--yes` is an answer."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{what}; nothing was changed: add --yes, because there is no terminal to ask on")
    click.echo(f"{what}.", err=True)
    return click.confirm(question, err=True)

"""Asking before much is changed at once."""

import os
import select
import signal
import sys

import click

from redrive.cli.output import say
from redrive.errors import UsageError

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


def confirm(what: str, question: str, *, yes: bool) -> bool:
    """Say what will be touched and ask; without a terminal only `--yes` is an answer."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{what}; nothing was changed: add --yes, because there is no terminal to ask on")
    click.echo(f"{what}.", err=True)
    while (answer := _ANSWERS.get(_typed(f"{question} [y/N]: "))) is None:
        say("that is no answer; write y or n")
    return answer


def _typed(prompt: str) -> str:
    """What the person writes; Ctrl-C and Ctrl-D end the command."""
    click.echo(prompt, nl=False, err=True)
    try:
        _wait_for_a_line()
    except KeyboardInterrupt:
        line = b""
    else:
        line = sys.stdin.buffer.readline()
    if not line:
        click.echo(err=True)
        say("nothing was changed")
        raise click.Abort
    return line.decode(errors="replace").strip().lower()


def _wait_for_a_line() -> None:
    """Until something can be read; `input()` would go on waiting when a signal came just before its blocking read."""
    heard, told = os.pipe()
    os.set_blocking(told, False)  # as a wake-up descriptor has to be
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        while heard in select.select([sys.stdin, heard], [], [])[0]:
            os.read(heard, 64)  # and the handler of that signal has its turn
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)

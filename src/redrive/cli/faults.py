"""How a command ends: every fault is one sentence on stderr and an exit code; the traceback only with --debug."""

import errno
import os
import sys
import traceback
from collections.abc import Callable

import click

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_PARTLY = 3
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
"""What a program ends with whose reader has left, as 130 and 143 are for Ctrl-C and SIGTERM."""


class Unread(Exception):
    """Nobody reads our output any more."""


def concluded(run: Callable[[], object], *, debug: bool) -> int:
    """Run a command to its exit code, whatever it raises."""
    try:
        code = run()
        sys.stdout.flush()
    except (Unread, BrokenPipeError):
        _leave_quietly()
        return EXIT_PIPE
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback without --debug
        if debug:
            traceback.print_exc()
        return _told(error, debug=debug)
    return code if isinstance(code, int) else 0


def _told(error: Exception, *, debug: bool) -> int:
    from redrive.cli.output import say  # lazily: what goes well needs none of this
    from redrive.errors import RedriveError
    from redrive.redact import said

    match error:
        case click.ClickException():
            say(_usage(error))
            return EXIT_USAGE
        case RedriveError():
            say(said(error))
            return error.exit_code
        case OSError() if (refused := _refused(error)) is not None:
            _leave_quietly()
            say(refused)
            return EXIT_FAULT
    where = "the traceback is above" if debug else "run it again with --debug to see where"
    say(f"this is a fault in Redrive itself, {type(error).__name__}: {said(error)}; {where}, and report it")
    return EXIT_FAULT


def _refused(error: OSError) -> str | None:
    """What the machine does not let any command do."""
    if error.filename is not None:
        return None
    if error.errno == errno.ENOENT:
        return "the working directory is gone; change to one that is there"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return f"the output cannot be written: {error.strerror}; make room, or send it elsewhere"
    return None


def _usage(error: click.ClickException) -> str:
    sentence = error.format_message().rstrip(".").replace(". Did you mean", ", did you mean")
    sentence = f"{sentence[:1].lower()}{sentence[1:]}"
    context = getattr(error, "ctx", None)
    if context is None:
        return sentence
    return f"{sentence}{' See' if sentence.endswith('?') else '; see'} `{context.command_path} --help`"


def _leave_quietly() -> None:
    """Nobody reads any more: what is still buffered has nowhere to go."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file has no pipe either
        pass
    finally:
        os.close(nowhere)

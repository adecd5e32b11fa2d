"""A handler that forks comes back twice, and once in a process that is no worker: there it is the last thing that runs.

Otherwise the fork would go on with the loop that it copied, and run what its worker runs.
"""

import os
import sys
import traceback
from contextlib import suppress

from redrive.outcome import Failed, Outcome

generation = 0
"""How often the line from the first process to this one has forked since this was imported."""


def end_fork(outcome: Outcome) -> None:
    """End this process as a program of its own would end so."""
    code: object = 1
    try:
        error = outcome.error if isinstance(outcome, Failed) else SystemExit(0)
        if isinstance(error, SystemExit):
            code = error.code
        else:
            traceback.print_exception(error)
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))


def _forked() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_forked)

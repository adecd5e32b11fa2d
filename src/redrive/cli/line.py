"""One line on stderr that is written again and again while something takes its time."""

import sys
import time
from types import TracebackType
from typing import Self

import click

from redrive.cli.output import cut, width

LOOK = 0.25
"""Seconds between two looks at how it goes."""

PATIENCE = 0.5
"""What takes no longer than so many seconds is not told of."""

_MARGIN = 3
"""Columns that stay free: a terminal may wrap at its last one, and writes ^C behind the line."""


class Line:
    """Nothing where there is no terminal; gone when it is left, so that a sentence can follow."""

    def __init__(self, patience: float = 0.0) -> None:
        self.shows = sys.stderr.isatty()
        self._next = time.monotonic() + patience
        self._stands = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    @property
    def is_due(self) -> bool:
        """Whether it is seen, and was not written a moment ago."""
        return self.shows and time.monotonic() >= self._next

    def write(self, text: str) -> None:
        """Say this instead of what stands there."""
        if self.shows:
            self._next, self._stands = time.monotonic() + LOOK, True
            click.echo(f"\r\x1b[K{cut(text, width() - _MARGIN)}", err=True, nl=False)

    def clear(self) -> None:
        """The line is free for a sentence."""
        if self._stands:
            self._stands = False
            click.echo("\r\x1b[K", err=True, nl=False)

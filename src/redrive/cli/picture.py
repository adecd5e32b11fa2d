"""The live view of the demo on a terminal: a bar for each task, the sum, and what happened last."""

import sys
import textwrap
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from redrive.cli.output import clean, coloured
from redrive.cli.telling import Telling, progress
from redrive.demo.figures import Tally
from redrive.demo.play import Moment
from redrive.demo.tasks import FIXED
from redrive.store import Entry

NEWS = 9
NAMES = 17
COUNTS = 9
CLOCK = 9
LEAST_BAR = 8
_KINDS = (
    ("done", "━", "=", "green"),
    ("dead", "▪", "x", "red"),
    ("running", "╍", ">", "cyan"),
    ("waiting", "·", ".", "bright_black"),
)
"""What a bar is made of, first where terminals show it, then where they do not."""

_STYLES = {"job.retried": "yellow", "job.released": "yellow", "job.buried": "red", "job.redriven": "green"}


class Picture(Telling):
    """Tells the acts as lines, and shows in between how it goes."""

    def __init__(self, program: str, kept: Path | None) -> None:
        super().__init__(program, kept)
        self._console = Console(
            highlight=False, force_terminal=True, color_system="auto" if coloured() else None, no_color=not coloured()
        )
        self._unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        self._live: Live | None = None
        self._news: dict[tuple[str, str, str], list[Entry]] = {}
        self._last: Moment | None = None

    def moment(self, moment: Moment) -> None:
        """The view as it is now."""
        if self._live is None:
            self._news.clear()
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        self._last = moment
        for entry in moment.news:
            self._news.setdefault((entry.task or "", entry.event, entry.reason or ""), []).append(entry)
        self._live.update(self._frame(moment, news=True), refresh=True)

    def close(self) -> None:
        """The last view stays, without the news."""
        live, self._live = self._live, None
        if live is not None:
            if self._last is not None:
                live.update(self._frame(self._last, news=False), refresh=True)
            live.stop()

    # the frame ------------------------------------------------------------------------------------------------------

    def _frame(self, moment: Moment, *, news: bool) -> Text:
        rows = [self._row(name, tally) for name, tally in moment.tasks.items() if _on_stage(tally, moment.release)]
        rows += self._sum(moment)
        room = min(self._console.height - len(rows) - 3, NEWS)
        if news and room > 0:
            lines = [_line(entries) for entries in self._news.values()][-room:]
            rows += [Text(), *lines, Text()]  # the last one is for what is typed, such as ^C
        for row in rows:
            row.truncate(self._console.width - 1, overflow="ellipsis" if self._unicode else "crop")
        return Text("\n").join(rows)

    def _sum(self, moment: Moment) -> list[Text]:
        lines = textwrap.wrap(progress(moment.all), max(20, self._console.width - 1 - CLOCK))
        heads = [f"  {moment.seconds:>4.1f}s  ", *[" " * CLOCK] * (len(lines) - 1)]
        return [Text(f"{head}{line}", style="bold") for head, line in zip(heads, lines, strict=True)]

    def _row(self, name: str, tally: Tally) -> Text:
        ended = tally.done + tally.dead + tally.discarded
        row = Text(f"  {name:<{NAMES}}")
        size = self._console.width - 1 - len(row) - COUNTS
        if size >= LEAST_BAR:
            row.append_text(self._bar(tally, size))
        row.append(f"  {ended:>3}/{tally.accepted}")
        return row

    def _bar(self, tally: Tally, size: int) -> Text:
        """Everything that is not nothing is seen, however little it is."""
        bar = Text()
        counted = 0
        for name, shape, plain, style in _KINDS:
            count = getattr(tally, name)
            counted += count
            length = size * counted // max(1, tally.accepted) - len(bar)
            bar.append((shape if self._unicode else plain) * max(length, 1 if count else 0), style=style)
        bar.truncate(size)
        return bar


def _on_stage(tally: Tally, release: str) -> bool:
    """After the fix only those tasks matter that have something to do."""
    return release != FIXED or bool(tally.redriven or tally.left)


def _line(entries: list[Entry]) -> Text:
    """What happened so often, and what was said the last time."""
    last = entries[-1]
    what = {
        "job.retried": f"{last.reason}, tried again",
        "job.buried": f"{last.reason}, dead",
        "job.released": "given back",
        "job.redriven": "brought back",
    }.get(last.event, last.event)
    line = Text(f"  {last.task or '':<{NAMES}}", style="bright_black")
    line.append(f"{len(entries):>3}  {clean(what)}", style=_STYLES.get(last.event, ""))
    return line.append(f": {clean(last.text or '')}" if last.text else "", style="bright_black")

"""Pages as programs: the blocks of a page in order, what each is for, and whether output is what the page shows.

```python tasks.py      a file of that name is written (toml, json and ndjson too)
```python               a script that is run
```console              each `$ command` is run and its output compared; `…` stands for anything
```console elsewhere    shown, not run: what installs things or needs another machine
```text                 shown, not run
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")])
ELSEWHERE = re.compile(r"(make|pip|uv|git|cd|pytest|systemctl|sudo|docker|redrive demo)\b")
"""Commands that may stand in a block that is not run."""

LIMIT = 60.0
_FENCE = re.compile(r"^```(\S*)[ ]*(.*)$")
_ANY = "…"
INTERRUPT = "^C"
USAGE = 2


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, what stands behind that, its text and the line it begins on."""

    language: str
    rest: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """A command and the output that the page shows for it."""

    command: str
    output: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    rows = page.splitlines()
    begin: int | None = None
    for number, row in enumerate(rows):
        fence = _FENCE.match(row)
        if fence is None:
            continue
        if begin is None:
            begin = number
        else:
            language, rest = _FENCE.match(rows[begin]).groups()  # type: ignore[union-attr]  # it was matched above
            yield Block(language, rest, "\n".join(rows[begin + 1 : number]) + "\n", begin + 1)
            begin = None


def steps(block: Block) -> list[Step]:
    """The commands of a console block; `> ` goes on with the one before."""
    found: list[tuple[list[str], list[str], int]] = []
    for number, row in enumerate(block.text.splitlines(), block.line + 1):
        if row.startswith("$ "):
            found.append(([row[2:]], [], number))
        elif row.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(row[2:])
        elif found:
            found[-1][1].append(row)
    return [Step("\n".join(command), "\n".join(output).strip(), line) for command, output, line in found]


def fits(shown: str, printed: str) -> bool:
    """Whether output is what a page shows; `…` stands for anything within a line, alone for any lines."""
    pattern = ""
    for row in shown.strip().splitlines():
        if row.strip() == _ANY:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(piece.rstrip()) for piece in row.split(_ANY)) + r"[ \t]*\n"
    rows = [row.rstrip() for row in printed.strip().splitlines()]
    text = "\n".join(rows) + "\n" if rows else ""
    return re.fullmatch(pattern, text) is not None


class Sandbox:
    """A folder in which a page is followed step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = Path(sys.executable).parent
        self._environment = {
            "PATH": f"{tools}:{os.environ.get('PATH', '')}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def follow(self, block: Block) -> list[str]:
        """Do what a block says; answers what did not go as shown."""
        if block.language in ("python", "toml", "json", "ndjson") and block.rest:
            (self.folder / block.rest).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            return self._run(Step(f"{sys.executable} -", "", block.line), block.text)
        elif block.language == "console" and not block.rest:
            return [problem for step in steps(block) for problem in self._run(step)]
        return []

    def _run(self, step: Step, script: str | None = None) -> list[str]:
        if INTERRUPT in step.output.splitlines():
            return self._run_until_interrupted(step)
        ended = subprocess.run(
            ["bash", "-c", step.command],
            cwd=self.folder,
            env=self._environment,
            input=script or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if ended.returncode == 0 if script is not None else _as_shown(step, ended):
            return []
        return [_told(step, ended.stdout)]

    def _run_until_interrupted(self, step: Step) -> list[str]:
        before, _, after = (part.strip() for part in step.output.partition(INTERRUPT))
        output = self.folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", step.command],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            until(lambda: fits(f"{before}\n{_ANY}", output.read_text(encoding="utf-8")), LIMIT)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(LIMIT)
        except (TimeoutError, AssertionError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT)
            return [_told(step, output.read_text(encoding="utf-8"))]
        printed = output.read_text(encoding="utf-8")
        return [] if fits(f"{before}\n{_ANY}\n{after}", printed) else [_told(step, printed)]


def _as_shown(step: Step, ended: "subprocess.CompletedProcess[str]") -> bool:
    """Whether it printed what the page shows; that a command was not understood is shown in words, never by `…`."""
    fault = re.compile(r"^redrive: .*\w", re.MULTILINE)
    misunderstood = ended.returncode == USAGE and fault.search(ended.stdout) and not fault.search(step.output)
    silent = ended.returncode != 0 and step.output == _ANY
    return fits(step.output, ended.stdout) and not misunderstood and not silent


def _told(step: Step, printed: str) -> str:
    return f"line {step.line}: $ {step.command}\nshown:\n{step.output}\nprinted:\n{printed}"

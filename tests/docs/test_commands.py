"""Every command that a page, a message or a help text names can be typed."""

import ast
import re
from collections.abc import Iterator

import click
import pytest

from redrive.cli.root import root
from redrive.ledger import FLAWS
from tests.docs.pages import PAGES, ROOT

SPOKEN = re.compile(r"`redrive ([^`]+)`")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HELD = "…"
"""Stands for what a message puts in, and on pages for what changes from run to run."""


def said_in_code() -> Iterator[tuple[str, str]]:
    """Commands between backticks in texts of `src/`, with what is put in held open."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for said in SPOKEN.findall(text_of(node)):
                yield str(path.relative_to(ROOT)), said


def text_of(node: ast.AST) -> str:
    """The text that a node writes."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(value.value) if isinstance(value, ast.Constant) else HELD for value in values)
    return ""


def said_in_pages() -> Iterator[tuple[str, str]]:
    """Commands between backticks; those in blocks are run by another test."""
    for page in [*PAGES, *sorted((ROOT / "docs").glob("*/*.md"))]:
        for said in SPOKEN.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            if f"redrive {said}" not in FLAWS:
                yield str(page.relative_to(ROOT)), said


def wrong(said: str) -> str | None:
    """What is wrong with a command; values and what a message puts in are not looked at."""
    command: click.Command = root
    words = iter(re.findall(r"'[^']*'|\"[^\"]*\"|\S+", said))
    for word in words:
        if word.startswith("-"):
            found = option(command, word.partition("=")[0])
            if found is None:
                return f"{command.name} has no option {word}"
            if isinstance(found, click.Option) and not found.is_flag and "=" not in word:
                next(words, None)
        elif isinstance(command, click.Group) and HELD not in word:
            inner = command.get_command(click.Context(command), word)
            if inner is None:
                return f"{command.name} has no command {word}"
            command = inner
    return None


def option(command: click.Command, word: str) -> click.Parameter | str | None:
    """The option that a word names, of the command or of the whole program."""
    if word in ("--help", "-h"):
        return word
    every = [*command.params, *root.params]
    return next((each for each in every if word in (*each.opts, *each.secondary_opts)), None)


@pytest.mark.parametrize(("place", "said"), sorted({*said_in_code(), *said_in_pages()}))
def test_a_command_that_is_named_is_there(place: str, said: str) -> None:
    assert wrong(said) is None, place


@pytest.mark.parametrize(
    "said", ["letters list", "dlq lst", "dlq list --fliter x", "--ap shop dlq list", "dlq show --all"]
)
def test_a_command_that_is_not_there_is_found(said: str) -> None:
    """The control: a noun, a verb and options that are none."""
    assert wrong(said) is not None


@pytest.mark.parametrize("said", ["--app shop dlq list --filter 'a = b' --limit 3", "redrives watch …", "dlq … …"])
def test_a_command_that_is_there_is_right(said: str) -> None:
    """The other control: values and what a message puts in are left alone."""
    assert wrong(said) is None

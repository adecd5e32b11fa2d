"""Words this house does without, and words it must contain."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)$|(Util|Helper|Manager)s?$")
FAILPOINTS = [
    "enqueue.committed",
    "claim.committed",
    "handler.mid",
    "handler.end",
    "heartbeat.sent",
    "settle.done",
    "settle.retry",
    "settle.dead",
    "reap.committed",
    "redrive.opened",
    "redrive.freezing",
    "redrive.chunk",
    "operation.opened",
    "operation.chunk",
    "redrive.begun",
    "migrate.1",
    "migrate.2",
]
"""The points at which a kill is promised to lose nothing, as far as they exist."""


def trees(*folders: str) -> Iterator[tuple[Path, list[str], ast.Module]]:
    """Each Python file below these folders, its lines and its tree."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(ROOT), text.splitlines(), ast.parse(text)


def empty_names(path: Path, tree: ast.Module) -> list[str]:
    """Names of the file, its folders and its classes that say nothing."""
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [name for name in (*path.with_suffix("").parts, *classes) if FORBIDDEN.search(name)]


def sleeps(lines: list[str], tree: ast.Module) -> list[str]:
    """Calls of `sleep` that neither yield once (`sleep(0)`) nor say why: `# sleep: why`."""
    return [
        lines[node.lineno - 1].strip()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "sleep"
        and [ast.unparse(argument) for argument in node.args] != ["0"]
        and not re.search(r"# sleep: \w+", lines[node.lineno - 1])
    ]


def passed(tree: ast.Module) -> Iterator[str]:
    """The points that a file may pass, as patterns: `f"settle.{how}"` fits what begins like it."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield re.escape(text)
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *rest]) if text.endswith("."):
                yield re.escape(text) + r"\w+" * len(rest)


def calls_reached(tree: ast.Module) -> bool:
    """Whether a file hands a point to the failpoints."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(ast.unparse(function).rpartition(".")[2] == "reached" for function in calls)


@pytest.mark.parametrize("point", FAILPOINTS)
def test_every_crash_point_is_in_the_code(point: str) -> None:
    """A point that a design promises and no line passes could not be tested."""
    files = [(path, tree) for path, _, tree in trees("src") if path.name != "failpoints.py"]
    assert any(calls_reached(tree) for _, tree in files)
    assert [str(path) for path, tree in files if any(re.fullmatch(pattern, point) for pattern in passed(tree))]


def test_no_name_is_empty() -> None:
    """No utils, helper or manager: a name says what a thing is."""
    assert [(str(path), name) for path, _, tree in trees("src", "tests") for name in empty_names(path, tree)] == []


def test_no_test_sleeps_to_wait() -> None:
    """A test waits for a signal; a sleep that is not a wait says what it is."""
    assert [(str(path), line) for path, lines, tree in trees("tests") for line in sleeps(lines, tree)] == []


def test_planted_words_are_found() -> None:
    """The control for each rule."""
    source = "class JobManager: ...\ntime.sleep(1)\nsleep(n)\nawait asyncio.sleep(0)\nsleep(9)  # sleep: the handler\n"
    tree = ast.parse(source)
    assert empty_names(Path("redrive/str_utils.py"), tree) == ["str_utils", "JobManager"]
    assert sleeps(source.splitlines(), tree) == ["time.sleep(1)", "sleep(n)"]


def test_a_point_is_found_as_written_and_as_built() -> None:
    """The control for crash points: a literal, a built name, one that could be anything, and none."""
    tree = ast.parse("reached('claim.committed'); points.reached(f'settle.{how}'); f'{any}.{thing}'")
    fitting = {
        point
        for point in ("claim.committed", "settle.dead", "reap.committed")
        if any(re.fullmatch(pattern, point) for pattern in passed(tree))
    }
    assert fitting == {"claim.committed", "settle.dead"}
    assert calls_reached(tree)
    assert not calls_reached(ast.parse("name = 'claim.committed'"))

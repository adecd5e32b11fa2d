"""Functions and files stay small enough to be read at a glance."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMITS = {"lines": 40, "complexity": 10, "nesting": 3}
FILE_LINES = {"src": 400, "benchmarks": 400, "tests": 600}
EXCUSE = re.compile(r"# size: \w+")
"""On the line that holds `def`, or on a line of its own for the whole file, followed by the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BLOCKS = (*_LOOPS, ast.If, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
_BRANCHES = (*_LOOPS, ast.If, ast.ExceptHandler, ast.match_case)


def lines(function: Function) -> int:
    """Lines of the body, its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """What a function contains, the functions and classes inside it left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from inner(child)


def complexity(function: Function) -> int:
    """Ways through the function."""
    return 1 + sum(isinstance(node, _BRANCHES) for node in inner(function))


def nesting(node: ast.AST) -> int:
    """How deep blocks stand in blocks; an `elif` is no deeper than its `if`."""
    return max((_depth(node, child) for child in ast.iter_child_nodes(node)), default=0)


def _depth(parent: ast.AST, child: ast.AST) -> int:
    if isinstance(child, _SCOPES):
        return 0
    continues = isinstance(parent, ast.If) and isinstance(child, ast.If) and parent.orelse == [child]
    return nesting(child) + (isinstance(child, _BLOCKS) and not continues)


MEASURES = {"lines": lines, "complexity": complexity, "nesting": nesting}


def too_large(source: str, file_limit: int) -> list[str]:
    """What in this source is over a limit and has no excuse."""
    rows = source.splitlines()
    found = []
    if len(rows) > file_limit and not any(EXCUSE.match(row) for row in rows):
        found.append(f"1: {len(rows)} lines, over {file_limit}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and not EXCUSE.search(rows[node.lineno - 1]):
            found += _over(node)
    return found


def _over(function: Function) -> list[str]:
    sizes = {name: measure(function) for name, measure in MEASURES.items()}
    return [
        f"{function.lineno}: {function.name} has {name} {size}, over {LIMITS[name]}"
        for name, size in sizes.items()
        if size > LIMITS[name]
    ]


def sources() -> list[Path]:
    return sorted(path for folder in FILE_LINES for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_and_its_functions_stay_small(path: Path) -> None:
    """What is over a limit says why on its line: `# size: why`."""
    limit = FILE_LINES[path.relative_to(ROOT).parts[0]]
    assert too_large(path.read_text(encoding="utf-8"), limit) == []


LONG = "def long():\n    '''Said.'''\n" + "    x = 1\n" * 41
DEEP = "async def deep():\n for a in b:\n  with a:\n   if a:\n    try:\n     a()\n    finally:\n     a()\n"
BRANCHY = "def branchy(a):\n    if a == 0:\n        return 0\n" + "".join(
    f"    elif a == {n}:\n        return {n}\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("planted", "name"),
    [(LONG, "long has lines 41"), (DEEP, "deep has nesting 4"), (BRANCHY, "branchy has complexity 11")],
)
def test_a_function_over_a_limit_is_found(planted: str, name: str) -> None:
    """The control: each measure sees a planted offender, alone."""
    (found,) = too_large(planted, 400)
    assert name in found


def test_a_long_file_is_found() -> None:
    """The control for files."""
    assert too_large("x = 1\n" * 401, 400) == ["1: 401 lines, over 400"]


def test_an_excuse_needs_a_reason() -> None:
    """A bare marker excuses nothing; one with a reason does."""
    assert too_large(LONG.replace("():", "():  # size:", 1), 400)
    assert not too_large(LONG.replace("():", "():  # size: one table", 1), 400)
    assert not too_large("# size: one table\n" + "x = 1\n" * 401, 400)


def test_a_function_at_every_limit_is_accepted() -> None:
    """A limit is a limit, not one less."""
    assert too_large(LONG.replace("    x = 1\n", "", 1), 400) == []
    assert too_large(BRANCHY.replace("    elif a == 9:\n        return 9\n", ""), 400) == []

"""Every command in the documentation is run, and prints what the page shows."""

import re
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import ELSEWHERE, PAGES, ROOT, Block, Sandbox, blocks, fits, steps

ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]+)#([^)\s]+)\)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """Files are written, scripts and commands are run in order, output is compared."""
    sandbox = Sandbox(tmp_path)
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            problems = sandbox.follow(block)
            assert not problems, "\n".join(problems)
    finally:
        end_worker(tmp_path)


def end_worker(folder: Path) -> None:
    """A page that did not come to its end leaves no worker behind."""
    number = folder / "worker.pid"
    with suppress(FileNotFoundError, psutil.Error):
        worker = psutil.Process(int(number.read_text(encoding="utf-8")))
        if worker.cwd() == str(folder):
            worker.terminate()


def test_a_page_that_breaks_off_leaves_no_worker(tmp_path: Path) -> None:
    Sandbox(tmp_path).follow(Block("console", "", "$ sleep 600 > /dev/null 2>&1 & echo $! > worker.pid\n", 1))
    worker = psutil.Process(int((tmp_path / "worker.pid").read_text(encoding="utf-8")))
    end_worker(tmp_path)
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert not alive


def test_a_command_that_is_not_understood_is_never_hidden(tmp_path: Path) -> None:
    """`…` stands for anything but that; a page that is about it shows the sentence."""
    sandbox = Sandbox(tmp_path)
    assert sandbox.follow(Block("console", "", "$ redrive dlq note group:1 text\n…\n", 1))
    assert not sandbox.follow(Block("console", "", "$ redrive dlq note group:1 text\nredrive: missing option …\n", 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_only_what_installs_is_left_out(page: Path) -> None:
    """A block that is not run holds nothing that could be."""
    left_out = [block for block in blocks(page.read_text(encoding="utf-8")) if block.language == "console"]
    commands = [step.command for block in left_out if block.rest for step in steps(block)]
    assert [command for command in commands if not ELSEWHERE.match(command)] == []


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there."""
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    """What stands behind `#` is a heading of that page, as it is shown on the web."""
    found = ANCHOR.findall(page.read_text(encoding="utf-8"))
    assert [f"{link}#{anchor}" for link, anchor in found if anchor not in headings(page.parent / link)] == []


def headings(page: Path) -> list[str]:
    """What a link says behind `#` for each heading of a page."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE) if page.is_file() else []
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_what_shows_a_claim_is_there() -> None:
    """Every file or folder of tests that a page names."""
    named = {path for page in PAGES for path in re.findall(r"tests/[\w/.]*\w", page.read_text(encoding="utf-8"))}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that nobody links to is not there."""
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [page.parent / link for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md") if page.resolve() not in seen] == []


def test_the_walk_through_the_code_names_every_module() -> None:
    """Whoever meets a file in `src/redrive/` finds its place in how-it-works.md."""
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    modules = {path.name for path in (ROOT / "src" / "redrive").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert [name for name in sorted(modules) if f"`{name}`" not in page] == []


def test_a_page_that_lies_is_found(tmp_path: Path) -> None:
    """The control: wrong output, a failing script, and a right one between them."""
    sandbox = Sandbox(tmp_path)
    assert sandbox.follow(Block("console", "", "$ echo one\n$ echo two\ntwo\n", 1))[0].startswith("line 2: $ echo one")
    assert sandbox.follow(Block("python", "", "raise SystemExit(3)\n", 1))
    assert sandbox.follow(Block("console", "", "$ echo wrong; exit 2\n…\n", 1))
    assert sandbox.follow(Block("console", "", "$ echo wrong; exit 2\nwrong\n", 1)) == []
    assert sandbox.follow(Block("console", "", "$ echo two\ntwo\n", 1)) == []


@pytest.mark.parametrize(
    ("shown", "printed", "right"),
    [
        ("a\nb", "a\nb\n", True),
        ("a … c", "a b c", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("…", "", True),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
        ("", "anything", False),
    ],
)
def test_an_ellipsis_stands_for_anything_and_nothing_else_does(shown: str, printed: str, right: bool) -> None:
    assert fits(shown, printed) is right

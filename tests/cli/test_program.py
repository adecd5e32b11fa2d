"""The program: its commands, what it imports for them, its global options, and how it ends."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

import redrive
from redrive.cli.dlq import command as dlq
from redrive.cli.quick import HELP
from redrive.cli.root import COMMANDS, HIDDEN, root
from tests.cli.conftest import Cli

THERE = [name for name in COMMANDS if name != "demo"]
"""The demo has tests of its own."""


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*words], capture_output=True, text=True, timeout=30, check=False, **options
    )


def test_help_names_every_command(cli: Cli) -> None:
    answer = cli("--help")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.partition("Commands:\n")[2].splitlines()] == list(COMMANDS)


def test_the_quick_help_is_what_click_says(cli: Cli) -> None:
    """Run `redrive --help` through click and copy it when this fails."""
    assert cli("--help").out.strip() == HELP.strip()


def test_a_process_answers_the_quick_questions() -> None:
    assert run(sys.executable, "-m", "redrive", "--version").stdout == f"redrive {redrive.__version__}\n"
    assert run(sys.executable, "-m", "redrive", "-h").stdout == f"{HELP}\n"


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"redrive {redrive.__version__}\n"


LOOK = """
import sys
sys.argv = ["redrive", *{words}]
from redrive.cli import main
try:
    main()
except SystemExit:
    pass
print("HEAVY", [name for name in ("apsw", "rich", "msgspec", "asyncio", "click", "psutil") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("words", "heavy"),
    [(["--help"], []), (["--version"], []), (["-h"], []), (["jobz"], ["click"]), (["--log-level"], ["click"])],
)
def test_help_and_version_import_nothing_heavy(words: list[str], heavy: list[str]) -> None:
    """What the quick answers import is what makes them quick; a typing error costs click and no more."""
    out = run(sys.executable, "-c", LOOK.format(words=words)).stdout
    assert out.splitlines()[-1] == f"HEAVY {heavy}"


def test_a_command_is_seen_by_that_look() -> None:
    """The control: a command that reads settings imports what it needs."""
    assert "'msgspec'" in run(sys.executable, "-c", LOOK.format(words=["config"])).stdout.splitlines()[-1]


@pytest.mark.parametrize("name", THERE)
def test_every_name_in_the_table_is_a_command(name: str) -> None:
    """The table of the root is written by hand, so that help imports none of them."""
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert (command.name, bool(command.help)) == (name, True)


def test_the_table_of_dlq_says_what_its_verbs_say() -> None:
    """It is written by hand too; completions of a shell ask the verbs themselves."""
    context = click.Context(dlq)
    told = {
        name: verb.get_short_help_str(80) for name in dlq.lazy if (verb := dlq.get_command(context, name)) is not None
    }
    assert told == {name: help for name, (_, help) in dlq.lazy.items()}


def test_every_verb_of_dlq_is_in_its_table() -> None:
    """What is added to the group and not to a section would be typed by nobody."""
    assert [name for name in dlq.commands if name not in dlq.lazy] == []


def test_the_help_of_dlq_is_in_sections(cli: Cli) -> None:
    out = cli("dlq", "--help").out
    assert [line.rstrip(":") for line in out.splitlines() if line.rstrip(":") in dlq.sections] == list(dlq.sections)


@pytest.mark.parametrize(("verb", "one"), [("list", False), ("retry", True)])
def test_a_verb_of_dlq_imports_no_other(verb: str, one: bool) -> None:
    """A list of letters is asked for often, and must not wait for what the other verbs need."""
    look = LOOK.replace('("apsw", "rich", "msgspec", "asyncio", "click", "psutil")', '("redrive.cli.retrying",)')
    out = run(sys.executable, "-c", look.format(words=["dlq", verb, "--help"])).stdout
    assert (out.splitlines()[-1] != "HEAVY []") is one


def every_verb() -> list[str]:
    """Each command and subcommand as it is typed."""
    verbs = []
    for name in THERE:
        command = root.get_command(click.Context(root), name)
        inner = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
        verbs += [f"{name} {verb}" for verb in inner] or [name]
    return verbs


@pytest.mark.parametrize("verb", every_verb())
def test_every_verb_explains_itself(cli: Cli, verb: str) -> None:
    """Help fits 80 columns, and every option says what it does."""
    answer = cli(*verb.split(), "--help")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    options = [option for option in verb_of(verb).params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


def verb_of(typed: str) -> click.Command:
    command: click.Command | None = root
    for word in typed.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


@pytest.mark.parametrize(
    "verb", [verb for verb in every_verb() if any("--filter" in one.opts for one in verb_of(verb).params)]
)
def test_two_filters_mean_both_in_every_verb(verb: str) -> None:
    """One that took the last alone would purge or bring back more than was asked for."""
    context = click.Context(verb_of(verb))
    [option] = [one for one in verb_of(verb).params if "--filter" in one.opts]
    assert option.process_value(context, ("queue = a", "reason = b")) == "(queue = a) and (reason = b)"


@pytest.mark.parametrize("noun", [name for name in THERE if isinstance(verb_of(name), click.Group)])
def test_no_line_of_help_is_cut(cli: Cli, noun: str) -> None:
    """Click ends a long one with dots."""
    assert "..." not in cli(noun, "--help").out.partition("Options:")[2]


@pytest.mark.parametrize("verb", [verb for verb in every_verb() if verb != "completions"])
def test_every_verb_knows_json(cli: Cli, verb: str) -> None:
    assert "--json" in cli(*verb.split(), "--help").out


def test_hidden_commands_stay_hidden(cli: Cli) -> None:
    assert not [name for name in HIDDEN if name in cli("--help").out]


def test_without_a_command_the_help_is_shown_as_an_error(cli: Cli) -> None:
    answer = cli()
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Usage: redrive")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["jobz"], "there is no command 'jobz', did you mean jobs? See `redrive --help`"),
        (["jobs", "lst"], "there is no command 'lst', did you mean list? See `redrive jobs --help`"),
        (["xyzzy"], "there is no command 'xyzzy'; there are demo, worker, "),
        (["jobs", "list", "--sate", "dead"], "no such option '--sate', did you mean '--state'? See `redrive jobs list"),
        (["jobs", "show"], "missing argument 'ID'; see `redrive jobs show --help`"),
        (
            ["jobs", "list", "--limit", "none"],
            "'none' is not a whole number of at least 1; see `redrive jobs list --help`",
        ),
        (["jobs", "list", "--limit", "0"], "invalid value for '--limit': '0' is not a whole number of at least 1; see"),
        (["events", "--limit", "-1"], "invalid value for '--limit': '-1' is not a whole number of at least 0; see"),
        (["demo", "--patience", "0.5"], "invalid value for '--patience': '0.5' is not a number of at least 1; see"),
        (["demo", "--patience", "inf"], "'inf' is not a number of at least 1; see"),
        (["completions", "tcsh"], "invalid value for 'SHELL': 'tcsh' is not one of 'bash', 'zsh', 'fish'; see"),
        (["jobs", "list", "--state", "gone"], "see `redrive jobs list --help`"),
    ],
)
def test_what_is_typed_wrong_is_one_sentence(cli: Cli, words: list[str], sentence: str) -> None:
    answer = cli(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("redrive: ")
    assert answer.err.count("\n") == 1
    assert sentence in answer.err


@pytest.mark.parametrize(
    "words", [["--url", "sqlite:///x.db", "config", "--json"], ["config", "--json", "--url", "sqlite:///x.db"]]
)
def test_global_options_stand_anywhere(cli: Cli, folder: Path, words: list[str]) -> None:
    url = cli(*words).json[0]
    assert url == {"key": "url", "value": f"sqlite:///{folder}/x.db", "from": "flag"}


def test_the_option_typed_last_counts(cli: Cli, folder: Path) -> None:
    answer = cli("--url", "sqlite:///a.db", "config", "--json", "--url", "sqlite:///b.db")
    assert answer.json[0]["value"] == f"sqlite:///{folder}/b.db"


def test_a_fault_of_ours_is_said_to_be_one(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exception that is not ours: one sentence, how to see more, exit code 1."""

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("division by zero, token=abcdef")

    monkeypatch.setattr("redrive.config.load", broken)
    answer = cli("config")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "redrive: this is a fault in Redrive itself, ZeroDivisionError: division by zero, token=***; "
        "run it again with --debug to see where, and report it\n"
    )
    with_trace = cli("config", "--debug").err
    assert "Traceback (most recent call last)" in with_trace
    assert "the traceback is above" in with_trace


def test_debug_shows_the_traceback_of_an_error(cli: Cli) -> None:
    assert "Traceback" not in cli("jobs", "list").err
    debug = cli("--debug", "jobs", "list").err
    assert "Traceback (most recent call last)" in debug
    assert debug.splitlines()[-1].startswith("redrive: there is no store at ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_print_the_script_of_a_shell(cli: Cli, shell: str) -> None:
    script = cli("completions", shell)
    assert script.code == 0
    assert f"_REDRIVE_COMPLETE={shell}_complete" in script.out
    assert "redrive" in script.out


def test_the_script_asks_for_commands_and_their_verbs(folder: Path) -> None:
    """What a shell runs when tab is pressed after `redrive queues p`."""
    asked = {"_REDRIVE_COMPLETE": "bash_complete", "COMP_WORDS": "redrive queues p", "COMP_CWORD": "2"}
    script = Path(sys.executable).with_name("redrive")
    assert run(str(script), env=asked).stdout.split() == ["plain,pause", "plain,purge"]


def test_no_shell_but_these(cli: Cli) -> None:
    assert cli("completions", "tcsh").code == 2


def test_windows_is_refused_in_one_sentence() -> None:
    """When it is imported, before anything of it runs."""
    script = "import sys; sys.platform = 'win32'; import redrive.cli"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last == "ImportError: Redrive runs on Linux and macOS; on Windows, run it inside WSL"

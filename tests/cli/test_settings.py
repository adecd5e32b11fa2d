"""`redrive config`, `redrive migrate` and the project file: what is in force, and where it comes from."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from redrive.config import SETTINGS
from redrive.stores.sqlite.statements import migrations
from tests.cli.conftest import Cli

MIGRATIONS = [name for _, name, _ in migrations()]


def by_key(answer: Any) -> dict[str, Any]:
    return {line["key"]: line for line in answer.json}


def test_every_setting_is_shown_with_its_default(cli: Cli) -> None:
    answer = cli("config")
    assert answer.code == 0
    names = [line.split()[0] for line in answer.out.splitlines()]
    assert names == ["SETTING", *(setting.key for setting in SETTINGS)]
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "worker.lease        30s" in answer.out


def test_each_value_says_where_it_comes_from(cli: Cli, folder: Path) -> None:
    (folder / "redrive.toml").write_text(
        '[worker]\nconcurrency = 7\n[retry]\nmax_attempts = 5\n[retry.slow]\nbackoff = "fixed"\ndelay = "1m"\n',
        encoding="utf-8",
    )
    lines = by_key(cli("config", "--json", "--log-level", "debug", REDRIVE_WORKER__THREADS="3"))
    toml = str(folder / "redrive.toml")
    assert lines["worker.concurrency"] == {"key": "worker.concurrency", "value": 7, "from": toml}
    assert lines["worker.threads"] == {
        "key": "worker.threads",
        "value": 3,
        "from": "environment REDRIVE_WORKER__THREADS",
    }
    assert lines["log.level"] == {"key": "log.level", "value": "debug", "from": "flag"}
    assert lines["worker.lease"] == {"key": "worker.lease", "value": "30s", "from": "default"}
    assert lines["retry.max_attempts"] == {"key": "retry.max_attempts", "value": 5, "from": toml}
    assert lines["retry.slow.delay"] == {"key": "retry.slow.delay", "value": "1m", "from": toml}
    assert "worker.concurrency  7" in cli("config").out.replace(" " * 20, " ")
    assert "  redrive.toml" in cli("config").out


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_no_secret_is_printed(cli: Cli, folder: Path, more: list[str]) -> None:
    (folder / "secret").write_text("postgresql://ann:hunter2@db/jobs?password=hunter2", encoding="utf-8")
    (folder / "redrive.toml").write_text('[retry.x]\napi_token = "hunter2"\n', encoding="utf-8")
    answer = cli("config", *more, REDRIVE_URL_FILE=str(folder / "secret"), COLUMNS="200")
    assert answer.code == 0
    assert "hunter2" not in answer.out
    assert "postgresql://ann:***@db/jobs?password=***" in answer.out


def test_another_project_file_is_named_by_an_option(cli: Cli, folder: Path) -> None:
    """Its folder is what relative paths stand against, wherever one is."""
    (folder / "redrive.toml").write_text('release = "near"\n', encoding="utf-8")
    other = folder / "etc"
    other.mkdir()
    (other / "jobs.toml").write_text('release = "named"\nurl = "sqlite:///jobs.db"\n', encoding="utf-8")
    lines = by_key(cli("--config", "etc/jobs.toml", "config", "--json"))
    assert lines["release"] == {"key": "release", "value": "named", "from": str(other / "jobs.toml")}
    assert lines["url"]["value"] == f"sqlite:///{other}/jobs.db"
    assert by_key(cli("config", "--json", REDRIVE_CONFIG=str(other / "jobs.toml")))["release"]["value"] == "named"
    assert by_key(cli("config", "--json"))["release"]["value"] == "near"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("concurency = 1\n", "unknown setting concurency in "),
        ("[worker]\nconcurency = 1\n", "did you mean worker.concurrency?"),
        ("[worker]\nlease = 'soon'\n", "worker.lease cannot be 'soon' ("),
        ("[worker\n", "redrive.toml is not valid TOML: "),
    ],
)
def test_a_wrong_setting_is_one_sentence(cli: Cli, folder: Path, text: str, sentence: str) -> None:
    (folder / "redrive.toml").write_text(text, encoding="utf-8")
    for verb in ("config", "jobs list", "worker tasks", "migrate"):
        answer = cli(*verb.split())
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err
        assert answer.err.count("\n") == 1


def test_a_file_that_is_not_there(cli: Cli, folder: Path) -> None:
    answer = cli("--config", "nowhere.toml", "config")
    assert answer.code == 2
    assert f"there is no configuration file {folder}/nowhere.toml" in answer.err


# --- migrate ----------------------------------------------------------------------------------------------------------


def test_migrate_makes_a_store_and_says_what_it_did(cli: Cli, folder: Path) -> None:
    pending = cli("migrate", "--check")
    assert (pending.code, pending.out) == (1, "".join(f"pending {name}\n" for name in MIGRATIONS))
    assert not (folder / "redrive.db").exists()
    assert cli("migrate", "--json").json == [{"migration": name, "state": "applied"} for name in MIGRATIONS]
    assert (folder / "redrive.db").exists()
    again = cli("migrate")
    assert (again.code, again.out) == (0, "")
    assert again.err == (
        f"redrive: the store sqlite:///{folder}/redrive.db has the schema of this version; nothing to do\n"
    )
    assert (cli("migrate", "--dry-run").code, cli("migrate", "--check").out) == (0, "")


def test_check_changes_nothing(cli: Cli, folder: Path) -> None:
    """Not even a file without tables, which would be taken for a new store."""
    db = apsw.Connection(str(folder / "redrive.db"))
    db.execute("PRAGMA user_version = 7").fetchall()
    db.close()
    before = (folder / "redrive.db").read_bytes()
    assert cli("migrate", "--check", "--json").json == [{"migration": name, "state": "pending"} for name in MIGRATIONS]
    assert (folder / "redrive.db").read_bytes() == before


def test_a_store_without_a_schema_has_nothing_to_do(cli: Cli) -> None:
    assert cli("--url", "memory://", "migrate").code == 0
    assert cli("--url", "memory://", "migrate", "--check").code == 0

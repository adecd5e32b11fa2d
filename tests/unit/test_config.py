"""Settings: layers, where values come from, and what wrong ones are told."""

import os
from pathlib import Path
from typing import Any

import pytest

from redrive.clock import SECOND
from redrive.config import SETTINGS, Config, load
from redrive.errors import ConfigError

DAY = 24 * 3_600 * SECOND


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project folder with a home of its own beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def settings(project: Path, *, flags: dict[str, Any] | None = None, **variables: str) -> Config:
    return load(start=project, environ={"HOME": str(project.parent / "home"), **variables}, overrides=flags)


def refused(project: Path, *, flags: dict[str, Any] | None = None, **variables: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        settings(project, flags=flags, **variables)
    return str(refusal.value)


def write(project: Path, text: str, name: str = "redrive.toml") -> Path:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_anything_every_setting_has_its_default(project: Path) -> None:
    config = settings(project)
    assert config.url == "sqlite:///redrive.db"
    assert (config.worker.concurrency, config.worker.threads, config.worker.processes) == (20, 8, 1)
    assert config.worker.lease == 30 * SECOND
    assert config.payload_limit == 1024 * 1024
    assert set(config.sources.values()) == {"default"}
    assert set(config.sources) == {setting.key for setting in SETTINGS}


def test_each_layer_overrides_the_one_before(project: Path) -> None:
    user = write(
        project.parent / "home",
        "[worker]\nconcurrency = 1\nthreads = 1\npoll = 5\nlease = '1m'",
        ".config/redrive/config.toml",
    )
    own = write(project, "[worker]\nconcurrency = 2\nthreads = 2\npoll = 2.5")
    config = settings(
        project, flags={"worker.concurrency": 4}, REDRIVE_WORKER__CONCURRENCY="3", REDRIVE_WORKER__THREADS="3"
    )
    worker = config.worker
    assert (worker.concurrency, worker.threads, worker.poll, worker.lease) == (4, 3, 2_500_000, 60 * SECOND)
    assert config.sources["worker.concurrency"] == "flag"
    assert config.sources["worker.threads"] == "environment REDRIVE_WORKER__THREADS"
    assert config.sources["worker.poll"] == str(own)
    assert config.sources["worker.lease"] == str(user)
    assert config.sources["worker.grace"] == "default"


def test_the_user_file_stands_under_xdg_config_home(project: Path) -> None:
    write(project.parent / "xdg", 'release = "from user"', "redrive/config.toml")
    assert settings(project, XDG_CONFIG_HOME=str(project.parent / "xdg")).release == "from user"


def test_a_home_that_is_closed_to_us_has_no_settings(project: Path) -> None:
    """As for a container that runs as another user than the one whose home it was given."""
    home = project.parent / "home"
    write(home, 'release = "closed"', ".config/redrive/config.toml")
    home.chmod(0o000)
    root = os.geteuid() == 0
    if root:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        assert load(start=Path("/"), environ={"HOME": str(home)}).release is None
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)
        home.chmod(0o755)


def test_a_named_project_file_is_read_instead_of_the_nearest(project: Path) -> None:
    write(project, 'release = "nearest"')
    named = write(project, 'url = "sqlite:///jobs.db"\nrelease = "named"', "etc/jobs.toml")
    config = settings(project, REDRIVE_CONFIG="etc/jobs.toml")
    assert config.release == "named"
    assert config.sources["release"] == str(named)
    assert config.resolved_url == f"sqlite:///{named.parent}/jobs.db"
    assert "there is no configuration file" in refused(project, REDRIVE_CONFIG="etc/none.toml")
    assert "name a .toml file" in refused(project, REDRIVE_CONFIG="etc")


def test_the_nearest_project_file_upwards_is_read(project: Path) -> None:
    write(project, 'release = "outer"')
    inner = project / "a" / "b"
    write(project / "a", '[tool.redrive]\nrelease = "inner"', "pyproject.toml")
    inner.mkdir()
    write(inner, '[project]\nname = "not ours"', "pyproject.toml")
    assert settings(inner).release == "inner"
    assert settings(project).release == "outer"


def test_settings_may_stand_under_a_table_of_the_products_name(project: Path) -> None:
    write(project, "[redrive]\napp = 'shop:app'\n[worker]\nthreads = 3")
    config = settings(project)
    assert (config.app, config.worker.threads) == ("shop:app", 3)
    write(project, "redrive = 3")
    assert "is not a table" in refused(project)


def test_redrive_toml_wins_over_pyproject_in_the_same_folder(project: Path) -> None:
    write(project, '[tool.redrive]\nrelease = "shared"', "pyproject.toml")
    write(project, 'release = "own"')
    assert settings(project).release == "own"


def test_a_relative_sqlite_path_stands_beside_the_project_file(project: Path) -> None:
    inner = project / "src"
    inner.mkdir()
    assert settings(inner).resolved_url == f"sqlite:///{inner}/redrive.db"
    write(project, 'url = "sqlite:///data/jobs.db?force=1"')
    assert settings(inner).resolved_url == f"sqlite:///{project}/data/jobs.db?force=1"


@pytest.mark.parametrize("url", ["sqlite:////srv/jobs.db", "memory://", "postgresql://localhost/jobs"])
def test_an_absolute_url_stays_as_it_is(project: Path, url: str) -> None:
    assert settings(project, flags={"url": url}).resolved_url == url


@pytest.mark.parametrize(
    ("written", "micros"), [("30s", 30 * SECOND), ("90", 90 * SECOND), ("1m30s", 90 * SECOND), ("0.5", SECOND // 2)]
)
def test_durations_are_written_as_people_do(project: Path, written: str, micros: int) -> None:
    assert settings(project, REDRIVE_WORKER__TIMEOUT=written).worker.timeout == micros


@pytest.mark.parametrize(("written", "size"), [("2048", 2048), ("512 KiB", 524_288), ("2MB", 2_000_000)])
def test_sizes_are_written_as_people_do(project: Path, written: str, size: int) -> None:
    assert settings(project, REDRIVE_PAYLOAD_LIMIT=written).payload_limit == size


def test_queues_are_a_table_a_list_or_a_text(project: Path) -> None:
    write(project, "[worker]\nqueues = {email = 8, default = 2}")
    assert settings(project).worker.queues == {"email": 8, "default": 2}
    write(project, "[worker.queues]\nemail = 8")
    assert settings(project).worker.queues == {"email": 8}
    assert settings(project, flags={"worker.queues": ["email=4", "slow"]}).worker.queues == {"email": 4, "slow": None}
    assert settings(project, REDRIVE_WORKER__QUEUES="email=3, slow").worker.queues == {"email": 3, "slow": None}


def test_a_secret_is_read_from_a_file(project: Path) -> None:
    secret = write(project, "postgresql://me:secret@db/jobs\n", "secret")
    config = settings(project, REDRIVE_URL_FILE=str(secret))
    assert config.url == "postgresql://me:secret@db/jobs"
    assert config.sources["url"] == "environment REDRIVE_URL_FILE"


def test_a_secret_both_plain_and_in_a_file_is_refused(project: Path) -> None:
    assert "both set" in refused(project, REDRIVE_URL="memory://", REDRIVE_URL_FILE="/nowhere")
    assert "cannot be read" in refused(project, REDRIVE_URL_FILE="/nowhere/at/all")


def test_the_default_policy_and_named_ones_are_kept_apart(project: Path) -> None:
    write(
        project,
        "[retry]\nmax_attempts = 5\n[retry.on]\ntimeout = 30\n"
        "[retry.email]\nbackoff = 'linear'\non = {network = 'bury'}",
    )
    config = settings(project, REDRIVE_RETRY__EMAIL__MAX_ATTEMPTS="7", REDRIVE_RETRY__CAP="1m")
    assert config.retry.default == {"max_attempts": 5, "on": {"timeout": 30}, "cap": "1m"}
    assert config.retry.named == {"email": {"backoff": "linear", "on": {"network": "bury"}, "max_attempts": 7}}
    assert config.sources["retry.email.max_attempts"] == "environment REDRIVE_RETRY__EMAIL__MAX_ATTEMPTS"


def test_rules_on_reasons_are_kept_in_their_order(project: Path) -> None:
    write(project, "[[reasons]]\nreason = 'timeout'\nmessage = 'too slow'\n[[reasons]]\nreason = 'network'")
    assert [rule["reason"] for rule in settings(project).reasons] == ["timeout", "network"]


def test_queues_may_keep_things_for_their_own_time(project: Path) -> None:
    write(
        project,
        """
        [retention]
        open = "180d"
        redrives = "30d"

        [retention.queues.email]
        done = "1h"
        open = "90d"

        [retention.queues.audit]
        open = "never"
        """,
    )
    retention = settings(project).retention
    assert (retention.open, retention.redrives) == (180 * DAY, 30 * DAY)
    assert retention.own("open") == {"email": 90 * DAY, "audit": 0}
    assert (retention.own("done"), retention.own("closed")) == ({"email": 3_600 * SECOND}, {})


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ("queues = 5", "write a table for each queue in a configuration file, such as [retention.queues.email]"),
        ("queues = {email = 5}", "write a table for each queue"),
        ("queues = {email = {opened = 5}}", "queue email has no 'opened' to keep; there are done, closed and open"),
        ("queues = {email = {closed = 'never'}}", "closed of queue email: write seconds"),
        ("queues = {email = {open = 'soon'}}", "open of queue email: write a text such as '90d' or '12h'"),
        ("open = 0", "write a text such as '90d' or '12h', longer than zero, or 'never'"),
    ],
)
def test_a_wrong_time_of_a_queue_is_told(project: Path, table: str, wanted: str) -> None:
    write(project, f"[retention]\n{table}\n")
    assert wanted in refused(project)


def test_open_letters_stay_unless_that_is_asked_for(project: Path) -> None:
    assert settings(project).retention.open == 0
    assert settings(project, REDRIVE_RETENTION__OPEN="90d").retention.open == 90 * DAY


def test_names_from_another_tools_environment_work(project: Path) -> None:
    config = settings(project, MAX_RETRY_ATTEMPTS="4", RETRY_DELAY_SECONDS="5", LOG_LEVEL="WARN", WORKER_ID="w7")
    assert config.retry.default == {"max_attempts": 4, "backoff": "fixed", "base": 5, "jitter": "none"}
    assert (config.log.level, config.worker.id) == ("warning", "w7")
    assert config.sources["retry.base"] == "environment RETRY_DELAY_SECONDS"
    assert settings(project, LOG_LEVEL="error", REDRIVE_LOG__LEVEL="debug").log.level == "debug"


def test_an_unknown_key_is_told_with_a_guess(project: Path) -> None:
    path = write(project, "[worker]\nconcurency = 3")
    assert refused(project) == f"unknown setting worker.concurency in {path}, did you mean worker.concurrency?"
    path.unlink()
    assert refused(project, REDRIVE_WORKER__CONCURENCY="3") == (
        "unknown setting REDRIVE_WORKER__CONCURENCY in the environment, did you mean REDRIVE_WORKER__CONCURRENCY?"
    )
    path = write(project, "[redrive]\nlaese = 3")
    assert refused(project) == f"unknown setting laese in {path}, did you mean worker.lease?"
    path = write(project, "[redrive]\nxyzzy = 3")
    assert refused(project).startswith(f"unknown setting xyzzy in {path}; there are url, app, release, ")
    path.unlink()
    assert "did you mean REDRIVE_WORKER__LEASE?" in refused(project, REDRIVE_LEASE="3s")
    assert "there are REDRIVE_URL, REDRIVE_APP, " in refused(project, REDRIVE_XYZZY="3")
    assert "unknown setting warker.threads in flags" in refused(project, flags={"warker.threads": 3})
    assert "unknown setting retry.a.b.c" in refused(project, flags={"retry": {"a": {"b": {"c": 1}}}})


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("worker.concurrency", "many", "whole number of at least 1"),
        ("worker.concurrency", 0, "whole number of at least 1"),
        ("worker.concurrency", True, "whole number of at least 1"),
        ("worker.lease", "soon", "write seconds (30)"),
        ("worker.lease", -1, "write seconds (30)"),
        ("worker.lease", "0s", "longer than zero"),
        ("worker.queues", "email=x", "name=slots"),
        ("worker.queues", 3, "queues with their slots"),
        ("worker.queues", ["a=1", "a=2"], "queue a is named twice; keep one of them"),
        ("payload_limit", "big", "write bytes"),
        ("payload_limit", True, "write bytes"),
        ("log.format", "xml", "write one of text, json"),
        ("url", "", "write a text"),
        ("url", "sqlite:///a\0b", "write a text"),
        ("reasons", "timeout", "[[reasons]]"),
        ("worker", 3, "unknown setting worker"),
    ],
)
def test_a_wrong_value_names_its_key_and_what_to_write(project: Path, key: str, value: object, wanted: str) -> None:
    message = refused(project, flags={key: value})
    assert key in message
    assert wanted in message


def test_a_wrong_value_names_its_file(project: Path) -> None:
    path = write(project, "[worker]\nthreads = 'x'")
    assert refused(project) == f"worker.threads cannot be 'x' ({path}): write a whole number of at least 1"


def test_a_heartbeat_as_long_as_the_lease_is_refused(project: Path) -> None:
    assert "shorter than worker.lease" in refused(project, flags={"worker.lease": "10s"})


def test_broken_toml_names_its_file(project: Path) -> None:
    path = write(project, "worker = [")
    assert refused(project).startswith(f"{path} is not valid TOML: ")


def test_what_kubernetes_and_redrive_itself_put_there_is_no_setting(project: Path) -> None:
    settings(
        project,
        REDRIVE_SERVICE_HOST="10.0.0.1",
        REDRIVE_PORT="tcp://10.0.0.1:80",
        REDRIVE_PORT_80_TCP_ADDR="10.0.0.1",
        REDRIVE_SUPERVISED="1",
        REDRIVE_FAILPOINT="settle.done",
        REDRIVE_URL="",
    )


def test_every_setting_can_be_shown_and_read_back() -> None:
    for setting in SETTINGS:
        if setting.default not in (None, ()):
            assert setting.reads.read(setting.shown(setting.default)) == setting.default, setting.key
        assert setting.meaning

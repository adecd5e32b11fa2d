"""`redrive config`: the settings in force, and where each comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import Column, emit, table
from redrive.cli.session import Session
from redrive.config import SETTINGS, Config
from redrive.redact import MASK, is_secret, redact, redact_text, safe_url

_COLUMNS = (Column("SETTING"), Column("VALUE", shrink=True), Column("FROM", shrink=True))


class Line(NamedTuple):
    """A setting as it is shown."""

    key: str
    value: Any
    shown: str
    source: str


@click.command("config", cls=Verb)
@json_option
@pass_session
def command(session: Session, as_json: bool) -> None:
    """Print the settings in force and where each comes from; secrets are masked."""
    lines = [*_settings(session.config), *_policies(session.config)]
    if as_json:
        for line in lines:
            emit({"key": line.key, "value": line.value, "from": line.source})
    else:
        table(_COLUMNS, [[line.key, line.shown, _near(line.source)] for line in lines])


def _near(source: str) -> str:
    """A file as one would name it from here, so that the values have room."""
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else source


def _settings(config: Config) -> Iterator[Line]:
    for setting in SETTINGS:
        value = config.value(setting.key)
        source = config.sources[setting.key]
        if setting.key == "url":
            value = safe_url(config.resolved_url)
        elif value is not None and is_secret(setting.key):
            value = MASK
        shown = setting.shown(value) if value is not None else "(not set)"
        yield Line(setting.key, setting.shown(value) if setting.kind == "duration" else value, shown, source)


def _policies(config: Config) -> Iterator[Line]:
    """`[retry]` and every `[retry.NAME]`, as they are written."""
    for key, source in config.sources.items():
        section, *path = key.split(".")
        if section != "retry" or key in {setting.key for setting in SETTINGS}:
            continue
        tables = config.retry.default if len(path) == 1 else config.retry.named[path[0]]
        value = redact({key: tables[path[-1]]})[key]
        yield Line(key, value, redact_text(str(value)), source)

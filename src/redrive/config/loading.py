"""Finds settings in files, the environment and flags, and puts the strongest of each into one Config."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from redrive.config.settings import SETTINGS, Config, Log, Retention, RetryTables, WorkerSettings, variable
from redrive.errors import ConfigError

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_SECTIONS: dict[str, type[msgspec.Struct]] = {"worker": WorkerSettings, "retention": Retention, "log": Log}
_POLICY_TABLES = frozenset({"on"})  # tables that belong to a policy itself: every other table in [retry] names one

_FILE = "REDRIVE_CONFIG"
"""Names the project file, instead of the nearest one; `--config` sets it."""

_INTERNAL = re.compile(r"REDRIVE_(CONFIG|SUPERVISED|FAILPOINT|CHILD|PYTHON|TEST)(_.*)?")
_KUBERNETES = re.compile(r"REDRIVE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")

_BORROWED = {
    "MAX_RETRY_ATTEMPTS": ("retry.max_attempts",),
    "RETRY_DELAY_SECONDS": ("retry.backoff", "retry.base", "retry.jitter"),
    "LOG_LEVEL": ("log.level",),
    "WORKER_ID": ("worker.id",),
}
"""Names from other tools' .env files, and what they set."""


class Found(NamedTuple):
    """A value as written, and where."""

    value: object
    source: str


Layer = dict[str, Found]


def load(
    *,
    start: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """The effective settings for a working directory, an environment and flags.

    `overrides` is keyed like the settings, dotted or nested; a None in it means not given.
    """
    here = (start or Path.cwd()).absolute()
    variables = os.environ if environ is None else environ
    project = _named_file(variables, here) or _project_file(here)
    found: Layer = {}
    for path in filter(None, (_user_file(variables), project)):
        found |= _from_file(path)
    found |= _from_environment(variables)
    found |= {key: Found(value, "flag") for key, value in _flat(overrides or {}, "flags") if value is not None}
    return _config(found, project.parent if project else here)


# --- files ------------------------------------------------------------------------------------------------------------


def _user_file(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("XDG_CONFIG_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.config")
    path = Path(home, "redrive", "config.toml") if home else None
    return path if path and _is_there(path) else None


def _named_file(environ: Mapping[str, str], here: Path) -> Path | None:
    named = environ.get(_FILE)
    if not named:
        return None
    path = here / named
    if path.suffix != ".toml" or not path.is_file():
        raise ConfigError(f"there is no configuration file {path}; {_FILE} and --config name a .toml file")
    return path


def _project_file(here: Path) -> Path | None:
    for folder in (here, *here.parents):
        if _is_there(own := folder / "redrive.toml"):
            return own
        shared = folder / "pyproject.toml"
        if _is_there(shared) and "redrive" in _toml(shared).get("tool", {}):
            return shared
    return None


def _is_there(path: Path) -> bool:
    """A folder that is closed to us, as the home of another user, has nothing for us."""
    try:
        return path.is_file()
    except OSError:
        return False


def _from_file(path: Path) -> Layer:
    tables = _toml(path)
    if path.name == "pyproject.toml":
        tables = tables.get("tool", {}).get("redrive", {})
    own = tables.pop("redrive", {})  # `app` may stand under [redrive] as under [tool.redrive]
    if not isinstance(own, Mapping):
        raise ConfigError(f"{path}: redrive = {own!r} is not a table of settings; write [redrive]")
    return {key: Found(value, str(path)) for key, value in _flat({**tables, **own}, str(path))}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; check its permissions") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _flat(table: Mapping[str, Any], source: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a table by its dotted key."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if key in _BY_KEY or _is_policy_key(key, value):
            yield key, value
        elif not isinstance(value, Mapping):
            raise _unknown(key, source)
        elif key in _SECTIONS or key == "retry" or key.startswith("retry."):
            yield from _flat(value, source, f"{key}.")
        else:
            raise _unknown(key, source)


def _is_policy_key(key: str, value: object) -> bool:
    section, *rest = key.split(".")
    return (
        section == "retry"
        and len(rest) in (1, 2)
        and all(rest)
        and (not isinstance(value, Mapping) or rest[-1] in _POLICY_TABLES)
    )


# --- environment ------------------------------------------------------------------------------------------------------


def _from_environment(environ: Mapping[str, str]) -> Layer:
    found: Layer = {}
    for name, keys in _BORROWED.items():
        if text := environ.get(name):
            found |= {key: Found(value, f"environment {name}") for key, value in _borrowed(keys, text)}
    for name, text in environ.items():
        if name.startswith("REDRIVE_") and text and not _KUBERNETES.fullmatch(name) and not _INTERNAL.fullmatch(name):
            found |= _from_variable(name, text, environ)
    return found


def _borrowed(keys: tuple[str, ...], text: str) -> list[tuple[str, object]]:
    """`RETRY_DELAY_SECONDS=5` means a fixed delay of 5 s without jitter."""
    values = (_loose(text),) if len(keys) == 1 else ("fixed", _loose(text), "none")
    return list(zip(keys, values, strict=True))


def _from_variable(name: str, text: str, environ: Mapping[str, str]) -> Layer:
    key = _key_of(name)
    if not _is_known(key) and name.endswith("_FILE") and _is_known(_key_of(name.removesuffix("_FILE"))):
        plain = name.removesuffix("_FILE")
        if environ.get(plain):
            raise ConfigError(f"{plain} and {name} are both set; keep one of them")
        key, text = _key_of(plain), _secret(name, text)
    if not _is_known(key):
        raise _unknown(key, "the environment", variable)
    return {key: Found(_loose(text) if key.startswith("retry.") else text, f"environment {name}")}


def _key_of(name: str) -> str:
    return name.removeprefix("REDRIVE_").lower().replace("__", ".")


def _is_known(key: str) -> bool:
    return key in _BY_KEY or (_is_policy_key(key, "") and not key.endswith("_file"))


def _secret(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} names {path}, which cannot be read: {error}") from None


def _loose(text: str) -> object:
    """A number, a truth or a list where the text is one in JSON, else the text."""
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return text
    return value


# --- putting it together ----------------------------------------------------------------------------------------------


def _config(found: Layer, root: Path) -> Config:
    own: dict[str, Any] = {"root": str(root)}
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for setting in SETTINGS:
        if setting.key in found:
            section, _, name = setting.key.rpartition(".")
            (sections[section] if section else own)[name] = _read(setting.key, found[setting.key])
    sources = dict.fromkeys(_BY_KEY, "default") | {key: value.source for key, value in found.items()}
    made: dict[str, Any] = {name: _SECTIONS[name](**values) for name, values in sections.items()}
    config = Config(**own, **made, retry=_retry_tables(found), sources=sources)
    _check(config)
    return config


def _read(key: str, found: Found) -> object:
    try:
        return _BY_KEY[key].reads.read(found.value)
    except (ValueError, OverflowError) as error:
        written = "a secret" if found.source.endswith("_FILE") else repr(found.value)
        raise ConfigError(f"{key} cannot be {written} ({found.source}): {error}") from None


def _retry_tables(found: Layer) -> RetryTables:
    default: dict[str, Any] = {}
    named: dict[str, dict[str, Any]] = {}
    for key, value in found.items():
        match key.split("."):
            case ["retry", name]:
                default[name] = value.value
            case ["retry", policy, name]:
                named.setdefault(policy, {})[name] = value.value
    return RetryTables(default=default, named=named)


def _check(config: Config) -> None:
    worker = config.worker
    if worker.heartbeat >= worker.lease:
        raise ConfigError(
            f"worker.heartbeat ({config.sources['worker.heartbeat']}) must be shorter than worker.lease "
            f"({config.sources['worker.lease']}); a third of it is a good choice"
        )


def _unknown(key: str, source: str, written: Callable[[str], str] = str) -> ConfigError:
    """What nobody reads, with what it may have meant; `written` is how a key is written there."""
    meant = {key.rpartition(".")[2]: key for key in reversed(_BY_KEY)} | {key: key for key in (*_BY_KEY, "retry")}
    near = difflib.get_close_matches(key, meant, 1, 0.6)
    advice = f", did you mean {written(meant[near[0]])}?" if near else f"; there are {', '.join(map(written, _BY_KEY))}"
    return ConfigError(f"unknown setting {written(key)} in {source}{advice}")

"""RFC 9535 paths into a payload: each is compiled once, and one that fails on some payload selects nothing there."""

from functools import lru_cache
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

_environment = JSONPathEnvironment(strict=True)
for _regular in ("match", "search"):  # a pattern from outside may take for ever
    del _environment.function_extensions[_regular]


@lru_cache(maxsize=256)
def _compiled(text: str) -> JSONPath:
    compiled = _environment.compile(text)
    assert isinstance(compiled, JSONPath)
    return compiled


def fault_of(text: str) -> str | None:
    """What is wrong with a path, as a phrase."""
    if text.count("..") > 1:
        return "`..` may stand in it once, because every further one looks through everything again for each value"
    try:
        _compiled(text)
    except JSONPathError as error:
        return str(error.args[0] if error.args else error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def selected(text: str, value: Any) -> list[Any]:
    """Every value that the path selects."""
    try:
        return list(_compiled(text).findall(value))
    except (JSONPathError, RecursionError):
        return []

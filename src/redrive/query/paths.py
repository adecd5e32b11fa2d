"""RFC 9535 paths into a payload: each is compiled once, and one that fails on some payload selects nothing there."""

import re
from collections.abc import Iterator
from functools import lru_cache
from time import thread_time
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

from redrive.errors import UsageError

WAYS = 200
"""Each `[a, b]` doubles what the next one has to look at."""
LONGEST = 2.0
"""Seconds of the processor for one payload: each of a million letters may be as large as a payload may be."""
LOOK = 1_000
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""", re.DOTALL)

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
    if _ways(text) > WAYS:
        return f"it follows more than {WAYS} ways at once; name fewer places in its brackets"
    if text.count("..") > 1:
        return "`..` may stand in it once, because every further one looks through everything again for each value"
    try:
        _compiled(text)
    except JSONPathError as error:
        return str(error.args[0] if error.args else error)
    except RecursionError:
        return "it is nested too deeply"
    except (ValueError, OverflowError):
        return "a number in it is too large"
    return None


def _ways(text: str) -> int:
    """How many places the lists in its brackets make when all of them are followed, whatever is in the payload."""
    bare, counts = _QUOTED.sub("", text), [0]
    ways = 1
    for sign in bare:
        if sign == "[":
            counts.append(0)
        elif sign == ",":
            counts[-1] += 1
        elif sign == "]" and len(counts) > 1:
            ways *= counts.pop() + 1
    return ways


def selected(text: str, value: Any) -> Iterator[Any]:
    """Every value that the path selects, one after the other; a path that would never come to an end is refused."""
    begun = thread_time()
    try:
        for number, match in enumerate(_compiled(text).finditer(value)):
            if number % LOOK == LOOK - 1 and thread_time() - begun > LONGEST:
                raise UsageError(
                    f"{text} selects more in one payload than can be looked at; name its places more closely"
                )
            yield match.obj
    except (JSONPathError, RecursionError):
        return

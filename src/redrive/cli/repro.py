"""A letter as a Python snippet that calls its handler with its payload, for a debugger or a test."""

from pprint import pformat

from redrive.cli.output import clean
from redrive.cli.shapes import json_in
from redrive.letter import Letter
from redrive.redact import MASK, redact

_SNIPPET = """\
# letter {id} of {named} failed last with {error}
{masked}import asyncio
import json

from {module} import {app}{guess}

payload = {payload}
task = {app}.tasks[{task!r}]
args, kwargs = task.bind(json.dumps(payload).encode())
result = task(*args, **kwargs)
print(asyncio.run(result) if asyncio.iscoroutine(result) else result)
"""


def snippet(letter: Letter, app: str | None) -> str:
    """The snippet; secrets in the payload are masked, and it says so."""
    module, _, name = (app or "").partition(":")
    payload = pformat(redact(json_in(letter.payload or b"{}")), width=100, sort_dicts=False)
    return _SNIPPET.format(
        id=letter.id,
        task=letter.task,
        named=clean(letter.task),
        error=clean(f"{letter.type}: {letter.message}"),
        masked=f"# write the secrets where {MASK} stands: they are not shown\n" if MASK in payload else "",
        module=module or "your_module",
        app=name or "app",
        guess="" if module else "  # where your app is",
        payload=payload,
    )

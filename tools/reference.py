"""Writes docs/reference from the code: `make docs`. A test compares what is there with what this writes."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

import redrive
from redrive import errors
from redrive.cli.root import root
from redrive.cli.session import Session
from redrive.config import SETTINGS
from redrive.events import EVENTS
from redrive.ledger import CAME, FLAWS, HERE, WENT
from redrive.options import Options
from redrive.query.fields import FIELDS
from redrive.query.parsing import DEPTH_LIMIT, TERMS_LIMIT, VALUES_LIMIT
from redrive.query.paths import WAYS
from redrive.query.words import LENGTH_LIMIT
from redrive.reasons import ALIASES, RETRYABLE
from redrive.redrives import Options as RedriveOptions
from redrive.redrives import Run
from redrive.store import Store, Traits
from redrive.stores.memory import MemoryStore
from redrive.stores.sqlite import SqliteStore
from redrive.triage import Letters
from tools.entries import ENTRIES
from tools.words import words

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
OURS = ("Context", "Enqueued", "Job", "Task")
"""Classes whose values are made by Redrive, never by its users."""

OPTIONS = {
    "queue": "another queue than the task's",
    "priority": "0 to 9, nine first; or `low` (2), `normal` (5), `high` (8)",
    "delay": "run it this much later",
    "at": "run it at this time: a datetime with a zone, or microseconds of UTC",
    "key": "an idempotency key: as long as it is held, the same key answers with the job that holds it",
    "id": "the id, a UUID, where the caller has to know it before",
    "external_id": "the id that other systems know it by",
    "max_attempts": "another limit than the policy's",
    "backoff": "another backoff than the policy's: one of the built-in ones",
    "timeout": "how long the handler may run",
    "expires": "discard it if it has not been started by then: a duration from now, or a datetime",
    "headers": "texts by name, for the handler and for tracing",
    "batch": "the batch that it belongs to",
    "needs": "dependencies: while the gate of one is closed, the job waits without spending an attempt",
}

REDRIVE_OPTIONS = {
    "reason": "why, for the journal",
    "actor": "who, for the journal; `app@HOST` unless it is said",
    "all": "every open letter, when no filter is given",
    "limit": "so many letters at the most: those that failed last, or first where `order` is `oldest`",
    "ramp": "the stages, such as `[1, 5, 25]`; `False`: everything at once. Above 20 letters they are 1, 5, 25, 125",
    "stop_at": "a group that fails as before in more than this share stops, such as `0.2` or `20%`; `False`: never",
    "stage_timeout": "pause when a stage has no verdict for so long; 10 minutes",
    "rate": "so many letters a second, or `50/s`, `10/m`, `1000/h`",
    "parallel": "so many released and not ended at the most",
    "judge": "`first`: an attempt that fails as before counts at once; `final`: only the last one does",
    "keep_attempts": "attempts that were spent stay spent; at least one is left",
    "max_attempts": "another limit of attempts than the job's own",
    "strategy": "another retry policy for this epoch: `exponential`, `linear`, `fixed`, `immediate`, `delays`, the "
    "name of a `[retry.NAME]`, a `Retry` or a backoff such as `fixed(30)`",
    "base": 'the first delay of the strategy, of `fixed` each one, of `delays` all: `"5,30,120"`; without a strategy '
    "it means exponential",
    "max_delay": "the longest delay of `exponential` and `linear`",
    "timeout": "how long each attempt may take, instead of as the task says",
    "queue": "where its jobs go instead of to their own queue",
    "priority": "another priority than the jobs have: low, normal, high or 0 to 9",
    "order": "`spread`: groups take turns, of all hosts and ages; `oldest`: as they failed",
    "set": 'values at places of each payload: `["payload.limit=5"]`; the original is kept',
    "patch": "a JSON Patch (RFC 6902) of each payload, instead of `set`",
    "force": "also letters that need review, and jobs whose time is over; demands a `reason`",
    "when_release": "wait until a worker that serves its letters reports such a release: `>= 2.4.1`, or its name",
    "wait": "`False`: leave it to the workers",
}

WRITTEN = "<!-- written by `make docs` from the code; change it there -->\n"


def table(*heads: str, rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def settings() -> str:
    """Every setting with its default."""
    rows = [
        (
            f"`{one.key}`",
            f"`{one.variable}`",
            one.kind,
            f"`{one.shown(one.default)}`" if one.default else "",
            one.meaning,
        )
        for one in SETTINGS
    ]
    return (
        "# Settings\n\n"
        "Defaults, then `$XDG_CONFIG_HOME/redrive/config.toml`, then `redrive.toml` or `[tool.redrive]` in "
        "`pyproject.toml`, then the environment, then flags: the later one wins. `redrive config` prints what is in "
        "force and where each value comes from. A name in the environment that ends in `_FILE` reads the value from "
        "that file. In `redrive.toml` a name without a dot stands at the top or under `[redrive]`, and `worker.lease` "
        "is `lease` under `[worker]`; in `pyproject.toml` all of it is below `[tool.redrive]`.\n\n"
        f"{table('setting', 'environment', 'kind', 'default', 'meaning', rows=rows)}\n"
        "## Retry policies\n\n"
        "`[retry]` is the policy of every task that names none; `[retry.NAME]` is one that a task can ask for with "
        '`retry="NAME"`. Keys: `max_attempts`, `backoff` (`exponential`, `linear`, `fixed`, `delays`, `immediate`), '
        "`base`, `multiplier`, `cap`, `step`, `delay`, `delays`, `jitter` (`full`, `equal`, `decorrelated`, `none`), "
        "`within`, `crash_limit`, and `on`, a table from a reason to `bury`, `discard`, a delay or another policy.\n\n"
        "## Rules\n\n"
        "Each `[[rules]]` says what is done with letters without a person. Keys: `when`, a filter of open letters; "
        "`action`, one of `retry`, `discard`, `review`, `notify`; `after`, how long since the last failure; `name`, "
        "else its number; `reason`, for the journal; with `retry` also `max_epochs` and every option of "
        "`redrive dlq retry` with `_` for `-`. The first rule that fits has the letter.\n\n"
        "## Names from other tools\n\n"
        "`MAX_RETRY_ATTEMPTS`, `RETRY_DELAY_SECONDS` (a fixed delay without jitter), `LOG_LEVEL` and `WORKER_ID` work "
        "too.\n"
    )


def reasons() -> str:
    """Every reason, and the words that people type for it."""
    rows = [
        (f"`{name}`", "yes" if heals else "no", ", ".join(f"`{word}`" for word, of in ALIASES.items() if of == name))
        for name, heals in RETRYABLE.items()
    ]
    return (
        "# Reasons\n\n"
        "The class of a failure decides whether time can heal it. It is found in this order: your `classify=`, your "
        "`[[reasons]]` rules, then exception type, HTTP status, errno and message.\n\n"
        f"{table('reason', 'retried', 'also written', rows=rows)}"
    )


def events() -> str:
    """Every event with its fields."""
    rows = [(f"`{name}`", kind.meaning, ", ".join(f"`{one}`" for one in kind.fields)) for name, kind in EVENTS.items()]
    return (
        "# Events\n\n"
        "What `@app.on(name)` hooks and `app.subscribe` subscribers are told, after the fact. `event.job` is the job "
        "where the event is about one; the other fields are in `event.fields`. Durations are microseconds.\n\n"
        f"{table('event', 'when', 'fields', rows=rows)}\n"
        "## The journal\n\n"
        "What `redrive events` shows: entries in the store, each written with what it tells of. Those with an actor "
        "are acts of people and rules, and are sealed.\n\n"
        f"{table('entry', 'means', rows=[(f'`{name}`', means) for name, means in ENTRIES.items()])}"
    )


def failures() -> str:
    """The tree of exceptions."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2]
    codes = [("0", "ok"), ("1", "failed"), ("2", "usage"), ("3", "partly failed"), ("4", "the store cannot be reached")]
    codes += [("5", "not found"), ("130", "ended by Ctrl-C"), ("143", "ended by SIGTERM")]
    return (
        "# Errors\n\n"
        "Every error is one sentence: what is wrong, where, and what to do next.\n\n"
        f"```text\n{tree}\n```\n\n## Exit codes\n\n{table('code', 'means', rows=codes)}"
    )


def engines() -> str:
    """How the stores differ, as they declare it."""
    stores: list[tuple[str, type[Store]]] = [("sqlite:///file.db", SqliteStore), ("memory://", MemoryStore)]
    rows = [(f"`{url}`", *_traits(store.traits)) for url, store in stores]  # type: ignore[arg-type]  # of the class
    return (
        "# Engines\n\n"
        "One contract suite runs whole on each of them; this is how they differ.\n\n"
        f"{table('URL', 'an accepted job survives', 'shared within', 'wake-ups', rows=rows)}"
    )


def _traits(traits: Traits) -> tuple[str, ...]:
    return (traits.durable, f"one {traits.shared}", traits.wakeups)


def python() -> str:
    """The public names."""
    parts = [_entry(name, getattr(redrive, name)) for name in redrive.__all__]
    options = table(
        "option", "means", rows=[(f"`{field.name}`", OPTIONS[field.name]) for field in msgspec.structs.fields(Options)]
    )
    wishes = table(
        "option", "means", rows=[(f"`{name}`", REDRIVE_OPTIONS[name]) for name in RedriveOptions.__annotations__]
    )
    return (
        "# Python\n\nPlain names are synchronous, names that begin with `a` asynchronous. Durations are seconds, a "
        'text such as `"10m"`, or a timedelta.\n\n'
        + "\n".join(parts)
        + f"\n## Options of `using`\n\n{options}"
        + f"\n## Options of `app.redrive`\n\n{wishes}"
        + f"\n## What `app.redrive` answers\n\n{_sentence(Run)}\n\n"
        + "\n".join(_members("Run", Run))
        + f"\n\n## `app.letters`\n\n{_sentence(Letters)}\n\n"
        + "\n".join(_members("Letters", Letters))
    )


def _entry(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return "\n".join([_heading(name, value), *_members(name, value)])
    return _heading(name, value)


def _heading(name: str, value: Any) -> str:
    made = inspect.isclass(value) and (_is_exception(value) or name in OURS)
    signature = _signature(value) if callable(value) and not made else ""
    return f"## `{name}{signature}`\n\n{_sentence(value) or 'See `Retry`.'}\n"


def _members(name: str, cls: type) -> Iterator[str]:
    if _is_exception(cls):
        return
    for member, value in vars(cls).items():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            shown = f"`{member}{'' if isinstance(value, property) else _signature(value)}`"
            yield f"- {shown}: {_sentence(value)}"
    yield ""


def _is_exception(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def _signature(value: Callable[..., Any]) -> str:
    parameters = [one for one in inspect.signature(value).parameters.values() if one.name != "self"]
    shown = [one.replace(annotation=one.empty) for one in parameters]
    return str(inspect.Signature(shown))


def _sentence(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def commands() -> str:
    """Every command with its help."""
    context = click.Context(root, info_name="redrive", terminal_width=100, obj=Session([]), **root.context_settings)
    return "# Commands\n\n" + "\n".join(_commands(context, root))


def _commands(context: click.Context, command: click.Command) -> Iterator[str]:
    text = re.sub(r"[ \t]+$", "", command.get_help(context), flags=re.MULTILINE)
    yield f"## `{context.command_path}`\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                inner = click.Context(child, info_name=name, parent=context, terminal_width=100)
                yield from _commands(inner, child)


HOW = {
    "id": "`=` `in`",
    "part": "`=` `in`",
    "state": "`=` `in`",
    "text": "`=` `~` `in`",
    "error": "`=` `~` `in`",
    "reason": "`=` `~` `in`",
    "priority": "`=` `<` `>` `in`",
    "number": "`=` `<` `>` `in`",
    "time": "`=` `<` `>`",
    "age": "`<` `>`",
    "json": "all",
}
JSON = [
    ("`payload.n = 5`", "the number 5, 5.0, and the text `5`"),
    ("`payload.n = '5'`", "the text `5` only"),
    ("`payload.n > 5`", "numbers only; a text is neither more nor less than a number"),
    ("`payload.day > 2026-01-31`", "texts only, in the order of their characters"),
    ("`payload.on = true`", "true, and the text `true`; never 1"),
    ("`payload.x = null`", "null, and the text `null`; not what is missing"),
    ("`payload.x is null`", "null, or missing"),
    ("`payload.x != gold`", "everything but `gold`, what is missing too"),
    ("`payload.user ~ gold`", "an object or list that has it somewhere in its JSON, in any case"),
]


def filters() -> str:
    """The filter language."""
    rows = [
        (
            f"`{field.name}`",
            field.meaning,
            HOW[field.kind],
            ", ".join(f"`{alias}`" for alias in field.aliases),
        )
        for field in FIELDS.values()
    ]
    return (
        "# Filters\n\n"
        "`field op value`, joined by `and` (or `&&`, or a comma), `or` (`||`), `not` (`!`) and brackets. "
        "A lone word or a quoted text is searched for in the message, the error type and the task, in any case. "
        "Every engine means the same by a filter.\n\n"
        "```text\n"
        "reason = timeout and failed_at > -1h\n"
        "queue in (email, sms) and not message ~ refused\n"
        "payload.user.tier = gold or $.items[?@.price > 10]\n"
        "```\n\n"
        "## Fields\n\n"
        f"{table('field', 'is', 'compares with', 'also written', rows=rows)}\n"
        "`!=` goes with `=`, `not in` with `in`, `<=` and `>=` with `<` and `>`, and `is null`, `is not null` with "
        "all. `~` means: contains, in any case. `error_type` is a reason where its value is one, else the type of the "
        "exception. What is missing is not equal to anything, so `release != 2.4` means letters without a release "
        "too; `release = null` is another way to write `release is null`. The case of a field's name, and whether it "
        "has `_`, `-` or nothing between its words, make no difference.\n\n"
        "## Times\n\n"
        "`-24h` and `-7d` count from now; `2026-01-31` is that whole day where you are, as are `today` and "
        "`yesterday`; "
        "`2026-01-31T08:00` is a moment of it, with a zone if you write one.\n\n"
        "## Payload and headers\n\n"
        'A place is written `payload.user.tier`, `payload.items[0]`, `payload["a b"]` or `payload."a b"`; `item` is '
        "another word for "
        "`payload`. What begins with `$` is a path of RFC 9535 into the payload: alone it is true when it selects "
        "something, compared it is true when any value that it selects is. Its functions `match` and `search` are "
        "refused, because a pattern can take for ever, and so is a path whose brackets list so many places that it "
        f"follows more than {WAYS} ways at once.\n\n"
        f"{table('filter', 'means', rows=JSON)}\n"
        "## Limits\n\n"
        f"{LENGTH_LIMIT:,} characters, {TERMS_LIMIT} terms, {VALUES_LIMIT:,} values in a list, brackets {DEPTH_LIMIT} "
        "deep. What is wrong is said with its column.\n"
    )


def ledger() -> str:
    """What `redrive prove` adds up, and what it can find."""
    counts = [(f"`{name}`", "+", "a job came into the queue") for name in CAME]
    counts += [(f"`{name}`", "-", "a job left it") for name in WENT]
    return (
        "# The ledger\n\n"
        "`redrive prove` adds up for each queue: what came is what went and what is there "
        f"({', '.join(HERE)}). `restored` jobs had been counted as `discarded`; `dead_purged` counts the jobs that "
        "were dead when their letters were purged.\n\n"
        f"{table('count', '', 'when', rows=counts)}\n"
        "Then it holds rows against each other; it names the ids, or the queues, groups and redrives.\n\n"
        f"{table('kind', 'means', rows=[(f'`{kind}`', what) for kind, what in FLAWS.items()])}\n"
        "Sealed are the entries of the journal that have an actor. A line under a seal is the number of an entry in 8 "
        "bytes, and the SHA-256 of the JSON list of its number, time, event, job, task, queue, epoch, attempt, reason, "
        "worker, actor and text. The hash of a seal is the SHA-256 of the hash before it (32 zero bytes before the "
        "first), its own number and time in 8 bytes each, and its lines.\n"
    )


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "engines.md": engines,
    "errors.md": failures,
    "events.md": events,
    "filters.md": filters,
    "ledger.md": ledger,
    "python.md": python,
    "reasons.md": reasons,
    "settings.md": settings,
    "words.md": words,
}


def pages() -> dict[str, str]:
    """What each page should be."""
    return {name: WRITTEN + page() for name, page in PAGES.items()}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()

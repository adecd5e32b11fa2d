"""`redrive enqueue`: adds a job, or one for each line of a file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.filling import Filling
from redrive.cli.lazy import unknown
from redrive.cli.options import Verb, json_option, pass_session
from redrive.cli.output import emit, say, show
from redrive.cli.session import Session
from redrive.cli.times import read_moment
from redrive.clock import micros
from redrive.errors import BadPayload, NotFound, UnknownTask, UsageError
from redrive.job import decode
from redrive.options import Options

if TYPE_CHECKING:
    from redrive.app import Redrive

NO_PAYLOAD = "{}"


@click.command("enqueue", cls=Verb)
@click.argument("task")
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--from", "source", metavar="FILE", help="One job for each line of a file of JSON values; - is stdin.")
@click.option("--queue", metavar="NAME", help="The queue; the task's own, else default.")
@click.option("--priority", metavar="0-9", help="low, normal, high, or 0 to 9 (nine first).")
@click.option("--delay", metavar="TIME", help="Start no sooner than in this time: 30s, 10m.")
@click.option("--at", metavar="TIME", help="Start no sooner than then: 2026-01-31T14:30, local or with a zone.")
@click.option("--key", metavar="TEXT", help="Idempotency key: a second job with it is not added.")
@click.option("--id", metavar="UUID", help="The job's id; made if it is not given.")
@click.option("--external-id", metavar="TEXT", help="The id that others know it by.")
@click.option("--max-attempts", metavar="N", type=int, help="How often it is tried, first time included.")
@click.option("--timeout", metavar="TIME", help="How long its handler may run.")
@click.option("--expires", metavar="TIME", help="Discard it unless it has started by then, or after this long.")
@click.option("--header", "headers", metavar="K=V", multiple=True, help="A header that travels with it.")
@click.option("--needs", metavar="NAME", multiple=True, help="A dependency: while its gate is closed, the job waits.")
@click.option("--batch", metavar="NAME", help="The batch that it belongs to.")
@click.option("--by-name", is_flag=True, help="Add it though the app here does not know the task.")
@json_option
@pass_session
def command(
    session: Session, /, task: str, payload: str | None, source: str | None, by_name: bool, as_json: bool, **given: Any
) -> int:
    """Add a job of TASK with a JSON value as its payload: an object of the handler's arguments, {} if left out.

    With an app (--app, or the project's) the payload is checked against the task's signature; without one the job is
    added by name. JSON may be - for stdin. The job's id is printed.
    """
    options = _options(given)
    if source is not None and (payload is not None or "id" in options or "key" in options):
        raise UsageError("--from takes its payloads from the file, so JSON, --id and --key do not go with it")
    app = _app(session, task, by_name=by_name)
    if app.config.url.startswith("memory:"):
        raise UsageError(
            "jobs in memory:// are gone when this command ends; name a store that lasts with --url, such as "
            "sqlite:///redrive.db"
        )
    session.listen()
    if source is None:
        return session.run(_one(app, task, _text(payload), options, as_json))
    with _opened(source) as file:
        return session.run(Filling(app, task, options, as_json).run(file, source))


def _app(session: Session, task: str, *, by_name: bool) -> "Redrive":
    from redrive.app import Redrive

    if by_name or not session.named_app:
        return Redrive(config=session.config, store=session.store())
    app = session.app()
    if app.registry.get(task) is None:
        known = list(app.registry.names()) or ["none"]
        raise UnknownTask(f"{unknown('task', task, known)} (--by-name adds it for an app elsewhere)")
    return app


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options as `using` takes them."""
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if "at" in options:
        options["at"] = read_moment(options["at"], "--at")
    if "expires" in options:
        options["expires"] = _expiry(options["expires"])
    if "headers" in options:
        options["headers"] = dict(map(_header, options["headers"]))
    return options


def _expiry(text: str) -> Any:
    try:
        micros(text)
    except ValueError:
        return read_moment(text, "--expires")
    return text


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text!r} is not a header; write name=value")
    return name, value


def _text(payload: str | None) -> bytes:
    if payload == "-":
        return sys.stdin.buffer.read()
    return (payload if payload is not None else NO_PAYLOAD).encode(errors="surrogateescape")


def _value(text: bytes) -> Any:
    try:
        return decode(text)
    except BadPayload as error:
        raise BadPayload(f'{error}; write one JSON value, such as \'{{"to": "a@b.c"}}\'') from None


def _opened(source: str) -> Any:
    if source == "-":
        return click.open_file("-", "rb")
    try:
        return Path(source).open("rb")
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else UsageError
        raise kind(f"{source} cannot be read: {error.strerror}; nothing was enqueued") from None


async def _one(app: "Redrive", task: str, text: bytes, options: dict[str, Any], as_json: bool) -> int:
    job = app.client.named(task, _value(text), Options.checked(options))  # `app.job` would take null for nothing
    try:
        enqueued = await app.client.aenqueue_one(job)
        url = app.store.url
    finally:
        await app.aclose()
    if as_json:
        emit({"id": enqueued.id, "created": enqueued.created, "task": job.task, "queue": job.queue})
    else:
        show(enqueued.id)
    if not enqueued.created:
        say(f"job {enqueued.id[-8:]} was there already ({enqueued.state}); nothing was added to {url}")
    elif not as_json:
        say(f"enqueued job {enqueued.id[-8:]} {job.task} on queue {job.queue} of {url}")
    return 0

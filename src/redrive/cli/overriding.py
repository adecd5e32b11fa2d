"""What `redrive dlq retry` may say otherwise than the tasks and payloads do."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from redrive.cli.options import at_least
from redrive.cli.repairing import read_patch
from redrive.redrives import Options

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--reset-attempts/--keep-attempts", default=True, help="Whether attempts count from zero."),
    click.option("--max-retries", metavar="N", type=at_least(1), help="Another limit of attempts; 1 is once."),
    click.option(
        "--strategy",
        metavar="NAME",
        help="exponential, linear, fixed, immediate, delays, or a [retry.NAME] of the project file.",
    ),
    click.option(
        "--base", metavar="TIME", help="The first delay, of fixed each one; of delays the list: 5,30,120 (seconds)."
    ),
    click.option("--max-delay", metavar="TIME", help="The longest delay of exponential and linear."),
    click.option("--timeout", metavar="TIME", help="How long each attempt may take."),
    click.option(
        "--set", "settings", metavar="PLACE=VALUE", multiple=True, help="Change each payload: payload.limit=5."
    ),
    click.option("--patch", metavar="FILE", help="Change each payload by a JSON Patch (RFC 6902); - is stdin."),
    click.option("--priority", metavar="P", help="Another priority: low, normal, high or 0 to 9."),
    click.option("--to-queue", metavar="QUEUE", help="Send the jobs there instead of to their own queue."),
)


def override_options(command: F) -> F:
    """How the jobs are retried, and with what."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def overrides_of(given: dict[str, Any]) -> Options:
    """What was said of it; what was not is as the tasks say."""
    return Options(
        keep_attempts=not given["reset_attempts"],
        max_attempts=given["max_retries"],
        strategy=given["strategy"],
        base=given["base"],
        max_delay=given["max_delay"],
        timeout=given["timeout"],
        set=given["settings"],
        patch=None if given["patch"] is None else read_patch(given["patch"]),
        priority=given["priority"],
        queue=given["to_queue"],
    )

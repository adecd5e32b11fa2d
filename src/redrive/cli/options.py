"""Options that commands share: the global ones, which may stand anywhere on the line, and `--json`."""

from collections.abc import Callable
from math import inf
from typing import Any, TypeVar

import click

from redrive.cli.session import Session

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)

pass_session = click.make_pass_decorator(Session)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one value per line.")


def _all_of(ctx: click.Context, param: click.Parameter, typed: tuple[str, ...]) -> str:
    """Several filters are one that means what all of them mean."""
    given = [each for each in typed if each.strip()]
    return " and ".join(f"({each})" for each in given) if len(given) > 1 else "".join(given)


filter_option = click.option(
    "--filter",
    "filter",
    metavar="EXPR",
    multiple=True,
    callback=_all_of,
    help="Only these, such as 'reason = timeout'; several are joined by and.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do it without asking.")


def at_least(least: N) -> Callable[[Any], N]:
    """Reads a number that is not too small; a whole one if `least` is."""
    kind, article = type(least), "a whole number" if isinstance(least, int) else "a number"

    def read(typed: Any) -> N:
        try:
            number = kind(typed)
        except ValueError:
            number = None
        if number is None or not least <= number < inf:
            raise click.BadParameter(f"{str(typed)!r} is not {article} of at least {least:g}")
        return number

    return read


def global_options(*, hidden: bool = False) -> list[click.Option]:
    """The options of the whole program; commands take them too, without listing them again."""
    return [
        _given("--url", "url", "URL", "The store, such as sqlite:///redrive.db.", hidden),
        _given("--app", "app", "MODULE:APP", "The app whose tasks and store to use.", hidden),
        _given("--config", "config", "FILE", "The project file, instead of the nearest redrive.toml.", hidden),
        _given("--log-level", "log.level", "LEVEL", "debug, info, warning, error or critical.", hidden),
        _given("--log-format", "log.format", "FORMAT", "text, or json for one object per line.", hidden),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, hidden=hidden, help="Show the traceback of an error."
        ),
    ]


def _given(flag: str, key: str, metavar: str, help: str, hidden: bool) -> click.Option:
    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.find_object(Session).give(key, value)  # type: ignore[union-attr]  # the root makes one

    return click.Option([flag], expose_value=False, hidden=hidden, callback=keep, help=help, metavar=metavar)


class Verb(click.Command):
    """A command that takes the global options too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += global_options(hidden=True)

"""Commands that are imported when they are typed, so that `redrive --help` stays quick."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows its commands by module and one line of help; each module has a `command`."""

    def __init__(
        self, *args: Any, lazy: Mapping[str, tuple[str, str]], hidden: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self._modules = {name: module for name, (module, _) in lazy.items()} | dict(hidden)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        command: click.Command = import_module(self._modules[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._modules and not name.startswith("-"):
            raise click.UsageError(unknown("command", name, list(self.lazy)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self.lazy.items()])


class Group(click.Group):
    """A noun with its verbs, in the order in which they were written."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(unknown("command", args[0], list(self.commands)), ctx)
        return super().resolve_command(ctx, args)


def unknown(what: str, name: str, known: list[str]) -> str:
    """`there is no command jbs, did you mean jobs?`, or all that there are."""
    near = difflib.get_close_matches(name, known, 1)
    return f"there is no {what} {name!r}" + (
        f", did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
    )

"""Commands that are imported when they are typed, so that `redrive --help` stays quick."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows its commands by where they are and one line of help, in sections.

    A place is a module with a `command`, `module:name`, or empty where the command was added to the group.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, tuple[str, str]]],
        hidden: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.lazy = {name: entry for section in sections.values() for name, entry in section.items()}
        self._places = {name: place for name, (place, _) in self.lazy.items() if place} | dict(hidden)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._places[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._places and name not in self.commands and not name.startswith("-"):
            raise click.UsageError(unknown("command", name, list(self.lazy)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.lazy))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help) for name, (_, help) in section.items()])


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

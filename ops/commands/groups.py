"""Groups of commands whose `list` is meant where no other is named: `backscroll chats --json`."""

import typer
from typer.core import TyperGroup


class ListByDefault(TyperGroup):
    """Takes `list` for what is left out; asked for help, it tells of all its commands."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """The arguments, with the command that they are meant for."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

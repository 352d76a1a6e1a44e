"""The command `backscroll`: finds its subcommands, and turns errors into one message and an exit code.

Each subcommand is a `typer.Typer` called `app`, or with its name before, in a module that is imported only when it is
called, so that no command waits for another's libraries.
"""

import ast
import errno
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import structlog
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from ops import exit_codes
from ops.console.rendering import plain
from schemas.base import did_you_mean
from schemas.errors import BackscrollError

# Names of the commands and the modules of their `app`, in the order of the help.
COMMANDS = {
    "up": "ops.commands.up",
    "import": "ops.commands.import_",
    "context": "ops.commands.context",
    "search": "ops.commands.search",
    "more": "ops.commands.search",
    "digest": "ops.commands.digests",
    "digests": "ops.commands.digests",
    "chats": "ops.commands.chats",
    "sessions": "ops.commands.sessions",
    "queries": "ops.commands.search",
    "users": "ops.commands.users",
    "tenant": "ops.commands.chats",
    "keys": "ops.commands.keys",
    "documents": "ops.commands.documents",
    "memories": "ops.commands.memories",
    "entities": "ops.commands.users",
    "topics": "ops.commands.sessions",
    "status": "ops.commands.status",
    "cost": "ops.commands.status",
    "backfills": "ops.commands.backfills",
    "spaces": "ops.commands.spaces",
    "jobs": "ops.commands.jobs",
    "doctor": "ops.commands.doctor",
    "sources": "ops.commands.keys",
    "model": "ops.commands.model",
    "backup": "ops.commands.db",
    "restore": "ops.commands.db",
    "prune": "ops.commands.db",
    "forget": "ops.commands.forget",
    "export": "ops.commands.export",
    "remember": "ops.commands.users",
    "db": "ops.commands.db",
    "worker": "ops.commands.serve",
    "beat": "ops.commands.serve",
    "api": "ops.commands.serve",
    "metrics": "ops.commands.serve",
    "mcp": "ops.commands.serve",
}
_CANNOT_BE_WRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
# A checkout has the developers' tools; the installed package leaves them out.
if importlib.util.find_spec("ops.dev") is not None:
    COMMANDS["dev"] = "ops.dev.commands"

EPILOG = f"""\
{exit_codes.MEANINGS}
**Settings** are read from `BACKSCROLL_…` in the environment, from `.env` in the working directory, and from
the file that `BACKSCROLL_CONFIG` names.
"""


class Commands(TyperGroup):
    """The subcommands of `COMMANDS`, each imported at its first use; listing imports none."""

    listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or name the nearest to an unknown one, without importing any."""
        if args[0] == "dev" not in COMMANDS:
            ctx.fail("`backscroll dev` is not part of the installed package: run it from a checkout.")
        if args[0] not in COMMANDS and (nearest := did_you_mean(args[0], COMMANDS)):
            ctx.fail(f"No such command {args[0]!r}: {nearest}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self.listing:
            return TyperCommand(cmd_name, help=_help_of(cmd_name))
        module = vars(importlib.import_module(COMMANDS[cmd_name]))
        command = typer.main.get_command(module.get(f"{cmd_name}_app") or module["app"])
        command.name = cmd_name
        # completion is installed for all commands at once, if at all
        command.params = [
            p for p in command.params if p.name not in ("install_completion", "show_completion")
        ]
        _complete_epilog(command)
        return command


def _help_of(command: str) -> str:
    """Read the help of a command, or of a group that is a module, from its source, without running it."""
    spec = importlib.util.find_spec(COMMANDS[command])
    tree = ast.parse(Path(spec.origin).read_bytes() if spec and spec.origin else b"")
    functions = {node.name.rstrip("_"): node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return ast.get_docstring(functions.get(command, tree)) or ""


def _complete_epilog(command: Any) -> None:
    """Add the exit codes to the help of a command and of all below it, and to a group the example of its first."""
    below = list(getattr(command, "commands", {}).values())
    for subcommand in below:
        _complete_epilog(subcommand)
    if not command.epilog:
        command.epilog = below[0].epilog
    elif "**Exit codes:**" not in command.epilog:
        command.epilog += "\n\n**Exit codes:** see `backscroll --help`."


app = typer.Typer(
    cls=Commands,
    name="backscroll",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"backscroll {importlib.metadata.version('backscroll')}")
        raise typer.Exit


@app.callback()
def backscroll(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Long-term conversation memory for chat bots.

    **Begin with:**  backscroll up --demo
    """
    # standard output is for results, and success needs no log
    structlog.configure(
        logger_factory=_log_to_stderr, wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )


def _log_to_stderr(*_: Any) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)


def main() -> None:
    """Run the command line and exit."""
    try:
        app(prog_name="backscroll")
    except BackscrollError as error:
        message = str(error) or type(error).__doc__ or type(error).__name__
        Console(stderr=True, soft_wrap=True, highlight=False).print("[bold red]Error:[/]", end=" ")
        # not through rich: messages hold paths and brackets, and are copied
        print(plain(message), file=sys.stderr)
        sys.exit(exit_codes.of(error))
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output has closed it
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - anything else is a defect
        if isinstance(error, OSError) and error.errno in _CANNOT_BE_WRITTEN:
            # nor can at the end what is left in the buffer
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print(
                plain(f"Error: {error.filename or 'the output'} cannot be written: {error.strerror}"),
                file=sys.stderr,
            )
            sys.exit(exit_codes.FAILED)
        print(plain(traceback.format_exc()), end="", file=sys.stderr)
        print("This is a defect in Backscroll: please report it with the lines above.", file=sys.stderr)
        sys.exit(exit_codes.DEFECT)


if __name__ == "__main__":
    main()

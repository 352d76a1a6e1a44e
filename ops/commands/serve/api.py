"""`backscroll api`: the HTTP API, in the foreground."""

from typing import Annotated

import typer

from ops import connection
from ops.commands.serve.worker import run_instead
from ops.console.options import DataDirOption
from schemas.errors import SettingsError

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Example:** BACKSCROLL_API_KEY=… BACKSCROLL_DATABASE_URL=… backscroll api --host 0.0.0.0"
)
def api(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: BACKSCROLL_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on (default: BACKSCROLL_PORT).")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=16,
            help="Processes (default: BACKSCROLL_API_PROCESSES, else two if there are as many cores).",
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run the HTTP API in the foreground: messages in, contexts out.

    It needs the database as the role that sees one tenant at a time, and Redis to wake the workers. Put a proxy with
    TLS in front of it if it listens on more than the loopback address.
    """
    from ops.local.processes import api_command

    settings = connection.open_stack(data_dir)
    if settings.api_key is None:
        raise SettingsError("BACKSCROLL_API_KEY is not set: the HTTP API refuses requests without a key")
    chosen = settings.model_copy(
        update={
            "host": host or settings.host,
            "port": port or settings.port,
            "api_processes": processes or settings.api_processes,
        }
    )
    run_instead(chosen, api_command(chosen))

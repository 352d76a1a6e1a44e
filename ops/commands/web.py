"""`backscroll web`: the HTTP door, in the foreground."""

from typing import Annotated

import typer

from ops import connection
from ops.commands.worker import run_instead
from ops.connection import DataDirOption
from schemas.errors import SettingsError

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Example:** BACKSCROLL_API_KEY=… BACKSCROLL_DATABASE_URL=… backscroll web --host 0.0.0.0"
)
def web(
    host: Annotated[
        str | None, typer.Option(help="Where to listen; default: BACKSCROLL_HOST.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Where to listen; default: BACKSCROLL_PORT.", show_default=False),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=16,
            help="How many serve; default: BACKSCROLL_WEB_PROCESSES, else two where there are as many cores.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run the HTTP door in the foreground: messages in, contexts out.

    It needs the database as the role that sees one tenant at a time, and Redis to hint the workers. Put a
    proxy with TLS before it where it listens to more than this machine.
    """
    from ops.processes import web_command

    settings = connection.open_stack(data_dir)
    if settings.api_key is None:
        raise SettingsError(
            "BACKSCROLL_API_KEY is not set: without one, nobody could tell whose request it is"
        )
    chosen = settings.model_copy(
        update={
            "host": host or settings.host,
            "port": port or settings.port,
            "web_processes": processes or settings.web_processes,
        }
    )
    run_instead(chosen, web_command(chosen))

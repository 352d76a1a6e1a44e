"""`backscroll beat`: the clock of sweeps and pruning, in the foreground."""

import typer

from ops import connection
from ops.commands.serve.worker import run_instead
from ops.console.options import DataDirOption

app = typer.Typer(rich_markup_mode="markdown")


@app.command(epilog="**Example:** BACKSCROLL_REDIS_URL=redis://… backscroll beat")
def beat(data_dir: DataDirOption = None) -> None:
    """Run the clock in the foreground: it asks a worker of **sweep** to sweep and one of **backfill** to prune.

    One is enough for a whole deployment, and a second one does no harm. Without one, idle sessions are never closed
    and lost wake-ups never made up for. Its schedule is in the data folder; without it everything is due at the start.
    """
    from ops.local.embedded.folder import explained
    from ops.local.processes import beat_command

    settings = connection.open_stack(data_dir)
    with explained(settings.data_dir):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_instead(settings, beat_command(settings.data_dir))

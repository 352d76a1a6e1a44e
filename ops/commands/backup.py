"""`backscroll backup`: the whole database in one file, while it is in use."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.commands import rendering
from ops.commands.rendering import JsonOption
from ops.commands.steps import steps
from ops.connection import DataDirOption
from schemas.errors import InvalidInput

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll backup backscroll.dump · backscroll backup /mnt/nas/$(date +%F).dump · "
    "backscroll backup latest.dump --overwrite"
)
def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Write the whole database into one file, all tenants, while Backscroll runs or not.

    It holds all that Backscroll keeps but the API key, the passwords and what waits in Redis. It is as it was at one
    moment; the file appears when it is complete. Of a Postgres of your own it takes
    **BACKSCROLL_BACKUP_DATABASE_URL**.
    """
    from ops.backup import back_up

    target = file.absolute()
    if target.is_dir():
        raise InvalidInput(f"{file} is a folder: name a file in it", field="file")
    if target.exists() and not (overwrite and target.is_file()):
        raise InvalidInput(
            f"{file} is there already: name another file, or replace it with --overwrite", field="file"
        )
    began = time.monotonic()
    with steps("Backing up", shown=not as_json) as tell:
        size = back_up(connection.configured(data_dir), target, tell)
    seconds = time.monotonic() - began
    if as_json:
        rendering.print_json({"file": str(target), "bytes": size, "seconds": round(seconds, 1)})
    else:
        print(
            f"{file}: {rendering.size(size)} in {seconds:.1f} s. Read it back with: backscroll restore {file}"
        )

"""`backscroll backup`: the whole database in one file, while it is in use."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.console import rendering
from ops.console.options import DataDirOption, JsonOption
from schemas.errors import InvalidInput

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll backup backscroll.dump · backscroll backup /mnt/nas/$(date +%F).dump · "
    "backscroll backup latest.dump --overwrite"
)
def backup(
    file: Annotated[Path, typer.Argument(help="File to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Write the whole database, with all tenants, into one file, whether Backscroll runs or not.

    It holds everything that Backscroll keeps but the API key, the passwords and what waits in Redis. It is a snapshot
    of one moment; the file appears when it is complete. A Postgres of your own needs
    **BACKSCROLL_BACKUP_DATABASE_URL**.
    """
    from ops.local.backup import back_up

    target = file.absolute()
    if target.is_dir():
        raise InvalidInput(f"{file} is a folder: name a file in it", field="file")
    if target.exists() and not (overwrite and target.is_file()):
        raise InvalidInput(
            f"{file} exists already: name another file, or replace it with --overwrite", field="file"
        )
    began = time.monotonic()
    with rendering.patience("Backing up", shown=not as_json) as tell:
        size = back_up(connection.configured(data_dir), target, tell)
    seconds = time.monotonic() - began
    if as_json:
        rendering.print_json({"file": str(target), "bytes": size, "seconds": round(seconds, 1)})
    else:
        print(
            f"{file}: {rendering.size(size)} in {seconds:.1f} s. Restore it with: backscroll restore {file}"
        )

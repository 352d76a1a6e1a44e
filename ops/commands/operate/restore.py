"""`backscroll restore`: the data folder's database replaced by a backup."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.console import rendering
from ops.console.options import DataDirOption, JsonOption

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll restore backscroll.dump --data-dir ~/restored · "
    "backscroll restore backscroll.dump --replace"
)
def restore(
    file: Annotated[Path, typer.Argument(help="File that `backscroll backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a database that has messages: they are deleted.")
    ] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Replace the database of the data folder by a backup. `backscroll up` must not run meanwhile.

    A wrong or damaged file, and one of a newer version, is refused before anything changes; tables of an older
    version are migrated. The former database is deleted when the backup has been read back; until then there must be
    space for both. What was forgotten since the backup is there again: forget it again.
    """
    from ops.local import backup

    began = time.monotonic()
    with rendering.patience("Restoring", shown=not as_json) as tell:
        found = backup.restore(connection.configured(data_dir), file.absolute(), replace=replace, tell=tell)
    seconds = time.monotonic() - began
    if as_json:
        rendering.print_json({**vars(found), "seconds": round(seconds, 1)})
        return
    start = ["backscroll", "up"]
    if data_dir is not None:
        start += ["--data-dir", str(data_dir.absolute())]
    print(
        f"Restored and read back in {seconds:.1f} s: {found.messages:,} messages and {found.sessions:,} sessions in "
        f"{found.chats:,} chats of {found.tenants:,} tenants, at migration {found.migration}. "
        f"Start it with: {shlex.join(start)}"
    )

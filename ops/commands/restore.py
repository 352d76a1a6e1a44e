"""`backscroll restore`: a backup put in the place of the data folder's database."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.commands import rendering
from ops.commands.rendering import JsonOption
from ops.commands.steps import steps
from ops.connection import DataDirOption

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll restore backscroll.dump --data-dir ~/restored · "
    "backscroll restore backscroll.dump --replace"
)
def restore(
    file: Annotated[Path, typer.Argument(help="What `backscroll backup` wrote.", show_default=False)],
    replace: Annotated[
        bool, typer.Option("--replace", help="Also where there are messages: they are gone then.")
    ] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Let the database of the data folder be what a backup holds. `backscroll up` must not run meanwhile.

    A wrong or damaged file, and one of a newer version, is refused before anything is changed; of an older one the
    tables are brought up to date. What was there goes when the backup has been read back; until then there must be
    room for both. What was forgotten since the backup is there again: forget it again.
    """
    from ops.backup import restore as put_back

    began = time.monotonic()
    with steps("Restoring", shown=not as_json) as tell:
        found = put_back(connection.configured(data_dir), file.absolute(), replace=replace, tell=tell)
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

"""`backscroll backup` and `restore`: the whole database in one file."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import command
from ops.console.options import DataDirOption, JsonOption
from schemas.errors import InvalidInput

backup_app = typer.Typer(rich_markup_mode="markdown")
restore_app = typer.Typer(rich_markup_mode="markdown")


@command(backup_app, "backscroll backup backscroll.dump")
def backup(
    file: Annotated[Path, "File to write."],
    overwrite: Annotated[bool, "Replace an existing file."] = False,
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


@command(restore_app, "backscroll restore backscroll.dump --data-dir ~/restored")
def restore(
    file: Annotated[Path, "File that `backscroll backup` wrote."],
    replace: Annotated[bool, "Replace a database that has messages: they are deleted."] = False,
    forgotten: Annotated[
        Path | None,
        "What was forgotten since, as `backscroll forget export` wrote it: it is forgotten again.",
    ] = None,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Replace the database of the data folder by a backup. `backscroll up` must not run meanwhile.

    A wrong or damaged file, and one of a newer version, is refused before anything changes; tables of an older
    version are migrated. The former database is deleted when the backup has been read back; until then there must be
    space for both. What was forgotten since is forgotten again, as far as it is known: by the suppression list of
    the former database, or by a file with **--forgotten**.
    """
    from ops.commands.data.forget import read_forgotten
    from ops.local import backup as local_backup

    began = time.monotonic()
    with rendering.patience("Restoring", shown=not as_json) as tell:
        result = local_backup.restore(
            connection.configured(data_dir),
            file.absolute(),
            replace=replace,
            tell=tell,
            later=[] if forgotten is None else read_forgotten(forgotten),
        )
    seconds = time.monotonic() - began
    if as_json:
        rendering.print_json({**vars(result), "seconds": round(seconds, 1)})
        return
    start = ["backscroll", "up"]
    if data_dir is not None:
        start += ["--data-dir", str(data_dir.absolute())]
    since = (
        "What was forgotten after the backup is there again: nothing here says what it was (--forgotten)."
        if result.suppressed is None
        else f"What was forgotten since was looked up in it by {result.suppressed:,} entries of the suppression list: "
        f"{result.forgotten_again:,} were there, and are forgotten again."
    )
    print(
        f"Restored and read back in {seconds:.1f} s: {result.messages:,} messages and {result.sessions:,} sessions in "
        f"{result.chats:,} chats of {result.tenants:,} tenants, at migration {result.migration}. {since} "
        f"Start it with: {shlex.join(start)}"
    )

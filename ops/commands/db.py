"""Create, migrate, show and empty the database's tables, and create its roles."""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import Call, DataDirOption, DryRunOption, JsonOption, YesOption, command
from schemas.errors import InvalidInput, SettingsError
from schemas.server_urls import addresses, postgres_parameters
from schemas.settings import Settings

if TYPE_CHECKING:
    from ops.local.embedded.roles import LoginRole
    from ops.local.migrate import DatabaseState


app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode="markdown")
SUPERUSER_HELP = "URL of a superuser, or of a role with CREATEROLE, CREATEDB and BYPASSRLS."
# The setting of each role's URL.
SETTING_OF: dict[LoginRole, str] = {
    "app": "",
    "maintenance": "MAINTENANCE_",
    "owner": "OWNER_",
    "backup": "BACKUP_",
}


@command(app, "BACKSCROLL_OWNER_DATABASE_URL=postgresql://… backscroll db upgrade")
def upgrade(
    partitions: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1024,
            help="Partitions of messages and vectors, before there are any; 32 for 100 million.",
        ),
    ] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply the missing migrations, and register the embedding space.

    Runs as the owner of the tables (**BACKSCROLL_OWNER_DATABASE_URL**). Does nothing if nothing is missing; adds the
    vector tables if pgvector was installed since.
    """
    from ops.local import migrate

    settings = connection.open_stack(data_dir)
    url = _owner_url(settings)
    _show(migrate.upgrade(url, migrate.configured_space(settings, migrate.state(url)), partitions), as_json)


@command(app, "backscroll db reset --yes")
def reset(
    yes: YesOption = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete all chats, messages and memories of all tenants, and create the tables again."""
    from ops.local import migrate

    settings = connection.open_stack(data_dir)
    url = _owner_url(settings)
    if not yes:
        typer.confirm(
            "This deletes everything that Backscroll keeps in this database. Go on?", abort=True, err=True
        )
    _show(migrate.reset(url, migrate.configured_space(settings)), as_json)


@command(app, "backscroll db status --json")
def status(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show the migration of the database, and whether it can store vectors."""
    from ops.local import migrate

    settings = connection.open_stack(data_dir)
    _show(migrate.state(_owner_url(settings)), as_json)


@command(app, "backscroll db roles postgresql://postgres:secret@db.example.org/postgres > .env")
def roles(
    superuser_url: Annotated[str, typer.Argument(help=SUPERUSER_HELP, envvar="BACKSCROLL_SUPERUSER_URL")],
    database: Annotated[str, "Database to create."] = "backscroll",
    passwords_file: Annotated[Path | None, "JSON with each role's password (default: random)."] = None,
) -> None:
    """Create database, roles and extension on a Postgres of your own, and print the settings to use them.

    Run again, it corrects what is there and changes the passwords to the new ones.
    """
    from ops.local.embedded.roles import LOGIN_ROLES, provision, role_name

    passwords = {role: secrets.token_urlsafe(24) for role in LOGIN_ROLES}
    if passwords_file is not None:
        try:
            passwords = json.loads(passwords_file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--passwords-file {passwords_file} cannot be read as JSON: {error}", field="passwords_file"
            ) from error
    try:
        server = postgres_parameters(superuser_url)
    except ValueError as error:
        raise SettingsError(f"SUPERUSER_URL {error}") from None
    made = provision(superuser_url, passwords=passwords, database=database)
    for role, setting in SETTING_OF.items():
        url = role_url(server, role_name(role), passwords[role], database)
        print(f"BACKSCROLL_{setting}DATABASE_URL={url}")
    vectors = f"pgvector {made.vector_version}" if made.vector_version else "only keyword search"
    rendering.err().print(f"Postgres {made.server_version}, {vectors}. Next: backscroll db upgrade")


def role_url(server: Mapping[str, Any], user: str, password: str, database: str) -> str:
    """Make the URL of a database at a server (given as libpq's parameters) for one user.

    >>> role_url({"host": "db.example.org", "port": "6432", "sslmode": "require"}, "app", "a/b", "backscroll")
    'postgresql://app:a%2Fb@db.example.org:6432/backscroll?sslmode=require'
    >>> role_url({"host": "/run/postgresql"}, "app", "secret", "backscroll")
    'postgresql://app:secret@/backscroll?host=%2Frun%2Fpostgresql&port=5432'
    """
    kept = ("sslmode", "sslrootcert", "target_session_attrs")
    parameters = {name: server[name] for name in kept if name in server}
    address, host = addresses(server), str(server.get("host"))
    if host.startswith("/"):
        parameters = {"host": host, "port": server.get("port") or 5432} | parameters
        address = ""
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"postgresql://{user}:{quote(password, safe='')}@{address}/{quote(database, safe='')}{query}"


def _owner_url(settings: Settings) -> str:
    return connection.owner_url(settings, "the owner creates the tables")


def _show(state: DatabaseState, as_json: bool) -> None:
    if as_json:
        rendering.print_json(asdict(state) | {"spaces": dict(state.spaces)})
        return
    done = "up to date" if state.found == state.newest else "run `backscroll db upgrade`"
    print(f"migration   {state.found or 'none'} of {state.newest} ({done})")
    print(f"pgvector    {state.pgvector or 'not installed: only keyword search'}")
    if state.pgvector and not state.vector_tables:
        print("            its tables are missing: run `backscroll db upgrade`")
    for name, status in state.spaces:
        print(f"embeddings  {name} ({status})")


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
    from ops.commands.forget import read_forgotten
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


prune_app = typer.Typer(rich_markup_mode="markdown")


@command(prune_app, "backscroll prune --dry-run")
def prune(call: Call, dry_run: DryRunOption = False) -> None:
    """Delete what has expired: messages by age and number (off by default), memories, old pointers.

    Workers do the same every hour. Deletes in small transactions, at most 50,000 rows by each rule in one run.
    Sessions and summaries keep what they say of pruned messages.
    """
    from pipeline.operations import retention as pipeline_prune

    with call.opened(judges=True) as (settings, database):
        keep = pipeline_prune.retention_of(settings)
        counted = pipeline_prune.prune(database, settings.tenant, keep, dry_run=dry_run)
    words = keep.in_words()
    rules = [{"rule": rule, "what": what, "rows": counted.get(rule, 0)} for rule, what in words.items()]
    heading = "would be deleted" if dry_run else "deleted"
    # a rule that is off has no number
    cells = [(rule, what, counted.get(rule, "")) for rule, what in words.items()]
    more = any(count >= pipeline_prune.MAX_ROWS for count in counted.values())
    call.answer(
        {"dry_run": dry_run, "rules": rules, "rows": sum(counted.values())},
        rendering.rows(("rule", "what", heading), cells, right=(heading,)),
        *(["\nThere is more than one run deletes: run it again."] if more else []),
    )

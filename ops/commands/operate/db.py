"""Create, migrate, show and empty the database's tables, and create its roles."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import command
from ops.console.options import DataDirOption, JsonOption, YesOption
from schemas.errors import InvalidInput, SettingsError
from schemas.server_urls import postgres_parameters
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
def upgrade(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Apply the missing migrations, and register the embedding space.

    Runs as the owner of the tables (**BACKSCROLL_OWNER_DATABASE_URL**). Does nothing if nothing is missing; adds the
    vector tables if pgvector was installed since.
    """
    from ops.local import migrate

    settings = connection.open_stack(data_dir)
    url = _owner_url(settings)
    _show(migrate.upgrade(url, migrate.configured_space(settings, migrate.state(url))), as_json)


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
    host, port = str(server.get("host") or "localhost"), server.get("port") or 5432
    parameters = {name: server[name] for name in ("sslmode", "sslrootcert") if name in server}
    if host.startswith("/"):
        parameters = {"host": host, "port": port} | parameters
        address = ""
    else:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"postgresql://{user}:{quote(password, safe='')}@{address}/{quote(database, safe='')}{query}"


def _owner_url(settings: Settings) -> str:
    if settings.owner_database_url is None:
        raise SettingsError(
            "BACKSCROLL_OWNER_DATABASE_URL is not set: the owner creates the tables (see `backscroll db roles`)"
        )
    return settings.owner_database_url.get_secret_value()


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

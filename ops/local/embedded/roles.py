"""Prepare a Postgres for Backscroll: the database, its roles, and the extension; may be repeated.

    backscroll_owner        logs in; owns the database, its schema and tables: migrations, index builds
    backscroll_app          logs in; sees one tenant at a time (row-level security)
    backscroll_maintenance  logs in; claims jobs of all tenants, by what migrations grant it
    backscroll_backup       logs in; reads everything, past row-level security, for pg_dump
    backscroll_search       does not log in; owns the keyword search's SECURITY DEFINER function, which looks
                            past row-level security, so that the index is used, and checks the tenant itself

None of them is a superuser or may create roles or databases. The same statements prepare the embedded server and, by
`backscroll db roles`, one of the operator's own: as a superuser, or as a managed server's administrator who may create
roles and grant BYPASSRLS.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from schemas.errors import DatabaseUnavailable, Permanent

LoginRole = Literal["owner", "app", "maintenance", "backup"]
LOGIN_ROLES: tuple[LoginRole, ...] = get_args(LoginRole)
DATABASE = "backscroll"
# Held while roles are created, so that two processes do not collide; an arbitrary constant.
ADVISORY_LOCK = 0x6261636B

# What no role of ours may have. A login that is no superuser may state only the attributes that it has itself.
DENIED = ("SUPERUSER", "CREATEDB", "REPLICATION")


class ProvisioningFailed(Permanent):
    """The Postgres cannot be prepared: it is too old, the login has too few rights, or the database is unsuitable."""


@dataclass(frozen=True, kw_only=True)
class RoleNames:
    """The names of the roles."""

    owner: str = "backscroll_owner"
    app: str = "backscroll_app"
    maintenance: str = "backscroll_maintenance"
    backup: str = "backscroll_backup"
    search: str = "backscroll_search"


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """The prepared server. Without pgvector there is only keyword search."""

    server_version: str
    vector_version: str | None


def provision(
    superuser_dsn: str,
    *,
    passwords: Mapping[LoginRole, str],
    database: str = DATABASE,
    names: RoleNames | None = None,
) -> Provisioned:
    """Create or correct the database, the roles with these passwords, and their rights.

    `superuser_dsn` may name any database of the server; `passwords` has one for each role that logs in, and replaces
    its former one. Passwords are hashed here and never reach the server's log. Raises `DatabaseUnavailable` if the
    server cannot be reached and `ProvisioningFailed` if it is unsuitable.
    """
    names = names or RoleNames()
    _check(passwords, names)
    try:
        with psycopg.connect(superuser_dsn, autocommit=True, connect_timeout=10) as server:
            _require_administrator(server)
            server.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
            _make_roles(server, names, passwords)
            _make_database(server, names, database)
            with psycopg.connect(make_conninfo(superuser_dsn, dbname=database), connect_timeout=10) as inside:
                _grant(inside, names)
                return Provisioned(
                    server_version=inside.execute("SHOW server_version").fetchall()[0][0],
                    vector_version=_make_extension(inside),
                )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"Postgres cannot be reached to prepare it: {error}") from error
    except psycopg.DatabaseError as error:
        raise ProvisioningFailed(f"Postgres refused to be prepared: {error}") from error


def _check(passwords: Mapping[LoginRole, str], names: RoleNames) -> None:
    missing = [role for role in LOGIN_ROLES if not passwords.get(role)]
    if missing:
        raise ProvisioningFailed(f"There is no password for: {', '.join(missing)}.")
    chosen = [getattr(names, field.name) for field in fields(names)]
    if len(set(chosen)) != len(chosen):
        raise ProvisioningFailed(f"Each role needs a name of its own, not {', '.join(chosen)}.")


def _require_administrator(server: psycopg.Connection) -> None:
    if server.info.server_version < 160000:
        raise ProvisioningFailed(
            f"Backscroll needs Postgres 16 or newer, not {server.info.server_version // 10000}."
        )
    row = server.execute(
        "SELECT rolsuper OR rolcreaterole AND rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    if row is None or not row[0]:
        raise ProvisioningFailed(
            f"{server.info.user} is not a superuser, and has not both CREATEROLE and BYPASSRLS. Two of the roles "
            "look past row-level security, which only such a login can give: name the URL of one."
        )


def _make_roles(server: psycopg.Connection, names: RoleNames, passwords: Mapping[LoginRole, str]) -> None:
    """Every attribute is stated, so that a role which was given too much before is put right."""
    for field in fields(names):
        name = getattr(names, field.name)
        if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
            server.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    plain = _plain(server, [getattr(names, field.name) for field in fields(names)])
    for login in LOGIN_ROLES:
        name = getattr(names, login)
        secret = server.pgconn.encrypt_password(passwords[login].encode(), name.encode(), b"scram-sha-256")
        bypass = "BYPASSRLS" if login == "backup" else "NOBYPASSRLS"
        server.execute(
            sql.SQL(f"ALTER ROLE {{}} LOGIN {plain} {bypass} PASSWORD {{}}").format(
                sql.Identifier(name), sql.Literal(secret.decode())
            )
        )
    owner, app, maintenance, search = (
        sql.Identifier(name) for name in (names.owner, names.app, names.maintenance, names.search)
    )
    server.execute(sql.SQL(f"ALTER ROLE {{}} NOLOGIN {plain} BYPASSRLS PASSWORD NULL").format(search))
    server.execute(sql.SQL("GRANT {} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE").format(owner))
    # so that the owner can create the search function and hand it over
    server.execute(sql.SQL("GRANT {} TO {}").format(search, owner))
    for role in (app, maintenance):
        # a stopped process must release its locks; the owner's index builds and dumps may take longer
        server.execute(sql.SQL("ALTER ROLE {} SET idle_in_transaction_session_timeout = '10s'").format(role))
    for granted, member in server.execute(
        "SELECT roleid::regrole::text, member::regrole::text FROM pg_auth_members"
        " WHERE member IN (SELECT oid FROM pg_roles WHERE rolname = ANY(%s))",
        [[names.app, names.maintenance]],
    ).fetchall():
        # a membership would give them the rights of another role; both names are quoted already
        server.execute(sql.SQL(f"REVOKE {granted} FROM {member}"))


def _plain(server: psycopg.Connection, roles: Sequence[str]) -> str:
    """List the attributes that deny our roles what they must not do, as far as this login may state them.

    Raises `ProvisioningFailed` if a role has an attribute that the login may not take away.
    """
    rows = server.execute(
        "SELECT rolname, rolname = current_user, rolsuper, rolcreatedb, rolreplication FROM pg_roles "
        "WHERE rolname = current_user OR rolname = ANY(%s)",
        [list(roles)],
    ).fetchall()
    (mine,) = (dict(zip(DENIED, has, strict=True)) for _, is_me, *has in rows if is_me)
    stated = {attribute for attribute in DENIED if mine[attribute] or mine["SUPERUSER"]}
    for name, is_me, *has in rows:
        for attribute, given in zip(DENIED, has, strict=True):
            if given and not is_me and attribute not in stated:
                raise ProvisioningFailed(
                    f"{name} has {attribute}, which {server.info.user} may not take away."
                )
    return " ".join(["NOCREATEROLE", "INHERIT", *(f"NO{attribute}" for attribute in sorted(stated))])


def _make_database(server: psycopg.Connection, names: RoleNames, database: str) -> None:
    name, owner = sql.Identifier(database), sql.Identifier(names.owner)
    row = server.execute(
        "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = %s", [database]
    ).fetchone()
    if row is None:
        server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
    elif row[0] != "UTF8":
        raise ProvisioningFailed(f"The database {database} has the encoding {row[0]}; it must have UTF8.")
    server.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, owner))
    server.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    for role in (names.app, names.maintenance, names.backup):
        server.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, sql.Identifier(role)))
    for role in (names.app, names.maintenance):
        # bulk loads go through temporary tables
        server.execute(sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(name, sql.Identifier(role)))


def _grant(inside: psycopg.Connection, names: RoleNames) -> None:
    """Grant rights on the schema; the migrations that create tables grant rights on them."""
    inside.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(sql.Identifier(names.owner)))
    inside.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    for role in (names.app, names.maintenance, names.backup, names.search):
        inside.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(sql.Identifier(role)))
    # on existing tables, and on those of later migrations
    for what in ("TABLES", "SEQUENCES"):
        inside.execute(
            sql.SQL(f"GRANT SELECT ON ALL {what} IN SCHEMA public TO {{}}").format(
                sql.Identifier(names.backup)
            )
        )
        inside.execute(
            sql.SQL(
                f"ALTER DEFAULT PRIVILEGES FOR ROLE {{}} IN SCHEMA public GRANT SELECT ON {what} TO {{}}"
            ).format(sql.Identifier(names.owner), sql.Identifier(names.backup))
        )
    # the owner of a function needs CREATE on its schema
    inside.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(names.search)))


def _make_extension(inside: psycopg.Connection) -> str | None:
    """Try to create pgvector in the database; returns its version, if it is there."""
    available = inside.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available:
        # without the right, an administrator creates it, as the doctor says, and `db upgrade` adds the vectors
        with contextlib.suppress(InsufficientPrivilege), inside.transaction():
            inside.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    row = inside.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return row[0] if row else None

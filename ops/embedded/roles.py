"""Prepares a Postgres for Backscroll: the database, its roles, and the extension; any number of times.

    backscroll_owner        logs in; owns the database, its schema and tables: migrations, index builds
    backscroll_app          logs in; sees one tenant at a time (row-level security)
    backscroll_maintenance  logs in; claims work over all tenants, by what migrations grant it
    backscroll_backup       logs in; reads everything, past row-level security, for pg_dump
    backscroll_search       does not log in; owns the keyword search's SECURITY DEFINER function, which looks
                            past row-level security, so that the index is used, and checks the tenant itself

None of them is a superuser or may create roles or databases. The same statements prepare the embedded
server and, through `backscroll db roles`, one of the operator's own; a superuser's, or a managed one's whose
administrator may create roles and has BYPASSRLS to give.
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
# Held while roles are made, so that two of us at once do not trip over each other; any constant will do.
ADVISORY_LOCK = 0x6261636B

# What no role of ours may have. Who is no superuser may state of it only what it has itself.
DENIED = ("SUPERUSER", "CREATEDB", "REPLICATION")


class ProvisioningFailed(Permanent):
    """The Postgres cannot be prepared: a login with too few rights, too old, or a database that does not fit."""


@dataclass(frozen=True, kw_only=True)
class RoleNames:
    """What the roles are called."""

    owner: str = "backscroll_owner"
    app: str = "backscroll_app"
    maintenance: str = "backscroll_maintenance"
    backup: str = "backscroll_backup"
    search: str = "backscroll_search"


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """What is there now. Without pgvector everything works on keywords alone."""

    server_version: str
    vector_version: str | None


def provision(
    superuser_dsn: str,
    *,
    passwords: Mapping[LoginRole, str],
    database: str = DATABASE,
    names: RoleNames | None = None,
) -> Provisioned:
    """Make the database, the roles with these passwords, and their rights; what is there is put right.

    `superuser_dsn` may name any database of the server; `passwords` has one for each role that logs in
    (setting another is how they are changed). Passwords are hashed here and never reach the server's log.
    Raises `DatabaseUnavailable` when the server cannot be reached and `ProvisioningFailed` when it does not
    fit.
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
    # a superuser acts for the owner anyway
    server.execute(sql.SQL("GRANT {} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE").format(owner))
    # so that the owner can create the search function and hand it over
    server.execute(sql.SQL("GRANT {} TO {}").format(search, owner))
    for role in (app, maintenance):
        # a stopped process must let go of its locks; index builds and dumps are not held to that
        server.execute(sql.SQL("ALTER ROLE {} SET idle_in_transaction_session_timeout = '10s'").format(role))
    for granted, member in server.execute(
        "SELECT roleid::regrole::text, member::regrole::text FROM pg_auth_members"
        " WHERE member IN (SELECT oid FROM pg_roles WHERE rolname = ANY(%s))",
        [[names.app, names.maintenance]],
    ).fetchall():
        # a membership would lend them the rights of another role; both names come quoted
        server.execute(sql.SQL(f"REVOKE {granted} FROM {member}"))


def _plain(server: psycopg.Connection, roles: Sequence[str]) -> str:
    """The attributes that deny our roles what they must not do, as far as this login may state them.

    Raises `ProvisioningFailed` when a role has one that it may not take away.
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
    """What may be done with single tables is granted by the migrations that make them."""
    inside.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(sql.Identifier(names.owner)))
    inside.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    for role in (names.app, names.maintenance, names.backup, names.search):
        inside.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(sql.Identifier(role)))
    # what stands there, and what migrations will make
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
    # whoever owns a function must be allowed to create one where it lies
    inside.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(names.search)))


def _make_extension(inside: psycopg.Connection) -> str | None:
    """The version of pgvector in the database after trying to have it there."""
    available = inside.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available:
        # who may not leaves it to whoever may, as the doctor says; `db upgrade` adds the vectors then
        with contextlib.suppress(InsufficientPrivilege), inside.transaction():
            inside.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    row = inside.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return row[0] if row else None

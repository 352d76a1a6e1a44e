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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from pipeline.store.connections import trips
from schemas.errors import DatabaseUnavailable, Permanent

LoginRole = Literal["owner", "app", "maintenance", "backup"]
LOGIN_ROLES: tuple[LoginRole, ...] = get_args(LoginRole)
DATABASE = "backscroll"
# Held while roles are created, so that two processes do not collide; an arbitrary constant.
ADVISORY_LOCK = 0x6261636B

# What no role of ours may have. A login that is no superuser may state only the attributes that it has itself.
DENIED = ("SUPERUSER", "CREATEDB", "REPLICATION")

# Every attribute is stated, so that a role which was given too much is corrected.
ROLES = """
    ALTER ROLE backscroll_search NOLOGIN {plain} BYPASSRLS PASSWORD NULL;
    GRANT backscroll_owner TO CURRENT_USER WITH INHERIT TRUE, SET TRUE;
    -- so that the owner can create the search function and hand it over
    GRANT backscroll_search TO backscroll_owner;
    -- a stopped process must release its locks; the owner's index builds and dumps may take longer
    ALTER ROLE backscroll_app SET idle_in_transaction_session_timeout = '10s';
    ALTER ROLE backscroll_maintenance SET idle_in_transaction_session_timeout = '10s'
"""
RIGHTS_ON_DATABASE = """
    ALTER DATABASE {name} OWNER TO backscroll_owner;
    REVOKE ALL ON DATABASE {name} FROM PUBLIC;
    GRANT CONNECT ON DATABASE {name} TO backscroll_app, backscroll_maintenance, backscroll_backup;
    -- bulk loads go through temporary tables
    GRANT TEMPORARY ON DATABASE {name} TO backscroll_app, backscroll_maintenance
"""
# The migrations that create tables grant rights on them.
RIGHTS_ON_SCHEMA = """
    ALTER SCHEMA public OWNER TO backscroll_owner;
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    GRANT USAGE ON SCHEMA public TO backscroll_app, backscroll_maintenance, backscroll_backup, backscroll_search;
    -- existing tables, and those of later migrations
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO backscroll_backup;
    GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO backscroll_backup;
    ALTER DEFAULT PRIVILEGES FOR ROLE backscroll_owner IN SCHEMA public
        GRANT SELECT ON TABLES TO backscroll_backup;
    ALTER DEFAULT PRIVILEGES FOR ROLE backscroll_owner IN SCHEMA public
        GRANT SELECT ON SEQUENCES TO backscroll_backup;
    -- the owner of a function needs CREATE on its schema
    GRANT CREATE ON SCHEMA public TO backscroll_search
"""


class ProvisioningFailed(Permanent):
    """The Postgres cannot be prepared: it is too old, the login has too few rights, or the database is unsuitable."""


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """The prepared server. Without pgvector there is only keyword search."""

    server_version: str
    vector_version: str | None


def role_name(role: LoginRole | Literal["search"]) -> str:
    return f"backscroll_{role}"


ROLE_NAMES = [*map(role_name, LOGIN_ROLES), role_name("search")]


def provision(
    superuser_dsn: str, *, passwords: Mapping[LoginRole, str], database: str = DATABASE
) -> Provisioned:
    """Create or correct the database, the roles with these passwords, and their rights.

    `superuser_dsn` may name any database of the server. Raises `DatabaseUnavailable` if the server cannot be reached
    and `ProvisioningFailed` if it is unsuitable.
    """
    missing = [role for role in LOGIN_ROLES if not passwords.get(role)]
    if missing:
        raise ProvisioningFailed(f"There is no password for: {', '.join(missing)}.")
    try:
        with psycopg.connect(superuser_dsn, autocommit=True, connect_timeout=10) as server:
            trips.require_direct(server, "SUPERUSER_URL")
            _require_administrator(server)
            server.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
            _make_roles(server, passwords)
            _make_database(server, database)
            with psycopg.connect(make_conninfo(superuser_dsn, dbname=database), connect_timeout=10) as inside:
                inside.execute(RIGHTS_ON_SCHEMA)
                return Provisioned(
                    server_version=inside.execute("SHOW server_version").fetchall()[0][0],
                    vector_version=_make_extension(inside, database),
                )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"Postgres cannot be reached to prepare it: {error}") from error
    except psycopg.DatabaseError as error:
        raise ProvisioningFailed(f"Postgres refused to be prepared: {error}") from error


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


def _make_roles(server: psycopg.Connection, passwords: Mapping[LoginRole, str]) -> None:
    for name in ROLE_NAMES:
        if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
            server.execute(sql.SQL(f"CREATE ROLE {name}"))
    plain = _plain(server)
    for role in LOGIN_ROLES:
        name = role_name(role)
        # hashed here, so that it never reaches the server's log
        secret = server.pgconn.encrypt_password(passwords[role].encode(), name.encode(), b"scram-sha-256")
        bypass = "BYPASSRLS" if role == "backup" else "NOBYPASSRLS"
        alter = sql.SQL(f"ALTER ROLE {name} LOGIN {plain} {bypass} PASSWORD {{}}")
        server.execute(alter.format(sql.Literal(secret.decode())))
    server.execute(sql.SQL(ROLES.format(plain=plain)))
    for granted, member in server.execute(
        "SELECT roleid::regrole::text, member::regrole::text FROM pg_auth_members"
        " WHERE member IN (SELECT oid FROM pg_roles WHERE rolname = ANY(%s))",
        [[role_name("app"), role_name("maintenance")]],
    ).fetchall():
        # a membership would give them the rights of another role; both names are quoted already
        server.execute(sql.SQL(f"REVOKE {granted} FROM {member}"))


def _plain(server: psycopg.Connection) -> str:
    """List the attributes that deny our roles what they must not do, as far as this login may state them.

    Raises `ProvisioningFailed` if a role has an attribute that the login may not take away.
    """
    rows = server.execute(
        "SELECT rolname, rolname = current_user, rolsuper, rolcreatedb, rolreplication FROM pg_roles "
        "WHERE rolname = current_user OR rolname = ANY(%s)",
        [ROLE_NAMES],
    ).fetchall()
    (mine,) = (dict(zip(DENIED, has, strict=True)) for _, is_me, *has in rows if is_me)
    stated = {attribute for attribute in DENIED if mine[attribute] or mine["SUPERUSER"]}
    for name, is_me, *has in rows:
        for attribute, held in zip(DENIED, has, strict=True):
            if held and not is_me and attribute not in stated:
                raise ProvisioningFailed(
                    f"{name} has {attribute}, which {server.info.user} may not take away."
                )
    return " ".join(["NOCREATEROLE", "INHERIT", *(f"NO{attribute}" for attribute in sorted(stated))])


def _make_database(server: psycopg.Connection, database: str) -> None:
    name = sql.Identifier(database)
    row = server.execute(
        "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = %s", [database]
    ).fetchone()
    if row is None:
        server.execute(sql.SQL("CREATE DATABASE {} OWNER backscroll_owner").format(name))
    elif row[0] != "UTF8":
        raise ProvisioningFailed(f"The database {database} has the encoding {row[0]}; it must have UTF8.")
    server.execute(sql.SQL(RIGHTS_ON_DATABASE).format(name=name))


def _make_extension(inside: psycopg.Connection, database: str) -> str | None:
    """Try to create pgvector in the database, and let the roles find it; returns its version, if it is there."""
    available = inside.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available:
        # without the right, an administrator creates it, as the doctor says, and `db upgrade` adds the vectors
        with contextlib.suppress(InsufficientPrivilege), inside.transaction():
            inside.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    row = inside.execute(
        "SELECT extversion, nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname = 'vector'"
    ).fetchone()
    if row is None:
        return None
    # hosted servers keep extensions in a schema of their own
    names = {"schema": sql.Identifier(row[1]), "database": sql.Identifier(database)}
    path = "public" if row[1] == "public" else "public, {schema}"
    for role in map(role_name, LOGIN_ROLES):
        set_path = f"ALTER ROLE {role} IN DATABASE {{database}} SET search_path = {path}"
        inside.execute(sql.SQL(f"GRANT USAGE ON SCHEMA {{schema}} TO {role}; {set_path}").format(**names))
    return str(row[0])

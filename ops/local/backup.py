"""Back up the database while it is in use, and restore one.

A restored database is created beside the existing one, migrated and read, and only then takes its name.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from ops.local import migrate, stack
from ops.local.embedded import archive
from ops.local.embedded.archive import OnStep
from ops.local.embedded.folder import explained, make_folder
from ops.local.embedded.lock import open_lock, take
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import DATABASE
from ops.local.processes import cores
from pipeline.store.database import Database
from schemas.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    Retryable,
    SchemaOutdated,
    SettingsError,
)
from schemas.settings import Settings

STAGING = "backscroll_restored"
REPLACED = "backscroll_replaced"
# Tables and indexes restored at once, if there are as many cores.
JOBS = 4


class IsRunning(Retryable):
    """A Backscroll runs with the data folder."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a restored database holds."""

    migration: str
    tenants: int
    chats: int
    messages: int
    sessions: int


def back_up(settings: Settings, target: Path, tell: OnStep) -> int:
    """Write the database into the file; returns its bytes.

    Raises `NotFound`, `SettingsError`, `DatabaseUnavailable`, `ProgramMissing`, and what `archive.dump` raises.
    """
    with _source(settings) as dsn:
        try:
            with psycopg.connect(dsn, connect_timeout=10) as connection:
                version = connection.info.server_version // 10000
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(f"Postgres cannot be reached: {error}") from error
        return archive.dump(archive.program("pg_dump", version), dsn, target, tell)


@contextlib.contextmanager
def _source(settings: Settings) -> Iterator[str]:
    """Yield the URL of the role that reads everything; starts the embedded Postgres if it does not run."""
    if settings.backup_database_url is not None:
        yield settings.backup_database_url.get_secret_value()
        return
    if settings.database_url is not None:
        raise SettingsError(_by_hand(settings.database_url.get_secret_value()))
    server = EmbeddedPostgres(settings.data_dir)
    if server.is_running():
        yield server.dsn("backup")
        return
    if not has_cluster(settings.data_dir):
        raise NotFound(f"There is no database in {settings.data_dir}: name the folder of `backscroll up`")
    with _alone(settings.data_dir), server:
        yield server.dsn("backup")


def _by_hand(app_url: str) -> str:
    """Say how to back up a Postgres of one's own without a setting for its backup role."""
    server = conninfo_to_dict(app_url)
    where = f"postgresql://backscroll_backup@{server.get('host', 'localhost')}:{server.get('port', 5432)}"
    database = server.get("dbname", DATABASE)
    return (
        "BACKSCROLL_BACKUP_DATABASE_URL is not set: only the role for backups sees all tenants (`backscroll db roles` "
        "makes it). Set it, or run where Postgres's programs are:\n"
        f"  pg_dump --format custom --file backscroll.dump '{where}/{database}'"
    )


def restore(settings: Settings, file: Path, *, replace: bool, tell: OnStep) -> Restored:
    """Replace the database of the data folder by the file's, once that has been read back.

    Raises `InvalidInput` for a wrong file, and without `replace` for a folder with messages; `SchemaOutdated` for a
    file of a newer version; `IsRunning`, `SettingsError`, `ArchiveFailed`, and what the embedded Postgres raises.
    """
    if settings.database_url is not None:
        raise SettingsError(_restore_by_hand(settings.database_url.get_secret_value(), file))
    # before anything is created
    _require_known(archive.revision(archive.program("pg_restore"), file), file)
    make_folder(settings.data_dir)
    with _alone(settings.data_dir), EmbeddedPostgres(settings.data_dir) as server:
        superuser = server.superuser_dsn()
        if not replace and (count := _messages(server)):
            raise InvalidInput(
                f"the data folder {settings.data_dir} holds {count:,} messages: --replace deletes them for the "
                "backup, --data-dir names another folder",
                field="replace",
            )
        with psycopg.connect(superuser, autocommit=True) as connection:
            version = connection.info.server_version // 10000
            _drop(connection, STAGING)
            try:
                server.provide(STAGING)
                program = archive.program("pg_restore", version)
                archive.restore(program, file, server.superuser_dsn(STAGING), min(JOBS, cores()), tell)
                tell("migrating its tables")
                migrate.upgrade(server.dsn("owner", database=STAGING))
                found = _read(server)
                _swap(connection)
            finally:
                _drop(connection, STAGING)
    return found


def has_cluster(data_dir: Path) -> bool:
    """Return whether the folder holds data of an embedded Postgres."""
    return any(data_dir.glob("postgres-[0-9][0-9]"))


@contextlib.contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """Keep `backscroll up` from starting during a block. Raises `IsRunning`."""
    with explained(data_dir):
        lock = open_lock(data_dir / stack.LOCK)
    try:
        if not take(lock):
            raise IsRunning(
                f"Backscroll runs with the data folder {data_dir}: stop it first (Ctrl-C in its terminal), or name "
                "another folder with --data-dir."
            )
        yield
    finally:
        os.close(lock)


def _require_known(revision: str, file: Path) -> None:
    known = migrate.revisions()
    if revision not in known:
        raise SchemaOutdated(
            f"{file} is at migration {revision}, which this program (up to {known[0]}) does not know: update the "
            "program"
        )


def _messages(server: EmbeddedPostgres) -> int:
    """Count the stored messages; 0 without tables."""
    with psycopg.connect(server.superuser_dsn(DATABASE)) as connection:
        row = connection.execute("SELECT to_regclass('public.messages')").fetchone()
        if row is None or row[0] is None:
            return 0
        return int(connection.execute("SELECT count(*) FROM messages").fetchall()[0][0])


def _read(server: EmbeddedPostgres) -> Restored:
    """Read what was restored, as Backscroll does. Raises `SettingsError`, `DatabaseUnavailable`, `SchemaOutdated`."""
    with psycopg.connect(server.dsn("backup", database=STAGING)) as connection:
        row = connection.execute("""
            SELECT (SELECT max(version_num) FROM alembic_version), (SELECT count(*) FROM tenants),
                (SELECT count(*) FROM chats), (SELECT count(*) FROM messages),
                (SELECT count(*) FROM conversation_sessions WHERE status <> 'merged')
        """).fetchall()[0]
        tenants = [each for (each,) in connection.execute("SELECT tenant_id FROM tenants")]
    found = Restored(migration=row[0], tenants=row[1], chats=row[2], messages=row[3], sessions=row[4])
    database = Database(
        server.dsn("app", database=STAGING), server.dsn("maintenance", database=STAGING), pool_size=1
    )
    try:
        database.check()
        seen = 0
        for tenant in tenants:
            with database.tenant(tenant) as as_app:
                seen += as_app.exec_driver_sql("SELECT count(*) FROM messages").scalar_one()
    finally:
        database.close()
    if seen != found.messages:
        raise archive.ArchiveFailed(
            f"Of {found.messages:,} restored messages the tenants see {seen:,}: the former database is kept."
        )
    return found


def _swap(connection: psycopg.Connection) -> None:
    """Give the restored database the name of the former one, which is dropped."""
    _drop(connection, REPLACED)
    with connection.transaction():
        for name, new in ((DATABASE, REPLACED), (STAGING, DATABASE)):
            connection.execute(
                sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(new))
            )
    _drop(connection, REPLACED)


def _drop(connection: psycopg.Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _restore_by_hand(app_url: str, file: Path) -> str:
    server = conninfo_to_dict(app_url)
    where = f"{server.get('host', 'localhost')}:{server.get('port', 5432)}/{server.get('dbname', DATABASE)}"
    return (
        "BACKSCROLL_DATABASE_URL names a Postgres of your own, which only its superuser can restore into. Stop "
        "Backscroll, make an empty database with its roles (`backscroll db roles`), and run:\n"
        f"  pg_restore --exit-on-error --dbname 'postgresql://postgres@{where}' {file}\n"
        "  backscroll db upgrade"
    )

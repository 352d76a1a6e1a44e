"""Back up the database while it is in use, and restore one."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from ops.local import migrate, stack
from ops.local.embedded import archive
from ops.local.embedded.archive import OnStep
from ops.local.embedded.folder import make_folder
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import DATABASE
from ops.local.processes import cores
from pipeline.erasure import forget, forgotten
from pipeline.store.connections import poolers
from pipeline.store.connections.database import Database
from pipeline.store.operations import checks
from schemas.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    SchemaOutdated,
    SettingsError,
)
from schemas.people.forgetting import Forgotten
from schemas.settings import Settings

STAGING = "backscroll_restored"
REPLACED = "backscroll_replaced"
# Tables and indexes restored at once, if there are as many cores.
JOBS = 4


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a restored database holds."""

    migration: str
    tenants: int
    chats: int
    messages: int
    sessions: int
    # number of items in the backup that were forgotten after it and are forgotten again
    forgotten_again: int = 0
    # entries of the suppression lists that this was looked up in; None: there was none of a later time
    suppressed: int | None = None


def back_up(settings: Settings, target: Path, tell: OnStep) -> int:
    """Write the database into the file; return its size in bytes. Raises a `BackscrollError` with the reason."""
    with _source(settings) as dsn:
        try:
            with psycopg.connect(dsn, connect_timeout=10) as connection:
                version = connection.info.server_version // 10000
                poolers.require_direct(connection, "BACKSCROLL_BACKUP_DATABASE_URL")
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(f"Postgres cannot be reached: {error}") from error
        return archive.dump(archive.program("pg_dump", version), dsn, target, tell)


@contextlib.contextmanager
def _source(settings: Settings) -> Iterator[str]:
    """Yield the URL of the role that reads everything; starts the embedded Postgres if it does not run."""
    if settings.backup_database_url is not None:
        yield settings.backup_database_url.get_secret_value()
        return
    if url := _url_for("backscroll_backup", settings):
        raise SettingsError(
            "BACKSCROLL_BACKUP_DATABASE_URL is not set: only the role for backups sees all tenants (`backscroll db "
            "roles` makes it). Set it, or run where Postgres's programs are:\n"
            f"  pg_dump --format custom --file backscroll.dump {url}"
        )
    server = EmbeddedPostgres(settings.data_dir)
    if server.is_running():
        yield server.dsn("backup")
        return
    if not has_cluster(settings.data_dir):
        raise NotFound(f"There is no database in {settings.data_dir}: name the folder of `backscroll up`")
    with stack.alone(settings.data_dir), server:
        yield server.dsn("backup")


def _url_for(user: str, settings: Settings) -> str | None:
    """Return a URL of the operator's own Postgres for a user to fill in; None for the embedded one."""
    if settings.database_url is None:
        return None
    server = conninfo_to_dict(settings.database_url.get_secret_value())
    address = f"{server.get('host', 'localhost')}:{server.get('port', 5432)}/{server.get('dbname', DATABASE)}"
    return f"'postgresql://{user}@{address}'"


def restore(
    settings: Settings, file: Path, *, replace: bool, tell: OnStep, later: Sequence[Forgotten] = ()
) -> Restored:
    """Replace the database of the data folder by the file's, once that was migrated and read back beside it.

    What the suppression list of the former database or one of a `later` time has is forgotten in it before.
    Raises `InvalidInput` for a wrong file, and without `replace` for a folder with messages; `SchemaOutdated` for a
    file of a newer version; `RunsAlready`, and other `BackscrollError`s.
    """
    if url := _url_for("postgres", settings):
        raise SettingsError(
            "BACKSCROLL_DATABASE_URL names a Postgres of your own, which only its superuser can restore into. Stop "
            "Backscroll, make an empty database with its roles (`backscroll db roles`), and run:\n"
            f"  pg_restore --exit-on-error --dbname {url} {file}\n"
            "  backscroll db upgrade\n"
            "What was forgotten after the backup is there again then. If the former database still answers, keep its "
            "suppression list before, and forget again after:\n"
            "  backscroll forget export forgotten.jsonl\n"
            "  backscroll forget again forgotten.jsonl"
        )
    # before anything is created
    revision, known = archive.revision(archive.program("pg_restore"), file), migrate.revisions()
    checks.require_upgradable(revision)
    if revision not in known:
        raise SchemaOutdated(
            f"{file} is at migration {revision}, which this program (up to {known[0]}) does not know: update the "
            "program"
        )
    make_folder(settings.data_dir)
    with stack.alone(settings.data_dir), EmbeddedPostgres(settings.data_dir) as server:
        superuser = server.superuser_dsn()
        if not replace and (count := _messages(server)):
            raise InvalidInput(
                f"the data folder {settings.data_dir} holds {count:,} messages: --replace deletes them for the "
                "backup, --data-dir names another folder",
                field="replace",
            )
        kept = _suppressed(server)
        lists = [*(kept or []), *later]
        with psycopg.connect(superuser, autocommit=True) as connection:
            version = connection.info.server_version // 10000
            _drop(connection, STAGING)
            try:
                server.provide(STAGING)
                program = archive.program("pg_restore", version)
                archive.restore(program, file, server.superuser_dsn(STAGING), min(JOBS, cores()), tell)
                tell("migrating its tables")
                migrate.upgrade(server.dsn("owner", database=STAGING))
                tell("forgetting again what was forgotten since")
                again = _forget_again(server, settings, lists)
                restored = _read(server)
                _swap(connection)
            finally:
                _drop(connection, STAGING)
    entries = None if kept is None and not later else sum(len(listed.entries) for listed in lists)
    return dataclasses.replace(restored, forgotten_again=again, suppressed=entries)


def has_cluster(data_dir: Path) -> bool:
    """Return whether the folder holds data of an embedded Postgres."""
    return any(data_dir.glob("postgres-[0-9][0-9]"))


@contextlib.contextmanager
def _database(server: EmbeddedPostgres, name: str) -> Iterator[Database]:
    database = Database(
        server.dsn("app", database=name), server.dsn("maintenance", database=name), pool_size=2
    )
    try:
        yield database
    finally:
        database.close()


def _suppressed(server: EmbeddedPostgres) -> list[Forgotten] | None:
    """Return the suppression lists of all tenants of the database that is to be replaced; None without tables."""
    with psycopg.connect(server.superuser_dsn(DATABASE)) as connection:
        if connection.execute("SELECT to_regclass('public.suppression_list')").fetchone() in {None, (None,)}:
            return None
        tenants = [tenant for (tenant,) in connection.execute("SELECT tenant_id FROM tenant_keys ORDER BY 1")]
    with _database(server, DATABASE) as database:
        return [kept for tenant in tenants if (kept := forgotten.suppressed(database, tenant)) is not None]


def _forget_again(server: EmbeddedPostgres, settings: Settings, lists: Sequence[Forgotten]) -> int:
    """Forget everything on these lists in the restored database, and wait for the end; return how many entries."""
    with _database(server, STAGING) as database:
        begun = [
            (listed.tenant, receipt)
            for listed in lists
            for receipt in forgotten.forget_again(database, listed).receipts
        ]
        for tenant, receipt in begun:
            _, reason = forget.finish(database, tenant, receipt, settings)
            if reason is not None:
                raise archive.ArchiveFailed(
                    f"What was forgotten after the backup cannot be forgotten in it ({reason}): the former "
                    "database is kept."
                )
    return len(begun)


def _messages(server: EmbeddedPostgres) -> int:
    """Count the stored messages; 0 without tables."""
    with psycopg.connect(server.superuser_dsn(DATABASE)) as connection:
        row = connection.execute("SELECT to_regclass('public.messages')").fetchone()
        if row is None or row[0] is None:
            return 0
        return int(connection.execute("SELECT count(*) FROM messages").fetchall()[0][0])


def _read(server: EmbeddedPostgres) -> Restored:
    """Count and check the restored data. Raises `SettingsError`, `DatabaseUnavailable`, `SchemaOutdated`."""
    with psycopg.connect(server.dsn("backup", database=STAGING)) as connection:
        row = connection.execute("""
            SELECT (SELECT max(version_num) FROM alembic_version), (SELECT count(*) FROM tenants),
                (SELECT count(*) FROM chats), (SELECT count(*) FROM messages),
                (SELECT count(*) FROM conversation_sessions WHERE status <> 'merged')
        """).fetchall()[0]
        tenants = [tenant for (tenant,) in connection.execute("SELECT tenant_id FROM tenants")]
    restored = Restored(migration=row[0], tenants=row[1], chats=row[2], messages=row[3], sessions=row[4])
    with _database(server, STAGING) as database:
        database.check()
        seen = 0
        for tenant in tenants:
            with database.tenant(tenant) as as_app:
                seen += as_app.exec_driver_sql("SELECT count(*) FROM messages").scalar_one()
    if seen != restored.messages:
        raise archive.ArchiveFailed(
            f"Of {restored.messages:,} restored messages the tenants see {seen:,}: the former database is kept."
        )
    return restored


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

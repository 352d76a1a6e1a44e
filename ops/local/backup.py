"""Back up the database while it is in use, and restore one: by `pg_dump` and `pg_restore`."""

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops.local import migrate, stack
from ops.local.embedded.binaries import ProgramMissing, postgres_installations
from ops.local.embedded.folder import make_folder
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import DATABASE
from pipeline.clients import processors
from pipeline.erasure import forget
from pipeline.store.connections import trips
from pipeline.store.connections.database import Database
from schemas.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    Retryable,
    SettingsError,
)
from schemas.people import Forgotten
from schemas.server_urls import addresses
from schemas.settings import Settings

# Called often, with the step that begins.
OnStep = Callable[[str], None]

# The table shows that a file is ours, its row the version.
REVISION_TABLE = "alembic_version"
_STEP = re.compile(r'(?:contents of|data for) table "(?:public\.)?([^"]+)"|creating (INDEX "[^"]+")')
_REVISION = re.compile(rf"^COPY public\.{REVISION_TABLE} .*\n(\S+)\n\\\.$", re.MULTILINE)
# Of a program's output, for its error message.
LAST_LINES = 5


class ArchiveFailed(Retryable):
    """`pg_dump` or `pg_restore` failed; the message holds its output."""


def postgres_program(name: str, server_version: int | None = None) -> Path:
    """Find the oldest program for a server of this major version, or the newest. Raises `ProgramMissing`."""
    candidates: dict[int, Path] = {}
    # without the `embedded` extra there are none
    with contextlib.suppress(ProgramMissing):
        candidates |= {version: folder / "bin" / name for version, folder in postgres_installations().items()}
    if on_path := shutil.which(name):
        printed = subprocess.run([on_path, "--version"], capture_output=True, text=True, check=False).stdout
        if match := re.search(r"\) (\d+)", printed):
            candidates.setdefault(int(match[1]), Path(on_path))
    wanted = server_version or 0
    fitting = [version for version, path in candidates.items() if version >= wanted and path.exists()]
    if not fitting:
        raise ProgramMissing(
            f"There is no {name} of version {wanted} or newer: install Postgres's client programs, or "
            "`pip install 'backscroll[embedded]'`."
        )
    return candidates[min(fitting) if server_version else max(fitting)]


def write_dump(pg_dump: Path, dsn: str, target: Path, tell: OnStep) -> int:
    """Dump the database in Postgres's custom format, and move the complete file to its place; returns its bytes.

    Raises `ArchiveFailed`, and `InvalidInput` if it cannot be written.
    """
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # created by us, so that no other user may read it at any moment
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _run([pg_dump, "--format", "custom", "--file", fresh, "--verbose"], dsn, tell)
            with fresh.open("rb") as written:
                os.fsync(written.fileno())
            size = fresh.stat().st_size
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}", field="file") from error
    return size


def revision_of_dump(pg_restore: Path, file: Path) -> str:
    """Read the migration of a file's tables. Raises `InvalidInput` for a file that is no backup of ours."""
    wrong = f"{file} is no backup of Backscroll"
    try:
        with file.open("rb") as opened:
            if opened.read(5) != b"PGDMP":
                raise InvalidInput(f"{wrong}: it is not in Postgres's custom format", field="file")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", field="file") from error
    command: list[str | Path] = [pg_restore, "--data-only", f"--table={REVISION_TABLE}", "--file=-", file]
    read = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if read.returncode:
        errors = read.stderr.strip().splitlines()[-1:] or [""]
        raise InvalidInput(f"{file} is damaged: {errors[0]}", field="file")
    match = _REVISION.search(read.stdout)
    if match is None:
        raise InvalidInput(f"{wrong}: it holds another database", field="file")
    return match[1]


def restore_dump(pg_restore: Path, file: Path, dsn: str, jobs: int, tell: OnStep) -> None:
    """Restore a file into an empty database, as its superuser. Raises `ArchiveFailed`."""
    command: list[str | Path] = [pg_restore, "--exit-on-error", f"--jobs={jobs}", "--verbose", file]
    _run(command, dsn, tell)


def connection_arguments(dsn: str) -> tuple[str, dict[str, str]]:
    """Separate a URL from its password, which goes into the environment: every user can see arguments.

    >>> connection_arguments("postgresql://ann:secret@db.example.org/backscroll")
    ('user=ann dbname=backscroll host=db.example.org', {'PGPASSWORD': 'secret'})
    """
    known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    password = known.pop("password", None)
    return make_conninfo("", **known), {} if password is None else {"PGPASSWORD": password}


def _run(command: Sequence[str | Path], dsn: str, tell: OnStep) -> None:
    where, secret = connection_arguments(dsn)
    environment = {**os.environ, "LC_ALL": "C", **secret}
    lines: list[str] = []
    with subprocess.Popen(
        [*command, "--no-password", "--dbname", where],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            assert process.stderr is not None  # noqa: S101 - it is a pipe
            for line in process.stderr:
                if step := _STEP.search(line):
                    tell(step[1] or step[2])
                lines = [*lines, line.rstrip()][-LAST_LINES:]
        except BaseException:
            process.terminate()
            raise
    if code := process.returncode:
        shown = "\n".join(lines)
        raise ArchiveFailed(f"{Path(command[0]).name} failed with code {code}:\n{shown}")


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
                trips.require_direct(connection, "BACKSCROLL_BACKUP_DATABASE_URL")
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(f"Postgres cannot be reached: {error}") from error
        return write_dump(postgres_program("pg_dump", version), dsn, target, tell)


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
    return f"'postgresql://{user}@{addresses(server)}/{server.get('dbname', DATABASE)}'"


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
    migrate.require_known(revision_of_dump(postgres_program("pg_restore"), file), of=file)
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
                program = postgres_program("pg_restore", version)
                restore_dump(
                    program, file, server.superuser_dsn(STAGING), min(JOBS, processors.available()), tell
                )
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


def _database(server: EmbeddedPostgres, name: str) -> contextlib.closing[Database]:
    app, maintenance = server.dsn("app", database=name), server.dsn("maintenance", database=name)
    return contextlib.closing(Database(app, maintenance, pool_size=2))


def _suppressed(server: EmbeddedPostgres) -> list[Forgotten] | None:
    """Return the suppression lists of all tenants of the database that is to be replaced; None without tables."""
    with psycopg.connect(server.superuser_dsn(DATABASE)) as connection:
        if connection.execute("SELECT to_regclass('public.suppression_list')").fetchone() in {None, (None,)}:
            return None
        tenants = [tenant for (tenant,) in connection.execute("SELECT tenant_id FROM tenant_keys ORDER BY 1")]
    with _database(server, DATABASE) as database:
        return [kept for tenant in tenants if (kept := forget.suppressed(database, tenant)) is not None]


def _forget_again(server: EmbeddedPostgres, settings: Settings, lists: Sequence[Forgotten]) -> int:
    """Forget everything on these lists in the restored database, and wait for the end; return how many entries."""
    with _database(server, STAGING) as database:
        begun = [
            (listed.tenant, receipt)
            for listed in lists
            for receipt in forget.forget_again(database, listed).receipts
        ]
        for tenant, receipt in begun:
            _, reason = forget.finish(database, tenant, receipt, settings)
            if reason is not None:
                raise ArchiveFailed(
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
        raise ArchiveFailed(
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

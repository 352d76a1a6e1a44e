"""Partition messages and their vectors by hash of tenant and chat, with all rows; for very large tables.

    BACKSCROLL_OWNER_DATABASE_URL=postgresql://… python -m migrations.partitioning 32

Before there are any messages, `backscroll db upgrade --partitions 32` does it at once.

The program does not need to know: what a chat has in a table is in one partition, a query that names the chat reads
only that one, and a query that names ids reads each. It is done in one transaction that locks these tables for
everybody: stop workers and senders, or let them retry. It needs Postgres 17 (identities of partitioned tables).
"""

import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from sqlalchemy import Connection, create_engine, pool, text

from migrations import first_schema, patience
from migrations.policies import isolate_tenants
from schemas.errors import Permanent, SettingsError
from schemas.load_settings import load_settings
from schemas.server_urls import postgres_parameters
from schemas.settings import Settings

PARTITIONS = 32
"""More than a database of a billion messages needs: some thirty million in each."""
_MESSAGES, _VECTORS = "messages", "message_vectors"


class CannotPartition(Permanent):
    """The database cannot be partitioned; the message says why."""


def partition(connection: Connection, partitions: int = PARTITIONS, *, only_empty: bool = False) -> int:
    """Partition those tables that are not, as their owner, in the caller's transaction; return the number of rows.

    With `only_empty` there must be none, and as many partitions as there are already are left as they are. Raises
    `CannotPartition`, and `OperationalError` when somebody keeps a table locked.
    """
    existing = _count(connection, _MESSAGES)
    if only_empty and partitions == existing:
        return 0
    if connection.dialect.server_version_info < (17,):  # type: ignore[operator]
        raise CannotPartition(
            "partitioning takes Postgres 17: before it partitioned tables had no identities"
        )
    plain = _strings(
        connection,
        "SELECT relname FROM pg_class WHERE relkind = 'r' "
        f"AND oid IN (to_regclass('{_MESSAGES}'), to_regclass('{_VECTORS}')) ORDER BY relname = '{_VECTORS}'",
    )
    if existing and (not plain or partitions != existing):
        raise CannotPartition(f"messages are partitioned already, into {existing}: that is not changed later")
    if not existing and _MESSAGES not in plain:
        raise CannotPartition("there are no messages here: run `backscroll db upgrade` first")
    return sum(_partition(connection, table, partitions, only_empty=only_empty) for table in plain)


def create_vectors(connection: Connection) -> None:
    """Create the tables of vectors, partitioned as the messages are, when pgvector was installed after these."""
    partitions = _count(connection, _MESSAGES)
    if not partitions:
        first_schema.create_vectors()
        return
    # the key of partitions has the chat in it
    reference = "(tenant_id, message_id{}) REFERENCES messages"
    tables = (files(first_schema) / "vectors.sql").read_text(encoding="utf-8")
    connection.exec_driver_sql(tables.replace(reference.format(""), reference.format(", chat_id")))
    for table in (_VECTORS, "session_vectors", "memory_vectors"):
        isolate_tenants(table)
    _partition(connection, _VECTORS, partitions, only_empty=True)


def _partition(connection: Connection, table: str, partitions: int, *, only_empty: bool) -> int:
    execute = connection.exec_driver_sql
    execute(f"SET LOCAL lock_timeout = '{int(patience.LOCK_SECONDS * 1000)}ms'")
    execute("SET LOCAL statement_timeout = 0")
    children = _strings(
        connection,
        f"SELECT conrelid::regclass::text FROM pg_constraint WHERE confrelid = '{table}'::regclass ORDER BY 1",
    )
    execute(f"LOCK TABLE {', '.join([table, *children])} IN ACCESS EXCLUSIVE MODE")
    kept = _remember(connection, table)
    for child in children:
        execute(f"ALTER TABLE {child} DROP CONSTRAINT {_foreign_key(connection, child, table)}")
    # its names are wanted by the new one
    execute(f"ALTER TABLE {table} RENAME TO {table}_unpartitioned")
    for sequence in kept.sequences:
        execute(f"ALTER SEQUENCE {sequence} RENAME TO {sequence}_unpartitioned")
    # forced row-level security binds the owner, too
    execute(f"ALTER TABLE {table}_unpartitioned NO FORCE ROW LEVEL SECURITY")
    if only_empty and connection.scalar(text(f"SELECT EXISTS (SELECT FROM {table}_unpartitioned)")):
        raise CannotPartition(
            "there are messages already, and nobody could read or write while they are copied: stop workers and HTTP "
            f"API, run `python -m migrations.partitioning {partitions}`, and start them again"
        )
    _make(connection, table, partitions, kept)
    columns = ", ".join(kept.columns)
    count = execute(
        f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {table}_unpartitioned"
    ).rowcount
    for sequence in kept.sequences:
        execute(f"SELECT setval('{sequence}', last_value, is_called) FROM {sequence}_unpartitioned")
    execute(f"DROP TABLE {table}_unpartitioned")
    _restore(connection, table, partitions, kept)
    for child in children:
        execute(
            f"ALTER TABLE {child} ADD CONSTRAINT {child}_message FOREIGN KEY (tenant_id, message_id, chat_id) "
            f"REFERENCES {table} ON DELETE CASCADE"
        )
    return count


class _Kept(NamedTuple):
    """Properties of the old table to restore on the new one, as statements and names."""

    # the columns that are not computed
    columns: Sequence[str]
    # the primary key, with the chat: partitions need it in every key
    key: str
    # of its identities
    sequences: Sequence[str]
    # foreign keys and unique constraints by their names
    constraints: Sequence[tuple[str, str]]
    indexes: Sequence[str]
    triggers: Sequence[str]
    policies: Sequence[str]
    grants: Sequence[str]
    options: Sequence[str]


def _remember(connection: Connection, table: str) -> _Kept:
    of = f"'{table}'::regclass"
    rows = connection.exec_driver_sql(
        f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {of} AND contype IN ('f', 'u') "
        # of a foreign key to partitions there is one for each of these, too
        "AND conparentid = 0"
    )
    (key,) = _strings(
        connection,
        f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {of} AND contype = 'p'",
    )
    return _Kept(
        columns=_strings(
            connection,
            f"SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = {of} AND attnum > 0 "
            "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        ),
        key=f"{key.removesuffix(')')}, chat_id)",
        sequences=_strings(
            connection,
            f"SELECT pg_get_serial_sequence('{table}', attname)::regclass::text FROM pg_attribute "
            f"WHERE attrelid = {of} AND attidentity <> ''",
        ),
        constraints=[(str(name), str(definition)) for name, definition in rows],
        # without those of vectors' spaces: `doctor --fix` builds each in the partitions that are worth it
        indexes=_strings(
            connection,
            f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = {of} AND indisvalid AND NOT EXISTS "
            "(SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u')) "
            f"AND NOT starts_with(indexrelid::regclass::text, '{table}_space_')",
        ),
        triggers=_strings(
            connection,
            f"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = {of} AND NOT tgisinternal",
        ),
        policies=_strings(
            connection,
            "SELECT format('CREATE POLICY %I ON %I AS %s FOR %s TO %s', policyname, tablename, permissive, cmd, "
            "array_to_string(roles, ', ')) || coalesce(' USING (' || qual || ')', '') "
            f"|| coalesce(' WITH CHECK (' || with_check || ')', '') FROM pg_policies WHERE tablename = '{table}'",
        ),
        grants=_strings(
            connection,
            f"""
            SELECT format('GRANT %s ON {table} TO %I', privilege_type, grantee::regrole::text) FROM pg_class,
                aclexplode(relacl) WHERE oid = {of} AND grantee <> relowner
            UNION ALL SELECT format('GRANT %s (%I) ON {table} TO %I', privilege_type, attname, grantee::regrole::text)
            FROM pg_attribute, aclexplode(attacl) WHERE attrelid = {of} AND attnum > 0
            """,
        ),
        options=_strings(connection, f"SELECT unnest(reloptions) FROM pg_class WHERE oid = {of}"),
    )


def _make(connection: Connection, table: str, partitions: int, kept: _Kept) -> None:
    execute = connection.exec_driver_sql
    execute(
        f"CREATE TABLE {table} (LIKE {table}_unpartitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
        "INCLUDING GENERATED INCLUDING IDENTITY INCLUDING STORAGE) PARTITION BY HASH (tenant_id, chat_id)"
    )
    options = f" WITH ({', '.join(kept.options)})" if kept.options else ""
    for number in range(partitions):
        execute(
            f"CREATE TABLE {_name(table, number)} PARTITION OF {table} "
            f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number}){options}"
        )


def _restore(connection: Connection, table: str, partitions: int, kept: _Kept) -> None:
    """Restore what is cheaper, or only possible, after the rows are copied and the old table is dropped."""
    execute = connection.exec_driver_sql
    # Nobody is granted a partition, and without a policy nobody sees a row of one. This comes first: it binds the
    # owner, too, so foreign keys do not check again the rows that were checked when they were inserted.
    for each in (table, *(_name(table, number) for number in range(partitions))):
        execute(f"ALTER TABLE {each} ENABLE ROW LEVEL SECURITY")
        execute(f"ALTER TABLE {each} FORCE ROW LEVEL SECURITY")
    for statement in (*kept.indexes, *kept.triggers, *kept.policies, *kept.grants):
        execute(statement)
    # the key last, as in the first schema
    for name, definition in (*kept.constraints, (f"{table}_pkey", kept.key)):
        execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")


def _foreign_key(connection: Connection, child: str, parent: str) -> str:
    (name,) = _strings(
        connection,
        "SELECT quote_ident(conname) FROM pg_constraint "
        f"WHERE confrelid = '{parent}'::regclass AND conrelid = '{child}'::regclass",
    )
    return name


def _count(connection: Connection, table: str) -> int:
    return len(
        _strings(connection, f"SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('{table}')")
    )


def _name(table: str, number: int) -> str:
    return f"{table}_{number:03}"


def _strings(connection: Connection, statement: str) -> list[str]:
    return [str(value) for value in connection.exec_driver_sql(statement.replace("%", "%%")).scalars()]


def main() -> None:
    """Partition the database of BACKSCROLL_OWNER_DATABASE_URL."""
    given = sys.argv[1] if len(sys.argv) > 1 else str(PARTITIONS)
    if not given.isdecimal() or int(given) < 1:
        sys.exit(f"Error: {given} is no number of partitions")
    try:
        found = _partition_database(load_settings(), int(given))
    except (CannotPartition, SettingsError) as error:
        sys.exit(f"Error: {error}")
    print(  # noqa: T201
        f"{found:,} messages and vectors in {int(given)} partitions. "
        f"Next: VACUUM (ANALYZE) {_MESSAGES}, {_VECTORS}, and `backscroll doctor --fix`"
    )


def _partition_database(settings: Settings, partitions: int) -> int:
    secret = settings.owner_database_url
    if secret is None:
        raise SettingsError("BACKSCROLL_OWNER_DATABASE_URL is not set: tables are changed as their owner")
    parameters = postgres_parameters(secret.get_secret_value())
    engine = create_engine("postgresql+psycopg://", poolclass=pool.NullPool, connect_args=parameters)
    with engine.connect() as connection, patience.alone(connection):
        found: list[int] = []

        def act() -> None:
            with connection.begin():
                found.append(partition(connection, partitions))

        patience.persistently(connection, act)
    engine.dispose()
    return found[-1]


if __name__ == "__main__":
    main()

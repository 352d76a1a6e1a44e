"""Partition `messages` by hash of tenant and chat, with all rows; for very large tables.

    BACKSCROLL_OWNER_DATABASE_URL=postgresql://… python -m migrations.partitioning 32

Before there are any messages, `backscroll db upgrade --partitions 32` does it at once.

The program does not need to know: a chat's messages are in one partition, a query that names the chat reads only that
one, and a query that names ids reads each. It is done in one transaction that locks messages for everybody: stop
workers and senders, or let them retry. It needs Postgres 17 (identities of partitioned tables).
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, create_engine, pool, text

from migrations import patience
from schemas.errors import Permanent, SettingsError
from schemas.load_settings import load_settings
from schemas.server_urls import postgres_parameters
from schemas.settings import Settings

PARTITIONS = 32
"""More than a database of a billion messages needs: some thirty million in each."""
# The number of a message is unique by its sequence; partitions need the chat in every key.
KEY = "tenant_id, id, chat_id"


_PARTS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass('messages')"


class CannotPartition(Permanent):
    """The database cannot be partitioned; the message says why."""


def partition(connection: Connection, partitions: int = PARTITIONS, *, only_empty: bool = False) -> int:
    """Partition `messages`, as their owner, in the caller's transaction; return the number of messages.

    With `only_empty` there must be none, and as many partitions as there are already are left as they are. Raises
    `CannotPartition`, and `OperationalError` when somebody keeps the table locked.
    """
    if only_empty and partitions == len(_strings(connection, _PARTS)):
        return 0
    _require_plain(connection)
    execute = connection.exec_driver_sql
    execute(f"SET LOCAL lock_timeout = '{int(patience.LOCK_SECONDS * 1000)}ms'")
    execute("SET LOCAL statement_timeout = 0")
    children = _strings(
        connection,
        "SELECT conrelid::regclass::text FROM pg_constraint WHERE confrelid = 'messages'::regclass ORDER BY 1",
    )
    execute(f"LOCK TABLE {', '.join(['messages', *children])} IN ACCESS EXCLUSIVE MODE")
    kept = _remember(connection)
    for child in children:
        execute(f"ALTER TABLE {child} DROP CONSTRAINT {_foreign_key(connection, child)}")
    # its names are wanted by the new one
    execute("ALTER TABLE messages RENAME TO messages_unpartitioned")
    execute("ALTER SEQUENCE messages_id_seq RENAME TO messages_unpartitioned_id_seq")
    # forced row-level security binds the owner, too
    execute("ALTER TABLE messages_unpartitioned NO FORCE ROW LEVEL SECURITY")
    if only_empty and connection.scalar(text("SELECT EXISTS (SELECT FROM messages_unpartitioned)")):
        raise CannotPartition(
            "there are messages already, and nobody could read or write while they are copied: stop workers and HTTP "
            f"API, run `python -m migrations.partitioning {partitions}`, and start them again"
        )
    _make(connection, partitions, kept)
    columns = ", ".join(kept.columns)
    count = execute(
        f"INSERT INTO messages ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM messages_unpartitioned"
    ).rowcount
    execute("SELECT setval('messages_id_seq', last_value, is_called) FROM messages_unpartitioned_id_seq")
    execute("DROP TABLE messages_unpartitioned")
    _restore(connection, partitions, kept)
    for child in children:
        execute(
            f"ALTER TABLE {child} ADD CONSTRAINT {child}_message FOREIGN KEY (tenant_id, message_id, chat_id) "
            f"REFERENCES messages ({KEY}) ON DELETE CASCADE"
        )
    return count


class _Kept(NamedTuple):
    """Properties of the old table to restore on the new one, as statements and names."""

    # the columns that are not computed
    columns: Sequence[str]
    # foreign keys and unique constraints by their names, but for the primary key
    constraints: Sequence[tuple[str, str]]
    indexes: Sequence[str]
    triggers: Sequence[str]
    policies: Sequence[str]
    grants: Sequence[str]
    options: Sequence[str]


def _remember(connection: Connection) -> _Kept:
    of = "'messages'::regclass"
    rows = connection.exec_driver_sql(
        f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {of} AND contype IN ('f', 'u')"
    )
    return _Kept(
        columns=_strings(
            connection,
            f"SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = {of} AND attnum > 0 "
            "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        ),
        constraints=[(str(name), str(definition)) for name, definition in rows],
        indexes=_strings(
            connection,
            f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = {of} AND indisvalid AND NOT EXISTS "
            "(SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))",
        ),
        triggers=_strings(
            connection,
            f"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = {of} AND NOT tgisinternal",
        ),
        policies=_strings(
            connection,
            "SELECT format('CREATE POLICY %I ON messages AS %s FOR %s TO %s', policyname, permissive, cmd, "
            "array_to_string(roles, ', ')) || coalesce(' USING (' || qual || ')', '') "
            "|| coalesce(' WITH CHECK (' || with_check || ')', '') FROM pg_policies WHERE tablename = 'messages'",
        ),
        grants=_strings(
            connection,
            f"""
            SELECT format('GRANT %s ON messages TO %I', privilege_type, grantee::regrole::text) FROM pg_class,
                aclexplode(relacl) WHERE oid = {of} AND grantee <> relowner
            UNION ALL SELECT format('GRANT %s (%I) ON messages TO %I', privilege_type, attname, grantee::regrole::text)
            FROM pg_attribute, aclexplode(attacl) WHERE attrelid = {of} AND attnum > 0
            """,
        ),
        options=_strings(connection, f"SELECT unnest(reloptions) FROM pg_class WHERE oid = {of}"),
    )


def _make(connection: Connection, partitions: int, kept: _Kept) -> None:
    execute = connection.exec_driver_sql
    execute(
        "CREATE TABLE messages (LIKE messages_unpartitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
        "INCLUDING GENERATED INCLUDING IDENTITY INCLUDING STORAGE, "
        f"CONSTRAINT messages_partitioned_pkey PRIMARY KEY ({KEY})) PARTITION BY HASH (tenant_id, chat_id)"
    )
    options = f" WITH ({', '.join(kept.options)})" if kept.options else ""
    for number in range(partitions):
        execute(
            f"CREATE TABLE {_name(number)} PARTITION OF messages "
            f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number}){options}"
        )


def _restore(connection: Connection, partitions: int, kept: _Kept) -> None:
    """Restore what is cheaper, or only possible, after the rows are copied and the old table is dropped."""
    execute = connection.exec_driver_sql
    # Nobody is granted a partition, and without a policy nobody sees a row of one. This comes first: it binds the
    # owner, too, so foreign keys do not check again the rows that were checked when they were inserted.
    for table in ("messages", *map(_name, range(partitions))):
        execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    execute("ALTER TABLE messages RENAME CONSTRAINT messages_partitioned_pkey TO messages_pkey")
    for name, definition in kept.constraints:
        execute(f"ALTER TABLE messages ADD CONSTRAINT {name} {definition}")
    for statement in (*kept.indexes, *kept.triggers, *kept.policies, *kept.grants):
        execute(statement)


def _require_plain(connection: Connection) -> None:
    if connection.dialect.server_version_info < (17,):  # type: ignore[operator]
        raise CannotPartition(
            "partitioning takes Postgres 17: before it partitioned tables had no identities"
        )
    kind = connection.scalar(text("SELECT relkind FROM pg_class WHERE oid = to_regclass('messages')"))
    if kind == "p":
        count = len(_strings(connection, _PARTS))
        raise CannotPartition(f"messages are partitioned already, into {count}: that is not changed later")
    if kind is None:
        raise CannotPartition("there are no messages here: run `backscroll db upgrade` first")
    if connection.scalar(text("SELECT to_regclass('message_vectors')")) is None:
        # whose key to a message is made for the messages that are there
        raise CannotPartition(
            "the tables of vectors come first: install pgvector (`CREATE EXTENSION vector`, as a superuser), run "
            "`backscroll db upgrade`, and partition then"
        )


def _foreign_key(connection: Connection, child: str) -> str:
    (name,) = _strings(
        connection,
        "SELECT quote_ident(conname) FROM pg_constraint "
        f"WHERE confrelid = 'messages'::regclass AND conrelid = '{child}'::regclass",
    )
    return name


def _name(number: int) -> str:
    return f"messages_{number:03}"


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
    print(f"{found:,} messages in {int(given)} partitions. Next: VACUUM (ANALYZE) messages")  # noqa: T201


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

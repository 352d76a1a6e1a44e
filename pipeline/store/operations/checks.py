"""SQL of the doctor: checks of roles, tenant isolation, indexes, tables and stored data, and their repairs."""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from migrations import FIRST, REVISION
from pipeline.store import vectors
from pipeline.store.connections.statements import column, holds, number, run
from pipeline.store.messages.message_rows import waits
from pipeline.store.operations.stats import GONE_SECONDS
from pipeline.store.vectors import OWNERS
from schemas.errors import SchemaOutdated, SettingsError
from schemas.kinds import EMBED, INGEST, SUMMARIZE, Kind

_LOGIN = text("SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
_SERVER = text("""
    SELECT current_setting('server_version_num')::int / 10000 AS version,
        split_part(current_setting('server_version'), ' ', 1) AS release,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
        to_regclass('alembic_version') IS NOT NULL AS migrated, clock_timestamp() AS at
""")
# A backend in a transaction waits for what its client sends, or for it to take what was sent.
_HELD_UP = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND wait_event_type = 'Client'
        AND xact_start < now() - make_interval(secs => :seconds)
""")
_CONNECTIONS = text("""
    SELECT (SELECT coalesce(sum(connections), 0) FROM processes WHERE seen_at > now() - make_interval(secs => :gone)),
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - current_setting('reserved_connections')::int
""")
_HIDDEN_VECTORS = text("""
    SELECT extnamespace::regnamespace::text FROM pg_extension
    WHERE extname = 'vector' AND to_regtype('halfvec') IS NULL
""")
_UNWALLED = text("""
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
    ORDER BY c.relname
""")
_INVALID_INDEXES = text("""
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.relation = i.indrelid
            AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted)
    ORDER BY c.relname
""")
_REBUILD = text("SELECT quote_ident(:name)")
# By table or partition of vectors, most of them that one search compares: the messages of a chat, an organization's
# documents.
_MOST_SEARCHED = text(f"""
    SELECT {vectors.table_of("c.chat_id")}::text AS name, max(message_count) FROM chats c
    WHERE message_count > :least GROUP BY 1
    UNION ALL SELECT 'memory_vectors', count(*) FROM memories WHERE scope = 'organization' AND type = 'document'
""")
_SPACE_STATUSES = text("SELECT name, status FROM embedding_spaces ORDER BY id")
_COUNTED = text(f"""
    SELECT count(*), coalesce(sum(length(m.tsv)), 0) FROM messages m WHERE m.chat_id = :chat AND NOT {waits("m")}
""")
_SET_COUNTERS = text(
    "UPDATE chats SET message_count = :messages, lexeme_count = :lexemes WHERE chat_id = :chat"
)
# A row of `jobs` with an error on it was given up or dropped: somebody knows of it.
_WITHOUT_JOB = """NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = t.tenant_id AND w.kind = '{kind}'
    AND w.key = {key} AND (w.due_at IS NOT NULL OR w.dead_at IS NOT NULL OR w.last_error IS NOT NULL))"""
_REMEMBERED = (
    "EXISTS (SELECT 1 FROM chats c WHERE c.tenant_id = t.tenant_id AND c.chat_id = t.chat_id AND c.memory)"
)
_WITHOUT_VECTOR = """EXISTS (SELECT 1 FROM embedding_spaces e WHERE e.status IN ('active', 'standby') AND NOT EXISTS (
    SELECT 1 FROM {owner.table} v WHERE v.tenant_id = t.tenant_id AND v.{owner.owner} = t.id AND v.space_id = e.id))"""


def login(connection: Connection) -> tuple[str, bool]:
    """Return `(role, whether it bypasses row-level security)` of this connection."""
    role, unbound = run(connection, _LOGIN).one()
    return role, unbound


def server(connection: Connection) -> Row[Any]:
    """Return `version` (major), `release`, `pgvector`, `migrated` (whether the tables exist) and `at`, the time."""
    return run(connection, _SERVER).one()


def held_up(connection: Connection, seconds: float) -> int:
    """Return how many transactions of this role, older than `seconds`, wait for their client."""
    return number(connection, _HELD_UP, seconds=seconds)


def connections(connection: Connection) -> tuple[int, int]:
    """Return how many connections the running processes may open, and how many Postgres leaves to their roles."""
    may_open, allowed = run(connection, _CONNECTIONS, gone=GONE_SECONDS).one()
    return may_open, allowed


def is_read_only(connection: Connection) -> bool:
    """Tell whether Postgres takes no writes."""
    return holds(connection, "SELECT current_setting('transaction_read_only')::boolean")


def hidden_vectors(connection: Connection) -> str | None:
    """Return the schema of pgvector if this role does not search it."""
    return next(iter(column(connection, _HIDDEN_VECTORS)), None)


def require_seen_vectors(connection: Connection) -> None:
    """Raise `SettingsError` where pgvector is in a schema that this role does not search."""
    if schema := hidden_vectors(connection):
        raise SettingsError(
            f"pgvector is in the schema {schema}, which {login(connection)[0]} does not search: run `backscroll db "
            "roles` again, or as superuser: ALTER EXTENSION vector SET SCHEMA public"
        )


def migration(connection: Connection) -> str | None:
    """Return the migration that the database is at."""
    return next(iter(column(connection, "SELECT max(version_num) FROM alembic_version")), None)


def require_upgradable(migration: str | None) -> None:
    """Raise `SchemaOutdated` for a migration from before the first release, which cannot be upgraded."""
    if migration is not None and migration < FIRST:
        raise SchemaOutdated(
            f"the database is of an older development version (migration {migration}), which cannot be upgraded: "
            "export what you need with that version, then import it into another data folder or an empty database"
        )


def unprotected_tables(connection: Connection) -> list[str]:
    """Return tables with a tenant on which row-level security is not forced."""
    return column(connection, _UNWALLED)


def invalid_indexes(connection: Connection) -> list[str]:
    """Return indexes that an interrupted build left invalid and that nobody is building."""
    return column(connection, _INVALID_INDEXES)


def rebuild(connection: Connection, index: str) -> None:
    """Rebuild an invalid index concurrently (owner, in autocommit)."""
    quoted = connection.scalar(_REBUILD, {"name": index})
    # a copy left by an interrupted rebuild is useless
    verb = "DROP INDEX CONCURRENTLY" if index.endswith(("_ccnew", "_ccold")) else "REINDEX INDEX CONCURRENTLY"
    run(connection, text(f"{verb} {quoted}"))


def most_searched(connection: Connection, least: float) -> dict[str, int]:
    """Return how many vectors of a table or partition a search of the tenant compares at most, if more than `least`."""
    return {str(table): int(most) for table, most in run(connection, _MOST_SEARCHED, least=least)}


def space_statuses(connection: Connection) -> list[tuple[str, str]]:
    """Return `(name, status)` of every space."""
    return [(row[0], row[1]) for row in run(connection, _SPACE_STATUSES)]


_COUNTED_VECTORS = " + ".join(
    f"(SELECT count(*) FROM {owner.table} v WHERE v.space_id = e.id)" for owner in OWNERS.values()
)
_RETIRED = text(
    f"SELECT e.name, {_COUNTED_VECTORS} FROM embedding_spaces e WHERE e.status = 'retired' ORDER BY e.id"
)


def retired_vectors(connection: Connection) -> dict[str, int]:
    """Count the vectors of one tenant in each retired space."""
    return {str(name): int(count) for name, count in run(connection, _RETIRED)}


def sample(connection: Connection, limit: int) -> list[str]:
    """Return some chats of a tenant, at random."""
    return column(connection, "SELECT chat_id FROM chats ORDER BY random() LIMIT :limit", limit=limit)


def counted(connection: Connection, chat_id: str) -> tuple[int, int]:
    """Count the placed `(messages, lexemes)` of a chat, which its counters should equal."""
    row = run(connection, _COUNTED, chat=chat_id).one()
    return int(row[0]), int(row[1])


def set_counters(connection: Connection, chat_id: str, messages: int, lexemes: int) -> None:
    """Set the counters of a chat that is locked."""
    run(connection, _SET_COUNTERS, chat=chat_id, messages=messages, lexemes=lexemes)


def _missing(kind: Kind, key: str, rows: str, chat: str = "t.chat_id") -> str:
    return f"SELECT {key} AS key, {chat} AS chat FROM {rows} AND {_WITHOUT_JOB.format(kind=kind, key=key)}"


_MISSING = {
    INGEST.name: _missing(
        INGEST,
        "t.chat_id",
        "(SELECT DISTINCT tenant_id, chat_id FROM arrivals WHERE quarantined_at IS NULL) t WHERE true",
    ),
    SUMMARIZE.name: _missing(
        SUMMARIZE,
        "'session:' || t.id",
        f"conversation_sessions t WHERE t.status = 'closed' AND {_REMEMBERED}",
    ),
}
# By owner what has text to embed, and the column of its chat.
EMBEDDABLE = {
    "message": (
        f"messages t WHERE t.content <> '' AND {_REMEMBERED} AND NOT {waits('t')}",
        "chat_id",
    ),
    "session": (
        f"conversation_sessions t WHERE t.status <> 'merged' AND t.summary_text IS NOT NULL AND {_REMEMBERED}",
        "chat_id",
    ),
    "memory": ("memories t WHERE true", "learned_in"),
}
_MISSING_VECTORS = " UNION ALL ".join(
    _missing(
        EMBED, f"'{name}:' || t.id", f"{rows} AND {_WITHOUT_VECTOR.format(owner=OWNERS[name])}", f"t.{chat}"
    )
    for name, (rows, chat) in EMBEDDABLE.items()
)


def missing_jobs(connection: Connection, *, summaries: bool) -> dict[str, str]:
    """Return the statements, by kind of job, that find one tenant's keys without a job that they need."""
    by_kind = {kind: statement for kind, statement in _MISSING.items() if summaries or kind != SUMMARIZE.name}
    return by_kind | ({EMBED.name: _MISSING_VECTORS} if vectors.exist(connection) else {})


def count_missing_jobs(connection: Connection, statement: str) -> int:
    """Count the keys that a statement of `missing_jobs` finds."""
    return number(connection, text(f"SELECT count(*) FROM ({statement}) lacking"))


def some_missing_jobs(connection: Connection, statement: str, limit: int) -> list[tuple[str, str | None]]:
    """Return some keys that a statement of `missing_jobs` finds, each with its chat if it has one."""
    return [(row.key, row.chat) for row in run(connection, text(f"{statement} LIMIT :limit"), limit=limit)]


_ORPHANS = [
    f"""{owner.table} v WHERE NOT EXISTS (SELECT 1 FROM {owner.source} o
        WHERE o.tenant_id = v.tenant_id AND o.id = v.{owner.owner} AND {owner.live})"""
    for owner in OWNERS.values()
]


def orphans(connection: Connection) -> int:
    """Count a tenant's vectors without a row, or of a session that was merged into another."""
    counts = " + ".join(f"(SELECT count(*) FROM {rows})" for rows in _ORPHANS)
    return number(connection, text(f"SELECT {counts}"))


def delete_orphans(connection: Connection) -> int:
    """Delete the vectors that `orphans` counts; return how many."""
    return sum(run(connection, text(f"DELETE FROM {rows}")).rowcount for rows in _ORPHANS)


SHOWN = 3
NEEDED = {"table", "column", "function"}
"""Kinds of lines without which statements fail; without others they are slow, or tenants are not isolated."""
_HARMFUL = {"column", "constraint", "policy", "trigger"}
"""Kinds of lines that nobody may add; indexes, tables and grants are the operator's to add."""
# Our tables (of partitioned ones only the parent) and our functions.
_OURS = """
    WITH ours AS (
        SELECT c.oid, c.relname AS name, c.relkind, c.relacl FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S') AND NOT c.relispartition
            AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('alembic_version'))
    ), functions AS (
        SELECT p.oid, p.oid::regprocedure::text AS name, p.proacl FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace
            AND p.proowner::regrole::text IN ('backscroll_owner', 'backscroll_search')
            AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    )
"""
# A line for each thing of the kinds in `NEEDED`: all that a process compares at its start.
_NEEDED = text(rf"""
    {_OURS} SELECT 'table ' || name FROM ours WHERE relkind <> 'S'
    UNION ALL SELECT 'column ' || name || ' ' || attname || ' ' || format_type(atttypid, atttypmod)
        || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
        FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped AND relkind <> 'S'
    UNION ALL SELECT 'function ' || name FROM functions
""")
# One for each of the others: its kind, the table or function that it belongs to, and what it is. Without indexes of
# spaces, which come and go, and the backup's rights, which `db roles` gives.
_OTHERS = text(rf"""
    {_OURS} SELECT 'constraint ' || name || ' ' || pg_get_constraintdef(k.oid)
        FROM ours JOIN pg_constraint k ON conrelid = ours.oid AND contype <> 'n' AND conparentid = 0
            -- partitioning gives them another key
            AND confrelid <> to_regclass('messages') AND NOT (contype = 'p' AND name IN ('messages', 'message_vectors'))
    UNION ALL SELECT 'index ' || name || ' ' || pg_get_indexdef(indexrelid)
        FROM ours JOIN pg_index ON indrelid = ours.oid
        WHERE NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
            AND NOT starts_with(indexrelid::regclass::text, name || '_space_')
    UNION ALL SELECT 'policy ' || name || ' ' || polname || ' ' || polcmd::text || ' '
        || array_to_string(polroles::regrole[], ' ') || ' ' || coalesce(pg_get_expr(polqual, ours.oid), '') || ' '
        || coalesce(pg_get_expr(polwithcheck, ours.oid), '') FROM ours JOIN pg_policy ON polrelid = ours.oid
    UNION ALL SELECT 'trigger ' || name || ' ' || pg_get_triggerdef(t.oid)
        FROM ours JOIN pg_trigger t ON tgrelid = ours.oid AND NOT tgisinternal
    UNION ALL SELECT 'body ' || name || ' ' || md5(pg_get_functiondef(oid)) FROM functions
    UNION ALL SELECT 'grant ' || name || ' ' || privilege_type || ' ' || grantee::regrole
        FROM (SELECT name, relacl AS acl FROM ours
            UNION ALL SELECT name || '(' || attname || ')', attacl FROM ours JOIN pg_attribute ON attrelid = ours.oid
            UNION ALL SELECT name, proacl FROM functions) given, aclexplode(acl)
        WHERE grantee <> 0
            AND grantee::regrole::text IN ('backscroll_app', 'backscroll_maintenance', 'backscroll_search')
""")


def catalog_lines(connection: Connection) -> list[str]:
    """Return a line for each thing that the catalog holds of our tables, sorted, each once."""
    return sorted(_read(connection, _NEEDED) | _read(connection, _OTHERS))


def _read(connection: Connection, statement: TextClause) -> frozenset[str]:
    schema = connection.scalar(text("SELECT current_schema() || '.'"))
    return frozenset(
        " ".join(line.replace(" ON ONLY ", " ON ").replace(schema, "").split())
        for line in column(connection, statement)
    )


@cache
def expected_catalog() -> frozenset[str]:
    """Return the lines that the newest migration makes, with pgvector."""
    return frozenset((files("migrations") / "schema.txt").read_text(encoding="utf-8").splitlines())


def require_catalog(connection: Connection) -> None:
    """Raise `SchemaOutdated` for a database that is at the newest migration and lacks what it makes."""
    needed = frozenset(line for line in expected_catalog() if line.partition(" ")[0] in NEEDED)
    lacking = [what for _, what in _lacking(connection, needed - _read(connection, _NEEDED))]
    if lacking:
        raise SchemaOutdated(
            f"the database is at migration {REVISION} and not as that makes it: {'; '.join(lacking[:SHOWN])}"
            f"{' …' if len(lacking) > SHOWN else ''}. A version under development made it: begin with another data "
            "folder or an empty database, and import again"
        )


def catalog_differences(connection: Connection) -> Iterator[tuple[bool, str]]:
    """Yield `(whether statements fail by it, what differs)` of a database that is at the newest migration."""
    present = frozenset(catalog_lines(connection))
    yield from _lacking(connection, expected_catalog() - present)
    for line in sorted(present - expected_catalog()):
        kind, table = line.split(" ", 2)[:2]
        if kind in _HARMFUL and f"table {table}" in expected_catalog():
            yield False, f"with {line}"


def _lacking(connection: Connection, missing: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Describe missing lines: tables first, nothing inside a missing table, nor vectors without pgvector."""
    is_there = vectors.exist(connection)
    vector_tables = {owner.table for owner in vectors.OWNERS.values()}
    parts = sorted((line.partition(" ") for line in missing), key=lambda line: (line[0] != "table", line))
    gone = {what for kind, _, what in parts if kind == "table"}
    for kind, _, what in parts:
        table = what.partition(" ")[0].partition("(")[0]
        if (is_there or table not in vector_tables) and (kind == "table" or table not in gone):
            yield kind in NEEDED, f"without {kind} {what}"

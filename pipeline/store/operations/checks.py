"""SQL of the doctor: checks of roles, tenant isolation, indexes and stored data, and their repairs."""

from typing import Any

from sqlalchemy import Connection, Row, text

from migrations import FIRST
from pipeline.store.connections.statements import column, holds, number, run
from pipeline.store.messages.messages import waits
from pipeline.store.vectors import vectors
from pipeline.store.vectors.vectors import OWNERS
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
# By owner of vectors, most of them that one search compares: the messages of a chat, an organization's documents.
_MOST_SEARCHED = {
    "message": text("SELECT max(message_count) FROM chats"),
    "memory": text("SELECT count(*) FROM memories WHERE scope = 'organization' AND type = 'document'"),
}
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


def most_searched(connection: Connection, kind: str) -> int:
    """Return how many vectors of a kind of owner a search of the tenant compares at most."""
    return number(connection, _MOST_SEARCHED[kind])


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

"""SQL of the doctor: facts about roles, walls, indexes and what is stored, and what mends it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.spaces import VECTOR_TABLES
from schemas.kinds import ARRIVAL, EMBED, INGEST, SUMMARIZE, Kind

_LOGIN = text("SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
_MIGRATION = text("SELECT max(version_num) FROM alembic_version")
_REBUILD = text("SELECT quote_ident(:name)")
_LARGEST_CHAT = text("SELECT max(message_count) FROM chats")
_SPACE_STATUSES = text("SELECT name, status FROM embedding_spaces ORDER BY id")
_SAMPLE = text("SELECT chat_id FROM chats ORDER BY random() LIMIT :limit")
_SET_COUNTERS = text(
    "UPDATE chats SET message_count = :messages, lexeme_count = :lexemes WHERE chat_id = :chat"
)
_NOW = text("SELECT clock_timestamp()")


def login(connection: Connection) -> tuple[str, bool]:
    """`(role, whether row-level security does not bind it)` of this connection."""
    row = connection.execute(_LOGIN).one()
    return str(row[0]), bool(row[1])


_SERVER = text("""
    SELECT current_setting('server_version_num')::int / 10000 AS version,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
        to_regclass('alembic_version') IS NOT NULL AS migrated, clock_timestamp() AS at
""")


def server(connection: Connection) -> Row[Any]:
    """`version` (major), `pgvector`, `migrated` (whether the tables are there) and `at`, the time."""
    return connection.execute(_SERVER).one()


def migration(connection: Connection) -> str | None:
    """The migration that the database is at."""
    found = connection.scalar(_MIGRATION)
    return None if found is None else str(found)


_UNWALLED = text("""
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
    ORDER BY c.relname
""")


def unwalled(connection: Connection) -> list[str]:
    """Tables with a tenant on which row-level security is not forced."""
    rows = connection.execute(_UNWALLED)
    return [row[0] for row in rows]


_INVALID_INDEXES = text("""
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.relation = i.indrelid
            AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted)
    ORDER BY c.relname
""")


def invalid_indexes(connection: Connection) -> list[str]:
    """Indexes that an interrupted build left invalid, and that nobody is building right now."""
    rows = connection.execute(_INVALID_INDEXES)
    return [row[0] for row in rows]


def rebuild(connection: Connection, index: str) -> None:
    """Build an invalid index anew beside running work (owner, in autocommit)."""
    quoted = connection.scalar(_REBUILD, {"name": index})
    # the copy that an interrupted rebuild left is of no use to anybody
    verb = "DROP INDEX CONCURRENTLY" if index.endswith(("_ccnew", "_ccold")) else "REINDEX INDEX CONCURRENTLY"
    connection.execute(text(f"{verb} {quoted}"))


def largest_chat(connection: Connection) -> int:
    """How many messages the largest chat of a tenant has."""
    return int(connection.scalar(_LARGEST_CHAT) or 0)


def space_statuses(connection: Connection) -> list[tuple[str, str]]:
    """`(name, status)` of every space."""
    rows = connection.execute(_SPACE_STATUSES)
    return [(row[0], row[1]) for row in rows]


def retired_vectors(connection: Connection) -> dict[str, int]:
    """How many vectors of one tenant lie in each retired space."""
    counted = " + ".join(
        f"(SELECT count(*) FROM {table} v WHERE v.space_id = e.id)" for table in VECTOR_TABLES
    )
    rows = connection.execute(
        text(f"SELECT e.name, {counted} FROM embedding_spaces e WHERE e.status = 'retired' ORDER BY e.id")
    )
    return {str(name): int(count) for name, count in rows}


_WORK = text(f"""
    SELECT kind, count(*) FILTER (WHERE due_at <= now() AND claimed IS NULL) AS late,
        coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE due_at <= now()
            AND claimed IS NULL)), 0)::float8 AS late_seconds,
        count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead
    FROM jobs WHERE due_at IS NOT NULL OR dead_at IS NOT NULL GROUP BY kind
    UNION ALL
    SELECT '{ARRIVAL}', 0, 0, count(*) FROM arrivals WHERE quarantined_at IS NOT NULL HAVING count(*) > 0
    ORDER BY kind
""")


def work(connection: Connection) -> Sequence[Row[Any]]:
    """By kind: rows that are due and claimed by nobody, for how long at most, and those given up."""
    return connection.execute(
        text("""
            SELECT kind, count(*) FILTER (WHERE due_at <= now() AND claimed IS NULL) AS late,
                coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE due_at <= now()
                    AND claimed IS NULL)), 0)::float8 AS late_seconds,
                count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead
            FROM jobs WHERE due_at IS NOT NULL OR dead_at IS NOT NULL GROUP BY kind
            UNION ALL
            SELECT 'arrival', 0, 0, count(*) FROM arrivals WHERE quarantined_at IS NOT NULL HAVING count(*) > 0
            UNION ALL
            SELECT 'payload', 0, 0, count(*) FROM refused_payloads HAVING count(*) > 0
            ORDER BY kind
        """)
    ).all()


def sample(connection: Connection, limit: int) -> list[str]:
    """Some chats of a tenant, at random."""
    rows = connection.execute(_SAMPLE, {"limit": limit})
    return [row[0] for row in rows]


_COUNTED = text("""
    SELECT count(*), coalesce(sum(length(m.tsv)), 0) FROM messages m
    WHERE m.chat_id = :chat AND NOT EXISTS (SELECT 1 FROM arrivals a
        WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
""")


def counted(connection: Connection, chat_id: str) -> tuple[int, int]:
    """`(messages, lexemes)` that a chat's counters should say: of what is placed."""
    row = connection.execute(_COUNTED, {"chat": chat_id}).one()
    return int(row[0]), int(row[1])


def set_counters(connection: Connection, chat_id: str, messages: int, lexemes: int) -> None:
    """Set the counters of a chat that is locked."""
    connection.execute(_SET_COUNTERS, {"chat": chat_id, "messages": messages, "lexemes": lexemes})


# A row of `jobs` with an error on it was given up or dropped: somebody knows of it.
_NOT_OWED = """NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = t.tenant_id AND w.kind = '{kind}'
    AND w.key = {key} AND (w.due_at IS NOT NULL OR w.dead_at IS NOT NULL OR w.last_error IS NOT NULL))"""
_WITHOUT_VECTOR = """EXISTS (SELECT 1 FROM embedding_spaces e WHERE e.status = 'active' AND NOT EXISTS (
    SELECT 1 FROM {table} v WHERE v.tenant_id = t.tenant_id AND v.{column} = t.id AND v.space_id = e.id))"""
_REMEMBERED = (
    "EXISTS (SELECT 1 FROM chats c WHERE c.tenant_id = t.tenant_id AND c.chat_id = t.chat_id AND c.memory)"
)


def _unowed(kind: Kind, key: str, rows: str, chat: str = "t.chat_id") -> str:
    return f"SELECT {key} AS key, {chat} AS chat FROM {rows} AND {_NOT_OWED.format(kind=kind, key=key)}"


_UNOWED = {
    INGEST.name: _unowed(
        INGEST,
        "t.chat_id",
        "(SELECT DISTINCT tenant_id, chat_id FROM arrivals WHERE quarantined_at IS NULL) t WHERE true",
    ),
    SUMMARIZE.name: _unowed(
        SUMMARIZE,
        "'session:' || t.id",
        f"conversation_sessions t WHERE t.status = 'closed' AND {_REMEMBERED}",
    ),
}
_UNOWED_VECTORS = " UNION ALL ".join(
    [
        _unowed(
            EMBED,
            "'message:' || t.id",
            f"""messages t WHERE t.content <> '' AND {_REMEMBERED}
                AND {_WITHOUT_VECTOR.format(table="message_vectors", column="message_id")}
                AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = t.tenant_id AND a.message_id = t.id)""",
        ),
        _unowed(
            EMBED,
            "'session:' || t.id",
            f"""conversation_sessions t WHERE t.status <> 'merged' AND t.summary_text IS NOT NULL AND {_REMEMBERED}
                AND {_WITHOUT_VECTOR.format(table="session_vectors", column="session_id")}""",
        ),
        _unowed(
            EMBED,
            "'memory:' || t.id",
            f"memories t WHERE {_WITHOUT_VECTOR.format(table='memory_vectors', column='memory_id')}",
            "t.learned_in",
        ),
    ]
)


def unowed(connection: Connection, *, summaries: bool) -> dict[str, str]:
    """By kind of work the statement that finds the keys of one tenant which lack it and nobody owes."""
    found = {kind: statement for kind, statement in _UNOWED.items() if summaries or kind != SUMMARIZE.name}
    return found | ({EMBED.name: _UNOWED_VECTORS} if vectors.exist(connection) else {})


def count_unowed(connection: Connection, statement: str) -> int:
    """How many keys one of the statements of `unowed` finds."""
    return int(connection.scalar(text(f"SELECT count(*) FROM ({statement}) lacking")) or 0)


def some_unowed(connection: Connection, statement: str, limit: int) -> list[tuple[str, str | None]]:
    """Some keys that one of the statements of `unowed` finds, each with its chat, if it has one."""
    rows = connection.execute(text(f"{statement} LIMIT :limit"), {"limit": limit})
    return [(row.key, row.chat) for row in rows]


_ORPHANS = {
    "message_vectors": """message_vectors v WHERE NOT EXISTS (
        SELECT 1 FROM messages m WHERE m.tenant_id = v.tenant_id AND m.id = v.message_id)""",
    "session_vectors": """session_vectors v WHERE NOT EXISTS (SELECT 1 FROM conversation_sessions s
        WHERE s.tenant_id = v.tenant_id AND s.id = v.session_id AND s.status <> 'merged')""",
    "memory_vectors": """memory_vectors v WHERE NOT EXISTS (
        SELECT 1 FROM memories m WHERE m.tenant_id = v.tenant_id AND m.id = v.memory_id)""",
}


def orphans(connection: Connection) -> int:
    """How many vectors of a tenant have no row, or that of a session which has gone into another."""
    counts = " + ".join(f"(SELECT count(*) FROM {rows})" for rows in _ORPHANS.values())
    return int(connection.scalar(text(f"SELECT {counts}")) or 0)


def delete_orphans(connection: Connection) -> int:
    """Delete those vectors; how many they were."""
    return sum(connection.execute(text(f"DELETE FROM {rows}")).rowcount for rows in _ORPHANS.values())


def now(connection: Connection) -> datetime:
    """The database's clock at this very moment."""
    at: datetime = connection.execute(_NOW).scalar_one()
    return at

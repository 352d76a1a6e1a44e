"""SQL of backfills: what they are asked, how far they are, and the windows of rows they look at."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from schemas.backfills import Backfill, BackfillRequest

_COLUMNS = 'id, filter, state, "cursor", total, seen, raised, error, created_at, updated_at, finished_at'

_LISTING = text(f"SELECT {_COLUMNS} FROM backfills ORDER BY id DESC LIMIT :limit")


def _as_backfill(row: Row[Any]) -> Backfill:
    fields = dict(row._mapping)
    return Backfill(request=BackfillRequest.model_validate(fields.pop("filter")), **fields)


_INSERT = text(f"""
    INSERT INTO backfills (tenant_id, kind, filter, batch_size, rate_per_second, total)
    VALUES (:tenant, :kind, :filter, :batch_size, :rate, :total) RETURNING {_COLUMNS}
""").bindparams(bindparam("filter", type_=JSONB))


def insert(connection: Connection, tenant_id: str, request: BackfillRequest, total: int) -> Backfill:
    """Begin a backfill."""
    row = connection.execute(
        _INSERT,
        {
            "tenant": tenant_id,
            "kind": request.kind,
            "filter": request.model_dump(mode="json"),
            "batch_size": request.batch_size,
            "rate": request.rate_per_second,
            "total": total,
        },
    ).one()
    return _as_backfill(row)


def get(connection: Connection, backfill_id: int, *, lock: bool = False) -> Backfill | None:
    """The backfill, or None when the tenant has none of that id."""
    row = connection.execute(
        text(f"SELECT {_COLUMNS} FROM backfills WHERE id = :id {'FOR UPDATE' if lock else ''}"),
        {"id": backfill_id},
    ).one_or_none()
    return _as_backfill(row) if row else None


def listing(connection: Connection, limit: int) -> list[Backfill]:
    """The newest backfills."""
    rows = connection.execute(_LISTING, {"limit": limit})
    return [_as_backfill(row) for row in rows]


_SET_STATE = text("""
    UPDATE backfills SET state = :state, error = :error, updated_at = now(),
        finished_at = CASE WHEN :state IN ('running', 'paused') THEN NULL ELSE now() END
    WHERE id = :id
""")


def set_state(connection: Connection, backfill_id: int, state: str, *, error: str | None = None) -> None:
    """Pause, resume, cancel or end a backfill."""
    connection.execute(_SET_STATE, {"id": backfill_id, "state": state, "error": error})


_ADVANCE = text("""
    UPDATE backfills SET "cursor" = :cursor, seen = seen + :seen, raised = raised + :raised,
        updated_at = now()
    WHERE id = :id
""").bindparams(bindparam("cursor", type_=JSONB))


def advance(connection: Connection, backfill_id: int, cursor: dict[str, Any], seen: int, raised: int) -> None:
    """Note how far a backfill has come."""
    connection.execute(_ADVANCE, {"id": backfill_id, "cursor": cursor, "seen": seen, "raised": raised})


# What each kind looks at: a table with its keyset, the work key of a row, its chat, whether it is missing something.
_OF_CHAT = "(CAST(:chat AS text) IS NULL OR t.{chat} = :chat)"
_SINCE = "(CAST(:since AS timestamptz) IS NULL OR t.{time} >= :since)"
_UNTIL = "(CAST(:until AS timestamptz) IS NULL OR t.{time} < :until)"


def _filters(time: str, chat: str = "chat_id") -> str:
    return f"{_OF_CHAT.format(chat=chat)} AND {_SINCE.format(time=time)} AND {_UNTIL.format(time=time)}"


SOURCES = {
    "embed_sessions": f"""
        SELECT t.id AS position, 'session:' || t.id AS key, t.chat_id AS chat,
            NOT EXISTS (SELECT 1 FROM session_vectors v WHERE v.tenant_id = t.tenant_id
                AND v.session_id = t.id AND v.space_id = :space) AS missing
        FROM conversation_sessions t
        WHERE t.status <> 'merged' AND t.summary_text IS NOT NULL AND {_filters("ended_at")}
    """,
    "embed_messages": f"""
        SELECT t.id AS position, 'message:' || t.id AS key, t.chat_id AS chat,
            NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.tenant_id = t.tenant_id
                AND v.message_id = t.id AND v.space_id = :space) AS missing
        FROM messages t WHERE t.content <> '' AND {_filters("sent_at")}
    """,
    "embed_memories": f"""
        SELECT t.id AS position, 'memory:' || t.id AS key, t.learned_in AS chat,
            NOT EXISTS (SELECT 1 FROM memory_vectors v WHERE v.tenant_id = t.tenant_id
                AND v.memory_id = t.id AND v.space_id = :space) AS missing
        FROM memories t WHERE {_filters("created_at", "learned_in")}
    """,
    "summarize": f"""
        SELECT t.id AS position, 'session:' || t.id AS key, t.chat_id AS chat,
            (t.status = 'failed' OR t.summary_revision IS DISTINCT FROM t.revision
                OR t.summary_version IS DISTINCT FROM :version) AS missing
        FROM conversation_sessions t
        WHERE t.status IN ('closed', 'summarized', 'failed', 'skipped') AND t.message_count >= :min_messages
            AND {_filters("ended_at")}
    """,
    "sessionize": """
        SELECT t.chat_id AS position, t.chat_id AS key, t.chat_id AS chat, true AS missing FROM chats t
        WHERE (CAST(:chat AS text) IS NULL OR t.chat_id = :chat)
    """,
}


def _type(source: str) -> str:
    """The type of a source's positions."""
    return {"sessionize": "text", "embed_memories": "uuid"}.get(source, "bigint")


def window(
    connection: Connection, source: str, after: str | int | None, limit: int, **given: Any
) -> Sequence[Row[Any]]:
    """The next rows `(position, key, chat, missing)` of a source after a position, in order."""
    kind = _type(source)
    return connection.execute(
        text(f"""
            SELECT * FROM ({SOURCES[source]}) s
            WHERE CAST(:after AS {kind}) IS NULL OR position > CAST(:after AS {kind})
            ORDER BY position LIMIT :batch
        """),
        {"after": after, "batch": limit, **given},
    ).all()


def count(connection: Connection, source: str, **given: Any) -> tuple[int, int]:
    """`(all, missing)` rows of a source."""
    row = connection.execute(
        text(f"SELECT count(*), count(*) FILTER (WHERE missing) FROM ({SOURCES[source]}) s"), given
    ).one()
    return int(row[0]), int(row[1])


def outstanding(
    connection: Connection,
    source: str,
    upto: str | None,
    *,
    raised_until: datetime,
    missing_only: bool,
    **given: Any,
) -> tuple[bool, int]:
    """Whether anything up to a position of a source is still owed, and how many of its rows were given up.

    With `missing_only` what is not missing does not matter; without, what has been owed since a later moment.
    """
    kind, _, _ = source.partition("_")
    prefix = {"embed_messages": "message:", "embed_memories": "memory:"}.get(source, "session:")
    # from the work to what it is about: the other way round all that is stored would be looked at
    asked = f"""
        FROM (SELECT *, CASE WHEN starts_with(key, '{prefix}')
                THEN CAST(substr(key, {len(prefix) + 1}) AS {_type(source)}) END AS position
            FROM jobs WHERE kind = '{kind}') w
        JOIN ({SOURCES[source]}) s ON s.position = w.position
        WHERE s.position <= CAST(:upto AS {_type(source)}) AND (s.missing OR NOT :missing_only)
    """
    row = connection.execute(
        text(f"""
            SELECT EXISTS (SELECT 1 {asked} AND w.due_at IS NOT NULL AND (:missing_only OR w.pending_since <= :moment)),
                (SELECT count(*) {asked} AND w.due_at IS NULL
                    AND (w.dead_at IS NOT NULL OR w.last_error IS NOT NULL))
        """),
        {**given, "upto": upto, "moment": raised_until, "missing_only": missing_only},
    ).one()
    return bool(row[0]), int(row[1])

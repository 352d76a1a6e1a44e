"""SQL that writes vectors; reading them by likeness stands in `nearest`."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from schemas.vectors import Vector


def exist(connection: Connection) -> bool:
    """Whether the vector tables are there (they need pgvector)."""
    return connection.scalar(text("SELECT to_regclass('message_vectors')")) is not None


def known_hashes(connection: Connection, space_id: int, hashes: Sequence[bytes]) -> set[bytes]:
    """Which of these texts some message of the tenant has a vector for in the space."""
    rows = connection.execute(
        text(
            "SELECT DISTINCT content_hash FROM message_vectors WHERE space_id = :space AND content_hash = ANY(:hashes)"
        ),
        {"space": space_id, "hashes": list(hashes)},
    )
    return {bytes(row[0]) for row in rows}


def literal(vector: Vector) -> str:
    """A vector in pgvector's own notation.

    >>> literal([0.5, -1.0])
    '[0.5,-1.0]'
    """
    return "[" + ",".join(map(repr, vector)) + "]"


def put_messages(
    connection: Connection, tenant_id: str, space_id: int, rows: Sequence[tuple[int, bytes, Vector | None]]
) -> None:
    """Write vectors of messages `(id, content hash, vector)`.

    Without a vector the one of another message with the same text is copied. Messages that are gone are
    left out.
    """
    connection.execute(
        text("""
            INSERT INTO message_vectors (tenant_id, message_id, space_id, chat_id, sent_at, content_hash, embedding)
            SELECT :tenant, m.id, :space, m.chat_id, m.sent_at, given.hash,
                coalesce(CAST(given.embedding AS halfvec), (SELECT v.embedding FROM message_vectors v
                    WHERE v.tenant_id = :tenant AND v.space_id = :space AND v.content_hash = given.hash LIMIT 1))
            FROM unnest(CAST(:ids AS bigint[]), CAST(:hashes AS bytea[]), CAST(:embeddings AS text[]))
                AS given (id, hash, embedding)
            JOIN messages m ON m.tenant_id = :tenant AND m.id = given.id
            ORDER BY m.id
            ON CONFLICT (tenant_id, message_id, space_id) DO UPDATE
                SET content_hash = excluded.content_hash, embedding = excluded.embedding
        """),
        {
            "tenant": tenant_id,
            "space": space_id,
            "ids": [row[0] for row in rows],
            "hashes": [row[1] for row in rows],
            "embeddings": [None if row[2] is None else literal(row[2]) for row in rows],
        },
    )


def put_sessions(
    connection: Connection, tenant_id: str, space_id: int, rows: Sequence[tuple[int, bytes, Vector]]
) -> None:
    """Write vectors of sessions `(id, content hash, vector)`; those that are gone or merged are left out."""
    connection.execute(
        text("""
            INSERT INTO session_vectors (tenant_id, session_id, space_id, chat_id, ended_at, content_hash, embedding)
            SELECT :tenant, s.id, :space, s.chat_id, s.ended_at, given.hash, CAST(given.embedding AS halfvec)
            FROM unnest(CAST(:ids AS bigint[]), CAST(:hashes AS bytea[]), CAST(:embeddings AS text[]))
                AS given (id, hash, embedding)
            JOIN conversation_sessions s ON s.tenant_id = :tenant AND s.id = given.id AND s.status <> 'merged'
            ORDER BY s.id
            ON CONFLICT (tenant_id, session_id, space_id) DO UPDATE SET ended_at = excluded.ended_at,
                content_hash = excluded.content_hash, embedding = excluded.embedding
        """),
        {
            "tenant": tenant_id,
            "space": space_id,
            "ids": [row[0] for row in rows],
            "hashes": [row[1] for row in rows],
            "embeddings": [literal(row[2]) for row in rows],
        },
    )


def put_memories(
    connection: Connection, tenant_id: str, space_id: int, rows: Sequence[tuple[str, bytes, Vector]]
) -> None:
    """Write vectors of memories `(id, content hash, vector)`; those that are gone are left out."""
    connection.execute(
        text("""
            INSERT INTO memory_vectors (tenant_id, memory_id, space_id, scope, content_hash, embedding)
            SELECT :tenant, m.id, :space, m.scope, given.hash, CAST(given.embedding AS halfvec)
            FROM unnest(CAST(:ids AS uuid[]), CAST(:hashes AS bytea[]), CAST(:embeddings AS text[]))
                AS given (id, hash, embedding)
            JOIN memories m ON m.tenant_id = :tenant AND m.id = given.id
            ORDER BY m.id
            ON CONFLICT (tenant_id, memory_id, space_id) DO UPDATE
                SET content_hash = excluded.content_hash, embedding = excluded.embedding
        """),
        {
            "tenant": tenant_id,
            "space": space_id,
            "ids": [row[0] for row in rows],
            "hashes": [row[1] for row in rows],
            "embeddings": [literal(row[2]) for row in rows],
        },
    )


def drop_sessions(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the vectors of sessions that are gone into others."""
    if exist(connection):
        connection.execute(
            text("DELETE FROM session_vectors WHERE session_id = ANY(:ids)"), {"ids": list(session_ids)}
        )

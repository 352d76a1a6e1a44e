"""SQL that writes vectors and reads them by their message; reading them by likeness stands in `nearest`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, TextClause, text

from schemas.vectors import EmbeddingSpace, Vector


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


def of_messages(connection: Connection, space: EmbeddingSpace, ids: Sequence[int]) -> dict[int, Vector]:
    """The vectors of those of these messages that have one."""
    rows = connection.execute(
        text(
            "SELECT message_id, embedding::text FROM message_vectors WHERE space_id = :s AND message_id = ANY(:ids)"
        ),
        {"s": space.id, "ids": list(ids)},
    )
    return {row[0]: [float(value) for value in row[1].strip("[]").split(",")] for row in rows}


def literal(vector: Vector) -> str:
    """A vector in pgvector's own notation.

    With five digits, as half precision has fewer: all that a float has take four times as long to write and read.

    >>> literal([0.5, -1.0, 0.0123456789])
    '[0.5,-1,0.012346]'
    """
    return _notation(len(vector)) % tuple(vector)


@lru_cache(maxsize=8)
def _notation(dimensions: int) -> str:
    return f"[{','.join(['%.5g'] * dimensions)}]"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Where the vectors of one kind of owner lie, and what is copied from the owner so that no scan needs a join."""

    table: str
    owner: str
    # the owner's own table; merged sessions have no vectors
    source: str
    id_type: str
    copied: Sequence[str]
    live: str = "true"

    def statement(self) -> TextClause:
        """Write vectors of owners that are still there; one without an embedding copies its twin's."""
        copied = ", ".join(self.copied)
        renewed = ", ".join(
            f"{name} = excluded.{name}" for name in (*self.copied, "content_hash", "embedding")
        )
        return text(f"""
            INSERT INTO {self.table} (tenant_id, {self.owner}, space_id, {copied}, content_hash, embedding)
            SELECT :tenant, o.id, :space, {", ".join(f"o.{name}" for name in self.copied)}, given.hash,
                coalesce(CAST(given.embedding AS halfvec), (SELECT v.embedding FROM {self.table} v
                    WHERE v.tenant_id = :tenant AND v.space_id = :space AND v.content_hash = given.hash LIMIT 1))
            FROM unnest(CAST(:ids AS {self.id_type}[]), CAST(:hashes AS bytea[]), CAST(:embeddings AS text[]))
                AS given (id, hash, embedding)
            JOIN {self.source} o ON o.tenant_id = :tenant AND o.id = given.id AND {self.live}
            ORDER BY o.id
            ON CONFLICT (tenant_id, {self.owner}, space_id) DO UPDATE SET {renewed}
        """)


KINDS = {
    "message": Kind(
        table="message_vectors",
        owner="message_id",
        source="messages",
        id_type="bigint",
        copied=("chat_id", "sent_at"),
    ),
    "session": Kind(
        table="session_vectors",
        owner="session_id",
        source="conversation_sessions",
        id_type="bigint",
        copied=("chat_id", "ended_at"),
        live="o.status <> 'merged'",
    ),
    "memory": Kind(
        table="memory_vectors", owner="memory_id", source="memories", id_type="uuid", copied=("scope",)
    ),
}


def put(
    connection: Connection,
    tenant_id: str,
    kind: str,
    space_id: int,
    rows: Sequence[tuple[str, bytes, Vector | None]],
) -> None:
    """Write vectors `(owner's id, content hash, vector)` of one kind of owner.

    Without a vector that of another owner with the same text is copied. Owners that are gone are left out.
    """
    connection.execute(
        KINDS[kind].statement(),
        {
            "tenant": tenant_id,
            "space": space_id,
            "ids": [row[0] for row in rows],
            "hashes": [row[1] for row in rows],
            "embeddings": [None if row[2] is None else literal(row[2]) for row in rows],
        },
    )


def drop_sessions(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the vectors of sessions that are gone into others."""
    if exist(connection):
        connection.execute(
            text("DELETE FROM session_vectors WHERE session_id = ANY(:ids)"), {"ids": list(session_ids)}
        )

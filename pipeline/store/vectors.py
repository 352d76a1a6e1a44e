"""SQL of vectors: their spaces, and writing and reading them by owner."""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgvector import HalfVector
from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store.connections.statements import HalfVectors, arrays, holds, run, run_in_binary
from schemas.vectors import Calibration, EmbeddingSpace, Vector

_KNOWN_HASHES = text(
    "SELECT DISTINCT content_hash FROM message_vectors WHERE space_id = :space AND content_hash = ANY(:hashes)"
)
_OF_MESSAGES = text("""
    SELECT message_id, embedding FROM message_vectors
    WHERE space_id = :space AND message_id = ANY(:ids) AND chunk_index = 0 AND chat_id = :chat
""")
COLUMNS = "id, provider, model, dimensions, query_prefix, document_prefix, calibration"
_ACTIVE_SPACE = text(f"SELECT {COLUMNS} FROM embedding_spaces WHERE status = 'active'")
_SEARCHED_SPACE = text(f"""
    SELECT {COLUMNS} FROM embedding_spaces
    WHERE status = 'active' AND to_regclass('message_vectors') IS NOT NULL
""")
_WRITTEN_SPACES = text(
    f"SELECT {COLUMNS} FROM embedding_spaces WHERE status <> 'retired' ORDER BY status <> 'active', id"
)


def exist(connection: Connection) -> bool:
    """Tell whether the vector tables exist (they need pgvector)."""
    return holds(connection, "SELECT to_regclass('message_vectors') IS NOT NULL")


def table_of(chat: str) -> str:
    """Return SQL of the table that the vectors of the messages of a chat are in, which may be a partition.

    Null without pgvector, or without messages.
    """
    # partitions of both tables have the same numbers
    return f"""(
        SELECT coalesce(to_regclass(replace(tableoid::regclass::text, 'messages', 'message_vectors')),
            to_regclass('message_vectors'))
        FROM messages WHERE chat_id = {chat} LIMIT 1)"""


def known_hashes(connection: Connection, space_id: int, hashes: Sequence[bytes]) -> set[bytes]:
    """Return the hashes of texts that some message of the tenant has a vector for in the space."""
    return {bytes(row[0]) for row in run(connection, _KNOWN_HASHES, space=space_id, hashes=hashes)}


def current(connection: Connection, kind: str, space_id: int, texts: Mapping[str, bytes]) -> set[str]:
    """Return those owners of a kind, given with their texts' hashes, whose vector in the space is of that text."""
    rows = run(connection, OWNERS[kind].hashes(), space=space_id, **arrays("ids hashes", texts.items()))
    return {str(row[0]) for row in rows}


def of_messages(
    connection: Connection, space: EmbeddingSpace, chat_id: str, ids: Sequence[int]
) -> dict[int, Vector]:
    """Return the vectors of these messages of a chat, if they have one; for a long message, that of its beginning."""
    rows = run_in_binary(connection, _OF_MESSAGES, space=space.id, chat=chat_id, ids=list(ids))
    return {id_: vector.to_list() for id_, vector in rows}


def distance(space: EmbeddingSpace, embedding: str = "embedding", query: str = ":query") -> str:
    """Return SQL of the cosine distance of a column to a parameter; 1 minus it is the cosine.

    The number of dimensions is part of the statement: as a parameter it would lose the index.
    """
    size = int(space.dimensions)
    return f"{embedding}::halfvec({size}) <=> CAST({query} AS halfvec({size}))"


def cosine(calibration: Calibration | None, distance: str) -> str:
    """Return SQL of the cosine that a distance stands for, on the scale that all spaces share."""
    slope, height = (calibration.slope, calibration.height) if calibration else (1.0, 0.0)
    return f"({height + slope:.6f}::float8 - {slope:.6f}::float8 * ({distance}))"


def in_space(space: EmbeddingSpace, row: str = "") -> str:
    """Return the SQL condition that a row of a vector table is of this space."""
    return f"{row}space_id = {int(space.id or 0)}"


def halved(vector: Vector) -> HalfVector:
    """Return a vector as a statement's parameter; what numpy has made goes there without a list of Python's numbers.

    >>> halved([0.5, -1.0]) == halved(array("f", [0.5, -1.0]))
    True
    """
    if isinstance(vector, array) and (numpy := sys.modules.get("numpy")):
        return HalfVector(numpy.frombuffer(vector, "f4"))
    return HalfVector(list(vector))


@dataclass(frozen=True, kw_only=True)
class VectorOwner:
    """The table of one kind of owner's vectors, and the columns copied from the owner so that no scan needs a join."""

    table: str
    owner: str
    # the owner's own table; merged sessions have no vectors
    source: str
    id_type: str
    copied: Sequence[str] = ()
    live: str = "true"

    def hashes(self) -> TextClause:
        """Return SQL that finds the owners whose vector is of a given text."""
        return text(f"""
            SELECT DISTINCT v.{self.owner} FROM {self.table} v
            JOIN unnest(CAST(:ids AS {self.id_type}[]), CAST(:hashes AS bytea[])) AS given (id, hash)
                ON v.{self.owner} = given.id AND v.content_hash = given.hash
            WHERE v.space_id = :space
        """)

    def insert(self) -> TextClause:
        """Return SQL that writes the vectors of owners that still exist, one for each chunk."""
        return self._insert("""
            unnest(CAST(:ids AS {type}[]), CAST(:hashes AS bytea[]), CAST(:chunks AS smallint[]),
                CAST(:vectors AS halfvec[])) AS given (id, hash, chunk, embedding)
        """)

    def copy(self) -> TextClause:
        """Return SQL that copies the vectors of all chunks from another owner with the same text."""
        # without such an owner the embedding is null, which the table refuses: the next attempt embeds it
        return self._insert(
            f"""
            (SELECT given.id, given.hash, coalesce(twin.chunk_index, 0) AS chunk, twin.embedding
            FROM unnest(CAST(:ids AS {{type}}[]), CAST(:hashes AS bytea[])) AS given (id, hash)
            LEFT JOIN LATERAL (SELECT v.{self.owner} AS id FROM {self.table} v
                WHERE v.tenant_id = :tenant AND v.space_id = :space AND v.content_hash = given.hash LIMIT 1
            ) AS found ON true
            LEFT JOIN {self.table} twin ON twin.tenant_id = :tenant AND twin.space_id = :space
                AND twin.{self.owner} = found.id AND twin.content_hash = given.hash) AS given
            """
        )

    def _insert(self, rows: str) -> TextClause:
        copied = "".join(f", {name}" for name in self.copied)
        copies = "".join(f", o.{name}" for name in self.copied)
        renewed = ", ".join(
            f"{name} = excluded.{name}" for name in (*self.copied, "content_hash", "embedding")
        )
        return text(f"""
            INSERT INTO {self.table}
                (tenant_id, {self.owner}, space_id, chunk_index{copied}, content_hash, embedding)
            SELECT :tenant, o.id, :space, given.chunk{copies}, given.hash, given.embedding
            FROM {rows.format(type=self.id_type)}
            -- one that is being deleted is waited for here: found gone by the foreign key, it would fail all others
            JOIN (SELECT * FROM {self.source} o WHERE o.tenant_id = :tenant
                AND o.id = ANY(CAST(:ids AS {self.id_type}[])) AND {self.live} FOR KEY SHARE) o ON o.id = given.id
            ORDER BY o.id, given.chunk
            -- by its name: in partitions the key has the chat, too
            ON CONFLICT ON CONSTRAINT {self.table}_pkey DO UPDATE SET {renewed}
        """)

    def trim(self) -> TextClause:
        """Return SQL that deletes leftover chunks of a longer text, after the last one of the present text."""
        return text(f"""
            DELETE FROM {self.table} v
            USING unnest(CAST(:ids AS {self.id_type}[]), CAST(:hashes AS bytea[]), CAST(:counts AS integer[]))
                AS given (id, hash, count)
            WHERE v.tenant_id = :tenant AND v.space_id = :space AND v.{self.owner} = given.id
                AND v.chunk_index > 0 AND (v.content_hash <> given.hash OR v.chunk_index >= given.count)
        """)


OWNERS = {
    "message": VectorOwner(
        table="message_vectors",
        owner="message_id",
        source="messages",
        id_type="bigint",
        copied=("chat_id", "sent_at"),
    ),
    "session": VectorOwner(
        table="session_vectors",
        owner="session_id",
        source="conversation_sessions",
        id_type="bigint",
        copied=("chat_id",),
        live="o.status <> 'merged'",
    ),
    "memory": VectorOwner(table="memory_vectors", owner="memory_id", source="memories", id_type="uuid"),
}


def put(
    connection: Connection,
    tenant_id: str,
    kind: str,
    space_id: int,
    rows: Sequence[tuple[str, bytes, Sequence[Vector] | None]],
) -> None:
    """Write vectors `(owner's id, content hash, vector of each chunk)` of one kind of owner, in place of earlier ones.

    Owners that are gone are left out. Without vectors, those of another owner with the same text are copied.
    """
    owner, common = OWNERS[kind], {"tenant": tenant_id, "space": space_id}
    made = [(i, hash_, vectors) for i, hash_, vectors in rows if vectors is not None]
    if made:
        chunks = [(i, hash_, n, halved(v)) for i, hash_, vectors in made for n, v in enumerate(vectors)]
        written: dict[str, Any] = arrays("ids hashes chunks vectors", chunks)
        written["vectors"] = HalfVectors(written["vectors"])
        run(connection, owner.insert(), **common, **written)
    if known := [(i, hash_) for i, hash_, vectors in rows if vectors is None]:
        run(connection, owner.copy(), **common, **arrays("ids hashes", known))
    counted = [(i, hash_, len(vectors) if vectors else None) for i, hash_, vectors in rows]
    run(connection, owner.trim(), **common, **arrays("ids hashes counts", counted))


def drop_sessions(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the vectors of sessions that were merged into others."""
    if exist(connection):
        run(connection, "DELETE FROM session_vectors WHERE session_id = ANY(:ids)", ids=session_ids)


def _one(rows: Iterable[Row[Any]]) -> EmbeddingSpace | None:
    return next((as_space(row._asdict().items()) for row in rows), None)


def as_space(columns: Iterable[tuple[str, Any]]) -> EmbeddingSpace:
    """Return a row's `COLUMNS` as a value."""
    known = dict(columns)
    measured = known.pop("calibration") or {}
    return EmbeddingSpace(**known | {kind: Calibration(**figures) for kind, figures in measured.items()})


def active_space(connection: Connection) -> EmbeddingSpace | None:
    """Return the space that searches use, or None if there is none yet."""
    return _one(run(connection, _ACTIVE_SPACE))


def searched_space(connection: Connection) -> EmbeddingSpace | None:
    """Return the active space if the vector tables exist, which they do not without pgvector."""
    return _one(run(connection, _SEARCHED_SPACE))


def written_spaces(connection: Connection) -> list[EmbeddingSpace]:
    """Return the spaces that new vectors go into: all but retired ones, the active one first."""
    return [as_space(row._asdict().items()) for row in run(connection, _WRITTEN_SPACES)]

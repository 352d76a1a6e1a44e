"""SQL of the vector indexes, one for each space."""

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import column, run
from pipeline.store.vectors import vectors
from schemas.vectors import EmbeddingSpace

MAX_INDEXED_DIMENSIONS = 4000
"""Maximum dimensions of a `halfvec` that pgvector indexes."""


_IS_INDEXED = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


INDEXED = ("message", "memory")
"""Owners whose vectors are indexed if there are many; no chat has that many sessions."""


def index_of(kind: str, space: EmbeddingSpace) -> str:
    """Return the name of the HNSW index of the space's vectors of a kind of owner."""
    return f"{vectors.OWNERS[kind].index_prefix}{int(space.id or 0)}"


def is_indexed(connection: Connection, kind: str, space: EmbeddingSpace) -> bool | None:
    """Tell whether that index can be used; None if it does not exist."""
    return next(iter(column(connection, _IS_INDEXED, name=index_of(kind, space))), None)


def build_index(connection: Connection, kind: str, space: EmbeddingSpace) -> None:
    """Build that index concurrently (owner, in autocommit); space and size are part of its definition."""
    statement = text(f"""
        CREATE INDEX CONCURRENTLY {index_of(kind, space)} ON {vectors.OWNERS[kind].table}
        USING hnsw ((embedding::halfvec({int(space.dimensions)})) halfvec_cosine_ops)
        WITH (m = 16, ef_construction = 64) WHERE space_id = {int(space.id or 0)}
    """)
    run(connection, statement)


def drop_index(connection: Connection, kind: str, space: EmbeddingSpace) -> None:
    """Drop that index concurrently (owner, in autocommit)."""
    run(connection, text(f"DROP INDEX CONCURRENTLY IF EXISTS {index_of(kind, space)}"))

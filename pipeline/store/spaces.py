"""SQL of embedding spaces and the indexes over their messages' vectors."""

from sqlalchemy import Connection, text

from schemas.vectors import EmbeddingSpace

VECTOR_TABLES = ("message_vectors", "session_vectors", "memory_vectors")
_COLUMNS = "id, provider, model, dimensions, query_prefix, document_prefix"

_ACTIVE = text(f"SELECT {_COLUMNS} FROM embedding_spaces WHERE status = 'active'")


def active(connection: Connection) -> EmbeddingSpace | None:
    """The space that searches compare in, or None before there is one."""
    row = connection.execute(_ACTIVE).one_or_none()
    return EmbeddingSpace(**row._mapping) if row else None


_SEARCHED = text(f"""
    SELECT {_COLUMNS} FROM embedding_spaces
    WHERE status = 'active' AND to_regclass('message_vectors') IS NOT NULL
""")


def searched(connection: Connection) -> EmbeddingSpace | None:
    """The active space where there are vectors to compare with: without pgvector their tables are not there."""
    row = connection.execute(_SEARCHED).one_or_none()
    return EmbeddingSpace(**row._mapping) if row else None


_WRITTEN = text(f"SELECT {_COLUMNS} FROM embedding_spaces WHERE status <> 'retired' ORDER BY id")


def written(connection: Connection) -> list[EmbeddingSpace]:
    """The spaces that new vectors go into: the active one and those being built."""
    rows = connection.execute(_WRITTEN)
    return [EmbeddingSpace(**row._mapping) for row in rows]


_REGISTER = text("""
    INSERT INTO embedding_spaces (name, provider, model, dimensions, query_prefix, document_prefix, status)
    SELECT :name, :provider, :model, :dimensions, :query_prefix, :document_prefix,
        CASE WHEN EXISTS (SELECT 1 FROM embedding_spaces WHERE status = 'active')
            THEN 'building' ELSE 'active' END
    ON CONFLICT (name) DO NOTHING
""")

_BY_NAME = text(f"SELECT {_COLUMNS} FROM embedding_spaces WHERE name = :name")


def register(connection: Connection, space: EmbeddingSpace) -> EmbeddingSpace:
    """The space as stored; made when it is new: active if there is none yet, else building (owner)."""
    connection.execute(
        _REGISTER,
        {
            "name": space.name,
            "provider": space.provider,
            "model": space.model,
            "dimensions": space.dimensions,
            "query_prefix": space.query_prefix,
            "document_prefix": space.document_prefix,
        },
    )
    row = connection.execute(_BY_NAME, {"name": space.name}).one()
    return EmbeddingSpace(**row._mapping)


def index_of(space: EmbeddingSpace) -> str:
    """The name of the HNSW index of the space's messages, where there is one."""
    return f"message_vectors_space_{int(space.id or 0)}"


_IS_INDEXED = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


def is_indexed(connection: Connection, space: EmbeddingSpace) -> bool | None:
    """Whether that index can be used; None: there is none."""
    valid: bool | None = connection.scalar(_IS_INDEXED, {"name": index_of(space)})
    return valid


def build_index(connection: Connection, space: EmbeddingSpace) -> None:
    """Build that index beside running work (owner, in autocommit).

    The size of the vectors and the space stand in the index, so they are written out, not passed.
    """
    connection.execute(
        text(f"""
            CREATE INDEX CONCURRENTLY {index_of(space)} ON message_vectors
            USING hnsw ((embedding::halfvec({int(space.dimensions)})) halfvec_cosine_ops)
            WITH (m = 16, ef_construction = 64) WHERE space_id = {int(space.id or 0)}
        """)
    )


def drop_index(connection: Connection, space: EmbeddingSpace) -> None:
    """Drop it beside running work (owner, in autocommit)."""
    connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {index_of(space)}"))

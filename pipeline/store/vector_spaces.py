"""SQL of embedding spaces and their indexes: register, list and switch them, count and delete their vectors."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, text

from pipeline.store import vectors
from pipeline.store.connections.statements import column, run
from pipeline.store.operations.checks import EMBEDDABLE
from pipeline.store.vectors import OWNERS
from schemas.kinds import EMBED
from schemas.vectors import Calibration, EmbeddingSpace, SpaceStatus, StoredSpace

_DESCRIBED = ("name", "provider", "model", "dimensions", "query_prefix", "document_prefix")
_COLUMNS = f"{vectors.COLUMNS}, status, activated_at"
_LISTING = text(f"SELECT {_COLUMNS} FROM embedding_spaces ORDER BY id")
_BY_NAME = text(f"SELECT {_COLUMNS} FROM embedding_spaces WHERE name = :name")
# one registration or switch at a time; readers and writers of vectors are not blocked
_LOCK = text("LOCK TABLE embedding_spaces IN SHARE ROW EXCLUSIVE MODE")
_REGISTER = text("""
    WITH active AS (SELECT EXISTS (SELECT 1 FROM embedding_spaces WHERE status = 'active') AS found)
    INSERT INTO embedding_spaces
        (name, provider, model, dimensions, query_prefix, document_prefix, status, activated_at)
    SELECT :name, :provider, :model, :dimensions, :query_prefix, :document_prefix,
        CASE WHEN found THEN 'building' ELSE 'active' END, CASE WHEN found THEN NULL ELSE now() END
    FROM active
    -- one that was retired is built anew
    ON CONFLICT (name) DO UPDATE SET status = excluded.status, activated_at = excluded.activated_at
        WHERE embedding_spaces.status = 'retired'
""")
_CALIBRATE = text("""
    UPDATE embedding_spaces SET calibration = CAST(:calibration AS jsonb) WHERE id = :id AND calibration IS NULL
""")
_SET_STATUS = text("""
    UPDATE embedding_spaces SET status = :status,
        activated_at = CASE WHEN :status = 'active' THEN clock_timestamp() ELSE activated_at END
    WHERE id = :id
""")
_JOB = f"""
    SELECT 1 FROM jobs w WHERE w.tenant_id = t.tenant_id AND w.kind = '{EMBED}' AND w.key = '{{kind}}:' || t.id
"""
# A row given up is a dead letter; a row in no space that has a job is new.
_LACKING = {
    kind: f"""
        FROM {rows} AND NOT EXISTS (SELECT 1 FROM {OWNERS[kind].table} v
            WHERE v.tenant_id = t.tenant_id AND v.{OWNERS[kind].owner} = t.id AND v.space_id = :space)
    """
    for kind, (rows, _) in EMBEDDABLE.items()
}
_COUNT_LACKING = {
    kind: text(f"""
        SELECT count(*) FILTER (WHERE NOT dead AND (elsewhere OR NOT pending)), count(*) FILTER (WHERE dead) FROM (
            SELECT EXISTS ({_JOB.format(kind=kind)} AND w.dead_at IS NOT NULL) AS dead,
                EXISTS ({_JOB.format(kind=kind)} AND w.due_at IS NOT NULL) AS pending,
                EXISTS (SELECT 1 FROM {OWNERS[kind].table} v JOIN embedding_spaces e ON e.id = v.space_id
                    WHERE v.tenant_id = t.tenant_id AND v.{OWNERS[kind].owner} = t.id AND e.status = 'active')
                    AS elsewhere
            {lacking}) lacks
    """)
    for kind, lacking in _LACKING.items()
}
_DELETE = {
    kind: text(f"""
        DELETE FROM {owner.table} WHERE space_id = :space AND ({owner.owner}, chunk_index) IN (
            SELECT {owner.owner}, chunk_index FROM {owner.table} WHERE space_id = :space LIMIT :limit)
    """)
    for kind, owner in OWNERS.items()
}
_QUESTIONS = text("""
    SELECT chat_id, query, coalesce(used, '[]'::jsonb) AS used FROM (
        SELECT DISTINCT ON (chat_id, query) chat_id, query, used, asked_at FROM query_log
        WHERE query IS NOT NULL ORDER BY chat_id, query, used IS NULL, asked_at DESC) asked
    ORDER BY used IS NULL, asked_at DESC LIMIT :limit
""")
_TEXTS = text("""
    WITH begin AS MATERIALIZED (SELECT min(id) + floor(random() * (max(id) - min(id))) AS id FROM messages)
    SELECT chat_id, content FROM (
        (SELECT chat_id, content FROM messages
        WHERE length(content) >= 20 AND id >= (SELECT id FROM begin) ORDER BY id LIMIT :limit)
        UNION ALL
        (SELECT chat_id, content FROM messages
        WHERE length(content) >= 20 AND id < (SELECT id FROM begin) ORDER BY id LIMIT :limit)
    ) AS found LIMIT :limit
""")


def _stored(row: Any) -> StoredSpace:
    fields = dict(row._mapping)
    status, activated_at = fields.pop("status"), fields.pop("activated_at")
    return StoredSpace(space=vectors.as_space(fields.items()), status=status, activated_at=activated_at)


def lock(connection: Connection) -> None:
    """Lock the spaces against other changes until the end of the transaction (owner)."""
    run(connection, _LOCK)


def listing(connection: Connection) -> list[StoredSpace]:
    """Return all spaces in order of creation."""
    return [_stored(row) for row in run(connection, _LISTING)]


def register(connection: Connection, space: EmbeddingSpace) -> StoredSpace:
    """Return the space as stored; create it if it is new or retired: active if there is none, else building (owner)."""
    run(connection, _REGISTER, **{name: getattr(space, name) for name in _DESCRIBED})
    return _stored(run(connection, _BY_NAME, name=space.name).one())


def set_status(connection: Connection, space: EmbeddingSpace, status: SpaceStatus) -> None:
    """Change the status of a space (owner); there can be one active space."""
    run(connection, _SET_STATUS, id=space.id, status=status)


def calibrate(
    connection: Connection, space: EmbeddingSpace, questions: Calibration, documents: Calibration
) -> None:
    """Store the calibration of a space, unless it has one already."""
    calibration = json.dumps({"questions": asdict(questions), "documents": asdict(documents)})
    run(connection, _CALIBRATE, id=space.id, calibration=calibration)


def count_lacking(connection: Connection, space: EmbeddingSpace) -> tuple[int, int]:
    """Count a tenant's rows without a vector in the space: `(missing, given up)`.

    New rows that no space has yet, and whose job is pending, do not count: they get all their vectors at once.
    """
    missing = given_up = 0
    for statement in _COUNT_LACKING.values():
        row = run(connection, statement, space=space.id).one()
        missing, given_up = missing + row[0], given_up + row[1]
    return missing, given_up


def delete_vectors(connection: Connection, kind: str, space: EmbeddingSpace, limit: int) -> int:
    """Delete some of a tenant's vectors of one kind of owner in a space; return how many."""
    return run(connection, _DELETE[kind], space=space.id, limit=limit).rowcount


def questions(connection: Connection, limit: int) -> Sequence[tuple[str, str, list[str]]]:
    """Return the tenant's latest distinct questions: `(chat, text, items that the answer used)`.

    Those whose answer was reported with its items come first.
    """
    return [(row.chat_id, row.query, list(row.used)) for row in run(connection, _QUESTIONS, limit=limit)]


def texts(connection: Connection, limit: int) -> Sequence[tuple[str, str]]:
    """Return some messages of the tenant, `(chat, text)`, from a random place on."""
    return [(row.chat_id, row.content) for row in run(connection, _TEXTS, limit=limit)]


MAX_INDEXED_DIMENSIONS = 4000
"""Maximum dimensions of a `halfvec` that pgvector indexes."""


_IS_INDEXED = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
# no chat has so many sessions that their vectors need an index
_TABLES = text("""
    SELECT relname, greatest(reltuples, 0) FROM pg_class LEFT JOIN pg_inherits ON inhrelid = oid
    WHERE relkind = 'r' AND coalesce(inhparent, oid) IN (to_regclass('message_vectors'), to_regclass('memory_vectors'))
    ORDER BY relname
""")


def indexed_tables(connection: Connection) -> dict[str, float]:
    """Return the tables and partitions whose vectors are indexed if there are many, with their estimated rows."""
    return {str(name): float(rows) for name, rows in run(connection, _TABLES)}


def index_of(table: str, space: EmbeddingSpace) -> str:
    """Return the name of the HNSW index of the space's vectors in a table or partition."""
    return f"{table}_space_{int(space.id or 0)}"


def is_indexed(connection: Connection, table: str, space: EmbeddingSpace) -> bool | None:
    """Tell whether that index can be used; None if it does not exist."""
    return next(iter(column(connection, _IS_INDEXED, name=index_of(table, space))), None)


def build_index(connection: Connection, table: str, space: EmbeddingSpace) -> None:
    """Build that index concurrently (owner, in autocommit); space and size are part of its definition."""
    statement = text(f"""
        CREATE INDEX CONCURRENTLY {index_of(table, space)} ON {table}
        USING hnsw ((embedding::halfvec({int(space.dimensions)})) halfvec_cosine_ops)
        WITH (m = 16, ef_construction = 64) WHERE space_id = {int(space.id or 0)}
    """)
    run(connection, statement)


def drop_index(connection: Connection, table: str, space: EmbeddingSpace) -> None:
    """Drop that index concurrently (owner, in autocommit)."""
    run(connection, text(f"DROP INDEX CONCURRENTLY IF EXISTS {index_of(table, space)}"))

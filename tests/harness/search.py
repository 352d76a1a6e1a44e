"""Messages of exact words and vectors, and the index of these."""

import random

from sqlalchemy import Connection, NullPool, create_engine, text

from pipeline.store import vector_spaces, vectors
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT
from tests.harness.owner import owner_url


def write(
    connection: Connection, bags: list[list[str]], tenant: str = TENANT, chat: str = "test:1"
) -> list[int]:
    """Messages of exactly these words; their ids."""
    connection.execute(
        text("INSERT INTO tenants (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING"), {"t": tenant}
    )
    connection.execute(
        text(
            "INSERT INTO chats (tenant_id, chat_id, language) VALUES (:t, :c, 'simple') ON CONFLICT DO NOTHING"
        ),
        {"t": tenant, "c": chat},
    )
    rows = connection.execute(
        text("""
            INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, role, content, token_count, sent_at,
                language)
            SELECT :t, :c, n::text, 's', 'user', content, 1, TIMESTAMPTZ '2026-01-01 00:00Z' + n * interval '1 min',
                'simple'
            FROM unnest(CAST(:contents AS text[])) WITH ORDINALITY AS given (content, n) RETURNING id
        """),
        {"t": tenant, "c": chat, "contents": [" ".join(bag) for bag in bags]},
    )
    return [row[0] for row in rows]


def unit(rng: random.Random) -> Vector:
    """A vector near one of a few directions, as those of texts are."""
    main = rng.randrange(256)
    values = [(rng.random() - 0.5) / 8 + (number == main) for number in range(256)]
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def build_index(settings: Settings, kind: str = "message") -> None:
    """Build the index of the space's vectors of a kind of owner, in each partition, as the owner."""
    engine = create_engine(
        owner_url(settings).replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        (space,) = vectors.written_spaces(connection)
        for table in vector_spaces.indexed_tables(connection):
            if table.startswith(kind):
                vector_spaces.build_index(connection, table, space)


def scans(database: Database, kind: str = "message") -> int:
    """How often the indexes of vectors were used."""
    scanned = text("SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname = ANY(:names)")
    with database.tenant(TENANT) as connection:
        return int(connection.scalar(scanned, {"names": indexes(database, kind)}) or 0)


def indexes(database: Database, kind: str = "message") -> list[str]:
    """The names of the indexes of vectors."""
    with database.tenant(TENANT) as connection:
        (space,) = vectors.written_spaces(connection)
        tables = [table for table in vector_spaces.indexed_tables(connection) if table.startswith(kind)]
    return [vector_spaces.index_of(table, space) for table in tables]

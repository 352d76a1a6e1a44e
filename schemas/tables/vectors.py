"""Embedding spaces, and the vectors of messages, sessions and memories."""

from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    Uuid,
)

from schemas.tables.columns import TIME, metadata, need, refers

# a model's vectors; of the deployment, not of a tenant
embedding_spaces = Table(
    "embedding_spaces",
    metadata,
    need("id", Integer),
    need("name"),
    need("provider"),
    need("model"),
    need("dimensions", Integer),
    need("query_prefix"),
    need("document_prefix"),
    need("status"),
    need("created_at", TIME),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("name"),
)


def _vectors(name: str, owner: Column[Any], owner_table: str, *scope: Column[Any]) -> Table:
    return Table(
        name,
        metadata,
        need("tenant_id"),
        owner,
        need("space_id", Integer),
        # copied, so that a scan within a scope needs no join
        *scope,
        # of the embedded text: equal text is embedded once
        need("content_hash", LargeBinary),
        need("embedding", HALFVEC()),
        PrimaryKeyConstraint("tenant_id", owner.name, "space_id"),
        refers("space_id", "embedding_spaces(id)"),
        refers(f"tenant_id {owner.name}", f"{owner_table}(tenant_id id)", ondelete="CASCADE"),
    )


message_vectors = _vectors(
    "message_vectors", need("message_id", BigInteger), "messages", need("chat_id"), need("sent_at", TIME)
)
session_vectors = _vectors(
    "session_vectors", need("session_id", BigInteger), "conversation_sessions", need("chat_id")
)
memory_vectors = _vectors("memory_vectors", need("memory_id", Uuid), "memories")

"""Durable statements and documents, by scope."""

from sqlalchemy import ARRAY, REAL, BigInteger, Integer, LargeBinary, PrimaryKeyConstraint, Table, Uuid
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from schemas.tables.columns import TIME, may, metadata, need, refers

memories = Table(
    "memories",
    metadata,
    need("tenant_id"),
    need("id", Uuid),
    need("scope"),
    need("type"),
    may("session_id", BigInteger),
    may("user_id"),
    may("agent_id"),
    need("content"),
    need("content_hash", LargeBinary),
    # 0 to 10
    need("importance", REAL),
    need("access_count", Integer),
    may("last_accessed_at", TIME),
    may("expires_at", TIME),
    need("source"),
    may("source_session_id", BigInteger),
    need("source_message_ids", ARRAY(BigInteger)),
    # the chat it was learned in: it is shown only to those who were there
    may("learned_in"),
    may("document_id"),
    may("chunk_index", Integer),
    need("metadata", JSONB),
    need("language"),
    may("tsv", TSVECTOR),
    need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
    refers("tenant_id session_id", "conversation_sessions(tenant_id id)", ondelete="CASCADE"),
)

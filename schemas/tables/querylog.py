"""Contexts served, and what was answered."""

from sqlalchemy import ARRAY, REAL, Integer, PrimaryKeyConstraint, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from schemas.tables.columns import TIME, may, metadata, need, refers

# contexts served, and what was answered: see pipeline/context/query_log.py
query_log = Table(
    "query_log",
    metadata,
    need("tenant_id"),
    need("context_id"),
    need("chat_id"),
    may("user_id"),
    may("agent_id"),
    may("session_key"),
    need("profile"),
    # when the question came
    need("asked_at", TIME),
    # none: redacted
    may("query"),
    # the block that each item stood in, by `message:ID`, `session:ID`, `memory:ID`, `document:ID`
    need("shown", JSONB),
    # by source: recent, message, session, memory, document
    need("tokens", JSONB),
    need("chars", JSONB),
    need("used_tokens", Integer),
    need("budget", Integer),
    need("latency_ms", REAL),
    # what could not be done, by its first word
    need("degraded", ARRAY(Text)),
    # as the bot reported it
    may("answer"),
    # the items that the bot says it used
    may("used", JSONB),
    may("answered_at", TIME),
    # the memory that question and answer were kept as
    may("memory_id", Uuid),
    # since when something of it was forgotten
    may("redacted_at", TIME),
    PrimaryKeyConstraint("tenant_id", "context_id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

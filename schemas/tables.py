"""The tables as SQLAlchemy knows them; the migrations make them, a test holds the two together.

Ids are unique together with their tenant, and every foreign key includes `tenant_id`: Postgres checks foreign
keys past row-level security. Times are UTC. What only Postgres can say (partial and GIN indexes, checks,
generated columns, policies) stands in the migrations.
"""

from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR
from sqlalchemy.types import TypeEngine

REVISION = "0008"
"""The migration that this program needs; a test holds it to the newest one."""

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)

TIME = DateTime(timezone=True)


def _need(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any] = Text) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _may(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any] = Text) -> Column[Any]:
    return Column(name, kind, nullable=True)


def _refers(columns: str, target: str, **options: str) -> ForeignKeyConstraint:
    names = columns.split()
    table, _, there = target.partition("(")
    targets = [f"{table}.{name}" for name in there.rstrip(")").split()]
    return ForeignKeyConstraint(names, targets, **options)  # type: ignore[arg-type]


tenants = Table(
    "tenants",
    metadata,
    _need("tenant_id"),
    _need("settings", JSONB),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id"),
)

chats = Table(
    "chats",
    metadata,
    _need("tenant_id"),
    _need("chat_id"),
    _need("platform"),
    _need("kind"),
    _need("title"),
    _may("agent_id"),
    _need("time_zone"),
    # a text search configuration, copied to the chat's messages and sessions
    _need("language"),
    # how many messages are placed, and their distinct lexemes added up: BM25's N and average length
    _need("message_count", BigInteger),
    _need("lexeme_count", BigInteger),
    # until then a history is being imported: summaries wait
    _may("settling_until", TIME),
    # off: messages are kept, and nothing is made of them
    _need("memory", Boolean),
    _need("settings", JSONB),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "chat_id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

messages = Table(
    "messages",
    metadata,
    _need("tenant_id"),
    _need("id", BigInteger),
    _need("chat_id"),
    _need("external_id"),
    _need("session_key"),
    _need("sender_id"),
    _need("sender_name"),
    _may("agent_id"),
    _need("role"),
    _need("content"),
    _need("token_count", Integer),
    _need("sent_at", TIME),
    _need("position", Integer),
    _need("received_at", TIME),
    _may("edited_at", TIME),
    _need("revision", Integer),
    _need("language"),
    _need("metadata", JSONB),
    _may("tsv", TSVECTOR),
    PrimaryKeyConstraint("tenant_id", "id"),
    UniqueConstraint("tenant_id", "chat_id", "external_id"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

# accepted and not yet placed in a session
arrivals = Table(
    "arrivals",
    metadata,
    _need("tenant_id"),
    _need("chat_id"),
    _need("message_id", BigInteger),
    # placing fails because of it: it stands aside until an operator releases it, with the reason and the request
    _may("quarantined_at", TIME),
    _may("error"),
    _may("trace_id"),
    PrimaryKeyConstraint("tenant_id", "chat_id", "message_id"),
    _refers("tenant_id message_id", "messages(tenant_id id)", ondelete="CASCADE"),
)

# where an agent closed a session that it had named, in sender time
session_closes = Table(
    "session_closes",
    metadata,
    _need("tenant_id"),
    _need("chat_id"),
    _need("session_key"),
    _need("closed_at", TIME),
    # whether placing has looked if a session must be cut there
    _need("seen", Boolean),
    PrimaryKeyConstraint("tenant_id", "chat_id", "session_key", "closed_at"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

conversation_sessions = Table(
    "conversation_sessions",
    metadata,
    _need("tenant_id"),
    _need("id", BigInteger),
    _need("chat_id"),
    _need("session_key"),
    _need("started_at", TIME),
    _need("ended_at", TIME),
    _need("message_count", Integer),
    _need("token_count", BigInteger),
    # the names of who spoke, sorted, so that they do not depend on the order of arrival
    _need("participants", ARRAY(Text)),
    _need("status"),
    _may("merged_into", BigInteger),
    _may("failure_reason"),
    # raised by every change of its messages
    _need("revision", BigInteger),
    _may("summary_text"),
    _need("topic_tags", JSONB),
    _need("decisions", JSONB),
    _need("open_questions", JSONB),
    _need("action_items", JSONB),
    _need("entities", JSONB),
    _may("summary_model"),
    _may("summary_version", Integer),
    # what the session was when the stored summary was made
    _may("summary_revision", BigInteger),
    _may("summary_message_count", Integer),
    _may("summary_token_count", BigInteger),
    _may("summary_ended_at", TIME),
    _may("summary_created_at", TIME),
    _need("search_text"),
    _need("language"),
    _may("tsv", TSVECTOR),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
    _refers("tenant_id merged_into", "conversation_sessions(tenant_id id)", ondelete="CASCADE"),
)

memories = Table(
    "memories",
    metadata,
    _need("tenant_id"),
    _need("id", Uuid),
    _need("scope"),
    _need("type"),
    _may("chat_id"),
    _may("session_id", BigInteger),
    _may("user_id"),
    _may("agent_id"),
    _need("content"),
    _need("content_hash", LargeBinary),
    # 0 to 10
    _need("importance", REAL),
    _need("access_count", Integer),
    _may("last_accessed_at", TIME),
    _may("expires_at", TIME),
    _need("source"),
    _may("source_session_id", BigInteger),
    _need("source_message_ids", ARRAY(BigInteger)),
    # the chat it was learned in: it is shown only to those who were there
    _may("learned_in"),
    _may("document_id"),
    _may("chunk_index", Integer),
    _may("superseded_by", Uuid),
    _need("metadata", JSONB),
    _need("language"),
    _may("tsv", TSVECTOR),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
    _refers("tenant_id session_id", "conversation_sessions(tenant_id id)", ondelete="CASCADE"),
    _refers("tenant_id superseded_by", "memories(tenant_id id)", ondelete="SET NULL (superseded_by)"),
)

# what is owed: see pipeline/ledger.py
work = Table(
    "work",
    metadata,
    _need("tenant_id"),
    _need("kind"),
    _need("key"),
    # counts the changes that ask for this work
    _need("wanted", BigInteger),
    # what `wanted` was when somebody claimed the row; none: nobody has it
    _may("claimed", BigInteger),
    # what `wanted` was when the work was last done
    _need("done", BigInteger),
    _need("attempts", Integer),
    # when it may be claimed, or when the claim's lease ends; none: nothing is owed
    _may("due_at", TIME),
    # the newest claim's number; a result is saved only under it
    _may("token", BigInteger),
    # since when it is owed without a break
    _need("owed_since", TIME),
    _may("last_error"),
    # the request that asked first
    _may("trace_id"),
    # given up: a dead letter
    _may("dead_at", TIME),
    PrimaryKeyConstraint("tenant_id", "kind", "key"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# a model's vectors; of the deployment, not of a tenant
embedding_spaces = Table(
    "embedding_spaces",
    metadata,
    _need("id", Integer),
    _need("name"),
    _need("provider"),
    _need("model"),
    _need("dimensions", Integer),
    _need("query_prefix"),
    _need("document_prefix"),
    _need("status"),
    _need("created_at", TIME),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("name"),
)

backfills = Table(
    "backfills",
    metadata,
    _need("tenant_id"),
    _need("id", BigInteger),
    _need("kind"),
    _need("filter", JSONB),
    _may("space_id", Integer),
    # the last key seen: progress only
    _may("cursor", JSONB),
    _need("batch_size", Integer),
    _may("rate_per_second", REAL),
    _may("total", BigInteger),
    _need("seen", BigInteger),
    _need("raised", BigInteger),
    _need("state"),
    _may("error"),
    _need("created_at", TIME),
    _need("updated_at", TIME),
    _may("finished_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
    _refers("space_id", "embedding_spaces(id)"),
)

daily_counters = Table(
    "daily_counters",
    metadata,
    _need("tenant_id"),
    _need("day", Date),
    _need("name"),
    _need("slot", SmallInteger),
    _need("value", Double),
    PrimaryKeyConstraint("tenant_id", "day", "name", "slot"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# edits that came before their message
pending_changes = Table(
    "pending_changes",
    metadata,
    _need("tenant_id"),
    _need("chat_id"),
    _need("external_id"),
    _need("content"),
    _need("token_count", Integer),
    _need("edited_at", TIME),
    _need("received_at", TIME),
    PrimaryKeyConstraint("tenant_id", "chat_id", "external_id"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

# what a tenant's tombstones are hashed with
tenant_keys = Table(
    "tenant_keys",
    metadata,
    _need("tenant_id"),
    _need("key", LargeBinary),
    PrimaryKeyConstraint("tenant_id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# what must not come back: see pipeline/tombstones.py
tombstones = Table(
    "tombstones",
    metadata,
    _need("tenant_id"),
    # keyed, of the kind and the name: who reads the table learns neither
    _need("hash", LargeBinary),
    _need("kind"),
    # stops what was sent until then; none: for good
    _may("until", TIME),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "hash"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# what was forgotten, and how much of it there was
forget_receipts = Table(
    "forget_receipts",
    metadata,
    _need("tenant_id"),
    _need("id", BigInteger),
    _need("kind"),
    # what is to be forgotten, by name; gone when it is
    _may("subject", JSONB),
    _need("subject_hash", LargeBinary),
    # what was sent or came until then
    _need("until", TIME),
    _need("counts", JSONB),
    _need("created_at", TIME),
    _may("finished_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# people; a sender that is linked to nobody is a user of its own, by its own id
users = Table(
    "users",
    metadata,
    _need("tenant_id"),
    _need("user_id"),
    _need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "user_id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# senders, and users that were merged into others; a `user_id` is never linked itself
user_senders = Table(
    "user_senders",
    metadata,
    _need("tenant_id"),
    _need("sender_id"),
    _need("user_id"),
    _need("linked_at", TIME),
    PrimaryKeyConstraint("tenant_id", "sender_id"),
    _refers("tenant_id user_id", "users(tenant_id user_id)", ondelete="CASCADE"),
)

# who is in a chat: a trigger on `messages` notes whoever speaks there, the bots themselves aside
chat_members = Table(
    "chat_members",
    metadata,
    _need("tenant_id"),
    _need("chat_id"),
    # empty: somebody whose name is not kept
    _need("sender_id"),
    PrimaryKeyConstraint("tenant_id", "chat_id", "sender_id"),
    _refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)


# contexts served, and what was answered: see pipeline/querylog.py
query_log = Table(
    "query_log",
    metadata,
    _need("tenant_id"),
    _need("context_id"),
    _need("chat_id"),
    _may("user_id"),
    _may("agent_id"),
    _may("session_key"),
    _need("profile"),
    # when the question came
    _need("asked_at", TIME),
    # none: redacted
    _may("query"),
    # the block that each item stood in, by `message:ID`, `session:ID`, `memory:ID`, `document:ID`
    _need("shown", JSONB),
    # by source: recent, message, session, memory, document
    _need("tokens", JSONB),
    _need("chars", JSONB),
    _need("used_tokens", Integer),
    _need("budget", Integer),
    _need("latency_ms", REAL),
    # what could not be done, by its first word
    _need("degraded", ARRAY(Text)),
    # as the bot reported it
    _may("answer"),
    # the items that the bot says it used
    _may("used", JSONB),
    _may("answered_at", TIME),
    # the memory that question and answer were kept as
    _may("memory_id", Uuid),
    # since when something of it was forgotten
    _may("redacted_at", TIME),
    PrimaryKeyConstraint("tenant_id", "context_id"),
    _refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)


def _vectors(name: str, owner: Column[Any], owner_table: str, *scope: Column[Any]) -> Table:
    return Table(
        name,
        metadata,
        _need("tenant_id"),
        owner,
        _need("space_id", Integer),
        # copied, so that a scan within a scope needs no join
        *scope,
        # of the embedded text: equal text is embedded once
        _need("content_hash", LargeBinary),
        _need("embedding", HALFVEC()),
        PrimaryKeyConstraint("tenant_id", owner.name, "space_id"),
        _refers("space_id", "embedding_spaces(id)"),
        _refers(f"tenant_id {owner.name}", f"{owner_table}(tenant_id id)", ondelete="CASCADE"),
    )


message_vectors = _vectors(
    "message_vectors", _need("message_id", BigInteger), "messages", _need("chat_id"), _need("sent_at", TIME)
)
session_vectors = _vectors(
    "session_vectors",
    _need("session_id", BigInteger),
    "conversation_sessions",
    _need("chat_id"),
    _need("ended_at", TIME),
)
memory_vectors = _vectors("memory_vectors", _need("memory_id", Uuid), "memories", _need("scope"))

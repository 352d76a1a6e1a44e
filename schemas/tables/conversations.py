"""What was said: tenants, their chats and who is in them, messages, and the sessions they make."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from schemas.tables.columns import TIME, may, metadata, need, refers

tenants = Table(
    "tenants",
    metadata,
    need("tenant_id"),
    need("settings", JSONB),
    need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id"),
)

chats = Table(
    "chats",
    metadata,
    need("tenant_id"),
    need("chat_id"),
    need("platform"),
    need("kind"),
    need("title"),
    need("time_zone"),
    # a text search configuration, copied to the chat's messages and sessions
    need("language"),
    # how many messages are placed, and their distinct lexemes added up: BM25's N and average length
    need("message_count", BigInteger),
    need("lexeme_count", BigInteger),
    # until then a history is being imported: summaries wait
    may("settling_until", TIME),
    # off: messages are kept, and nothing is made of them
    need("memory", Boolean),
    need("created_at", TIME),
    # the chat that has its messages now, and is meant where this one is named
    may("moved_to"),
    PrimaryKeyConstraint("tenant_id", "chat_id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
    refers("tenant_id moved_to", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

# who is in a chat: a trigger on `messages` notes whoever speaks there, the bots themselves aside
chat_members = Table(
    "chat_members",
    metadata,
    need("tenant_id"),
    need("chat_id"),
    # empty: somebody whose name is not kept
    need("sender_id"),
    PrimaryKeyConstraint("tenant_id", "chat_id", "sender_id"),
    refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

messages = Table(
    "messages",
    metadata,
    need("tenant_id"),
    need("id", BigInteger),
    need("chat_id"),
    need("external_id"),
    need("session_key"),
    need("sender_id"),
    need("sender_name"),
    may("agent_id"),
    need("role"),
    need("content"),
    need("token_count", Integer),
    need("sent_at", TIME),
    need("position", Integer),
    need("received_at", TIME),
    may("edited_at", TIME),
    need("revision", Integer),
    need("language"),
    need("metadata", JSONB),
    may("tsv", TSVECTOR),
    # the external id of the message of this chat that this one answers, which need not be there
    may("reply_to"),
    # a conversation of its own within the chat, such as a forum's topic
    may("thread"),
    PrimaryKeyConstraint("tenant_id", "id"),
    UniqueConstraint("tenant_id", "chat_id", "external_id"),
    refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

# accepted and not yet placed in a session
arrivals = Table(
    "arrivals",
    metadata,
    need("tenant_id"),
    need("chat_id"),
    need("message_id", BigInteger),
    # placing fails because of it: it stands aside until an operator releases it, with the reason and the request
    may("quarantined_at", TIME),
    may("error"),
    may("trace_id"),
    # 0: live, 1: of an import; the lower one is placed and embedded first
    need("priority", SmallInteger),
    PrimaryKeyConstraint("tenant_id", "message_id"),
    refers("tenant_id message_id", "messages(tenant_id id)", ondelete="CASCADE"),
)

# edits that came before their message
pending_changes = Table(
    "pending_changes",
    metadata,
    need("tenant_id"),
    need("chat_id"),
    need("external_id"),
    need("content"),
    need("token_count", Integer),
    need("edited_at", TIME),
    need("received_at", TIME),
    PrimaryKeyConstraint("tenant_id", "chat_id", "external_id"),
    refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

# where an agent closed a session that it had named, in sender time
session_closes = Table(
    "session_closes",
    metadata,
    need("tenant_id"),
    need("chat_id"),
    need("session_key"),
    need("closed_at", TIME),
    # whether placing has looked if a session must be cut there
    need("seen", Boolean),
    PrimaryKeyConstraint("tenant_id", "chat_id", "session_key", "closed_at"),
    refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
)

conversation_sessions = Table(
    "conversation_sessions",
    metadata,
    need("tenant_id"),
    need("id", BigInteger),
    need("chat_id"),
    need("session_key"),
    need("started_at", TIME),
    need("ended_at", TIME),
    need("message_count", Integer),
    need("token_count", BigInteger),
    # the names of who spoke, sorted, so that they do not depend on the order of arrival
    need("participants", ARRAY(Text)),
    need("status"),
    may("merged_into", BigInteger),
    # since when it is a pointer to another; none: from before that was noted
    may("merged_at", TIME),
    may("failure_reason"),
    # raised by every change of its messages
    need("revision", BigInteger),
    # raised when sessions are joined or cut, or a text is edited: a summary of what was read before is not saved
    need("inner_revision", BigInteger),
    may("summary_text"),
    need("topic_tags", JSONB),
    need("decisions", JSONB),
    need("open_questions", JSONB),
    need("action_items", JSONB),
    need("entities", JSONB),
    may("summary_model"),
    may("summary_version", Integer),
    # what the session was when the stored summary was made
    may("summary_revision", BigInteger),
    may("summary_message_count", Integer),
    may("summary_token_count", BigInteger),
    may("summary_ended_at", TIME),
    may("summary_created_at", TIME),
    need("search_text"),
    need("language"),
    may("tsv", TSVECTOR),
    need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE"),
    refers("tenant_id merged_into", "conversation_sessions(tenant_id id)", ondelete="CASCADE"),
)

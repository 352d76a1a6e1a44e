"""Where the messages of a filled chat stand, and which of them the memories that contexts show were learned from."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy import text

from ops.dev.eval.precision import PlacedMessage
from ops.dev.shipped import Shipped
from pipeline.store import evidence
from schemas.context import Context

_PLACED = text("""
    SELECT m.id, m.external_id, s.id, row_number() OVER (PARTITION BY s.id ORDER BY m.sent_at, m.id)
    FROM conversation_sessions s JOIN messages m
        ON m.tenant_id = s.tenant_id AND m.chat_id = s.chat_id AND m.session_key = s.session_key
        AND m.sent_at BETWEEN s.started_at AND s.ended_at
    WHERE s.chat_id = :chat AND s.status <> 'merged'
""")


def placed_messages(backscroll: Shipped, chat_id: str) -> dict[str, PlacedMessage]:
    """Return the messages of a chat by id, as contexts name them."""
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(_PLACED, {"chat": chat_id})
        return {str(row[0]): PlacedMessage(*row[1:]) for row in rows}


def messages_of_memories(backscroll: Shipped, contexts: Iterable[Context]) -> Mapping[str, list[str]]:
    """Return the ids of the messages that each memory in these contexts was learned from."""
    shown = {
        UUID(item.id)
        for context in contexts
        for block in context.blocks
        for item in block.items
        if item.kind == "memory"
    }
    found: dict[str, list[str]] = defaultdict(list)
    if shown:
        with backscroll.database.tenant(backscroll.tenant) as connection:
            for one in evidence.of_memories(connection, list(shown)):
                found[str(one.memory_id)] += map(str, one.messages)
    return found

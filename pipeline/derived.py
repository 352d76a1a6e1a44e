"""Take back what was made of messages that go, or that say something else now.

Memories made of them; question and answer of contexts that showed them; and of the query log what quotes them:

- a message, or a session that it lies in, that a context showed is taken out of what it showed, and the answer to
  that context with it, as it may repeat the message;
- a question that says what the message said is taken out, with its answer: a bot asks with the very message that
  it reacts to;
- what somebody else asked in their own words stays, as what they said does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.store import derived as store
from pipeline.store import querylog


@dataclass(frozen=True, kw_only=True)
class TakenBack:
    """How much went."""

    memories: int = 0
    # rows of the query log that nothing was taken out of before
    queries: int = 0


def take_back(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    *,
    message_ids: Sequence[int] = (),
    session_ids: Sequence[int] = (),
    texts: Sequence[str] = (),
) -> TakenBack:
    """Take back what was made of a chat's messages and of sessions, whose chat is locked alone.

    `texts` is what the messages said.
    """
    gone = store.drop_memories(
        connection,
        tenant_id,
        chat_id=chat_id,
        message_ids=message_ids,
        session_ids=session_ids,
        texts=texts,
    )
    items = [*(f"message:{each}" for each in message_ids), *(f"session:{each}" for each in session_ids)]
    redacted = querylog.redact_shown(connection, items, chat_id)
    redacted |= querylog.redact_shown(connection, _as_items(gone))
    if texts:
        redacted |= querylog.redact_quoting(connection, chat_id, texts)
    return TakenBack(memories=len(gone), queries=len(redacted))


def take_back_memories(connection: Connection, tenant_id: str, memory_ids: Sequence[str]) -> TakenBack:
    """Take back what was made of memories that have been deleted."""
    gone = store.drop_recalling(connection, tenant_id, memory_ids)
    redacted = querylog.redact_shown(connection, _as_items([*memory_ids, *gone]))
    return TakenBack(memories=len(gone), queries=len(redacted))


def _as_items(memory_ids: Sequence[str]) -> list[str]:
    return [f"{kind}:{each}" for each in memory_ids for kind in ("memory", "document")]
